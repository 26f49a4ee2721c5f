"""Whole networks, from a row to its logits, as every client of a horizontal federation has one."""

from collections.abc import Sequence
from math import prod

from torch import nn

from models.bottoms import mlp


def whole_mlp(shape: Sequence[int], hidden: Sequence[int], classes: int) -> nn.Module:
    """``[batch, *shape] -> [batch, classes]``; FedOSD has 784-400-400-10."""
    return nn.Sequential(nn.Flatten(), mlp(prod(shape), hidden, classes))


def lenet5(shape: Sequence[int], classes: int) -> nn.Module:
    """LeNet-5 (LeCun et al. 1998) with ReLU and maxima: 6, 16, 120, 84.

    Raises:
        ValueError: the images are too small.
    """
    channels, height, width = _image(shape, 28)
    rest = ((height + 4 - 4) // 2 - 4) // 2, ((width + 4 - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16 * rest[0] * rest[1], 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


def two_convolutions(shape: Sequence[int], classes: int) -> nn.Module:
    """The CNN of Halimi et al. 2022 and FedOSD: 5x5 convolutions of 64, then 384 and 192.

    Its dropout is left out: with it two runs of one seed would differ.
    """
    channels, height, width = _image(shape, 16)
    rest = ((height - 4) // 2 - 4) // 2, ((width - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * rest[0] * rest[1], 384), nn.ReLU(),
        nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, classes),
    )  # fmt: skip


def _image(shape: Sequence[int], least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        raise ValueError(f"needs images of {least} pixels a side at least, not {tuple(shape)}")
    return shape[0], shape[1], shape[2]
