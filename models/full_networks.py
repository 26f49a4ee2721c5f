"""Full networks, from an input row to its logits, for clients of a horizontal federation."""

from collections.abc import Sequence
from math import prod

from torch import nn

from models.bottoms import mlp


def full_mlp(shape: Sequence[int], hidden: Sequence[int], classes: int) -> nn.Module:
    """Return a perceptron ``[batch, *shape] -> [batch, classes]``, such as FedOSD's 784-400-400-10.

    Raises:
        ValueError: a size is less than 1.
    """
    return nn.Sequential(nn.Flatten(), mlp(prod(shape), hidden, classes))


def lenet5(shape: Sequence[int], classes: int) -> nn.Module:
    """Return LeNet-5 (LeCun et al. 1998), ``[batch, *shape] -> [batch, classes]``.

    The network has ReLU, max pooling and hidden layers of widths 6, 16, 120 and 84.

    Raises:
        ValueError: ``shape`` is not ``[channels, height, width]`` with 28 or more pixels per side.
    """
    channels, height, width = _image_shape(shape, 28)
    rest = ((height + 4 - 4) // 2 - 4) // 2, ((width + 4 - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16 * rest[0] * rest[1], 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


def two_convolution_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """Return the CNN of Halimi et al. 2022 and FedOSD, ``[batch, *shape] -> [batch, classes]``.

    The CNN has two 5x5 convolutions of 64 channels and linear layers of widths 384 and 192. It has
    no dropout, because with dropout two runs with the same seed would differ.

    Raises:
        ValueError: ``shape`` is not ``[channels, height, width]`` with 16 or more pixels per side.
    """
    channels, height, width = _image_shape(shape, 16)
    rest = ((height - 4) // 2 - 4) // 2, ((width - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * rest[0] * rest[1], 384), nn.ReLU(),
        nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, classes),
    )  # fmt: skip


def mimir_cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """Return the CNN of Mimir (section VI-A), ``[batch, *shape] -> [batch, classes]``.

    The CNN has two 5x5 convolutions, of 32 and 64 channels, and one hidden linear layer of width
    512.

    Raises:
        ValueError: ``shape`` is not ``[channels, height, width]`` with 16 or more pixels per side.
    """
    channels, height, width = _image_shape(shape, 16)
    rest = ((height - 4) // 2 - 4) // 2, ((width - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * rest[0] * rest[1], 512), nn.ReLU(), nn.Linear(512, classes),
    )  # fmt: skip


def _image_shape(shape: Sequence[int], least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        raise ValueError(
            f"this network needs images [channels, height, width] with {least} or more pixels per "
            f"side (got {tuple(shape)})"
        )
    return shape[0], shape[1], shape[2]
