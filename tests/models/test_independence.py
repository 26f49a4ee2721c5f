"""Tests that layers which mix the rows of a batch are found."""

import pytest
import torch
from torch import Tensor, nn

from models.bottoms import cnn, mlp
from models.independence import find_row_mixing


class Centred(nn.Module):
    """Subtracts the mean of the batch."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows - rows.mean(dim=0, keepdim=True)


class Remembering(nn.Module):
    """Adds the previous input."""

    seen = torch.zeros(6)

    def forward(self, rows: Tensor) -> Tensor:
        self.seen, before = self.seen + rows.sum(dim=0), self.seen
        return rows + before


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(6), "BatchNorm1d"),
        (nn.BatchNorm1d(6, track_running_stats=False, affine=False), "BatchNorm1d"),
        (nn.InstanceNorm1d(6, track_running_stats=True), "InstanceNorm1d"),
        (Centred(), "depend on other rows"),
        (Remembering(), "depend on other rows"),
    ],
)
def test_a_layer_that_mixes_rows_is_found(layer: nn.Module, message: str) -> None:
    result = find_row_mixing(nn.Sequential(nn.Linear(6, 6), layer), (6,), torch.float32)
    assert result is not None
    assert message in result


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (mlp(6, [5], 4), (6,)),
        (cnn((1, 8, 4), [4, 8], 3), (1, 8, 4)),
        (nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)), (6,)),
    ],
)
def test_our_bottom_models_do_not_mix_rows(network: nn.Module, shape: tuple[int, ...]) -> None:
    assert find_row_mixing(network, shape, torch.float32) is None
