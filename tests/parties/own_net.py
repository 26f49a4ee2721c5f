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
