"""A party's own bottom model, as a user would write it."""

from torch import Tensor, nn

WIDTH = 5


class Bottom(nn.Module):
    """Takes the shape of one row and the width of its embedding."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0], width)

    def forward(self, rows: Tensor) -> Tensor:
        return self.linear(rows).tanh()


class Remembers(nn.Sequential):
    """BatchNorm keeps statistics of the rows it saw."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(nn.Linear(shape[0], width), nn.BatchNorm1d(width))


class Forgets(nn.Sequential):
    """Dropout draws from a generator that no seed of the agreement reaches."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(nn.Linear(shape[0], width), nn.Dropout())


class BatchFree(Bottom):
    """Keeps nothing of any row, and yet makes each row depend on its batch."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(shape, width)
        self.norm = nn.BatchNorm1d(width, affine=False, track_running_stats=False)

    def forward(self, rows: Tensor) -> Tensor:
        mixed: Tensor = self.norm(super().forward(rows))
        return mixed
