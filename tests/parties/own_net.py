"""A party's own bottom model, as a user would write it."""

from torch import Tensor, nn

WIDTH = 5


class Bottom(nn.Module):
    """A bottom model for rows of a given shape and embeddings of a given width."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0], width)

    def forward(self, rows: Tensor) -> Tensor:
        return self.linear(rows).tanh()


class Remembers(nn.Sequential):
    """A model with BatchNorm, which stores statistics of the rows."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(nn.Linear(shape[0], width), nn.BatchNorm1d(width))


class Forgets(nn.Sequential):
    """A model with dropout, whose generator no agreed seed controls."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(nn.Linear(shape[0], width), nn.Dropout())


class BatchFree(Bottom):
    """A model that stores nothing of a row, but makes each row depend on its batch."""

    def __init__(self, shape: tuple[int, ...], width: int) -> None:
        super().__init__(shape, width)
        self.norm = nn.BatchNorm1d(width, affine=False, track_running_stats=False)

    def forward(self, rows: Tensor) -> Tensor:
        mixed: Tensor = self.norm(super().forward(rows))
        return mixed
