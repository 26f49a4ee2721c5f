"""Tests of the bottom models: shapes, odd sides, refused sizes, and no running statistics."""

from math import prod

import pytest
import torch
from torch import nn

from models.bottoms import cnn, mlp


def test_mlp_maps_columns_to_an_embedding() -> None:
    assert mlp(5, [8, 6], 3)(torch.zeros(2, 5)).shape == (2, 3)


def test_mlp_without_hidden_layers_is_linear() -> None:
    [layer] = mlp(5, [], 3).children()
    assert isinstance(layer, nn.Linear)


@pytest.mark.parametrize("shape", [(1, 8, 4), (1, 28, 14), (1, 28, 28), (3, 7, 5), (1, 1, 1)])
def test_cnn_takes_images_and_flat_rows_of_any_size(shape: tuple[int, int, int]) -> None:
    bottom = cnn(shape, [4, 6], 3)
    images = torch.rand(2, *shape)
    flat = images.reshape(2, prod(shape))
    assert bottom(images).shape == (2, 3)
    assert torch.equal(bottom(images), bottom(flat))


def test_cnn_keeps_no_running_statistics() -> None:
    assert list(cnn((1, 8, 4), [4], 3).buffers()) == []


def test_the_output_of_a_row_does_not_depend_on_its_batch() -> None:
    bottom, images = cnn((1, 8, 4), [4], 3), torch.rand(5, 32)
    torch.testing.assert_close(bottom(images)[:1], bottom(images[:1]))


@pytest.mark.parametrize(("inputs", "hidden", "width"), [(0, [4], 2), (3, [0], 2), (3, [4], 0)])
def test_empty_mlp_is_refused(inputs: int, hidden: list[int], width: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        mlp(inputs, hidden, width)


@pytest.mark.parametrize("channels", [[], [0]])
def test_cnn_without_stages_or_channels_is_refused(channels: list[int]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        cnn((1, 8, 4), channels, 2)
