"""Bottom models: the networks that a party applies to its own columns."""

from collections.abc import Sequence
from itertools import pairwise
from math import gcd, prod

import torch
from torch import Tensor, nn

GROUPS = 4  # of GroupNorm; BatchNorm has running statistics, which remember the forget set


def mlp(inputs: int, hidden: Sequence[int], width: int) -> nn.Module:
    """Return a perceptron ``[batch, inputs] -> [batch, width]`` with ReLU after each hidden layer.

    Raises:
        ValueError: a size is less than 1.
    """
    _positive("mlp", inputs=inputs, width=width, smallest_hidden=min(hidden, default=1))
    layers: list[nn.Module] = []
    for before, after in pairwise([inputs, *hidden]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear([inputs, *hidden][-1], width))


def cnn(shape: tuple[int, int, int], channels: Sequence[int], width: int) -> nn.Module:
    """Return a convolutional network ``[batch, *shape] -> [batch, width]``.

    ``shape`` is channels, height and width. Each entry of ``channels`` gives one stage: a 3x3
    convolution, GroupNorm, ReLU and 2x2 pooling. Flat rows, ``[batch, prod(shape)]``, are accepted
    as well.

    Raises:
        ValueError: a size is less than 1, or there is no stage.
    """
    _positive("cnn", smallest_side=min(shape), width=width, stages=len(channels))
    _positive("cnn", smallest_channel=min(channels))
    depth, height, breadth = shape
    layers: list[nn.Module] = [nn.Flatten(), nn.Unflatten(1, shape)]
    for before, after in pairwise([depth, *channels]):
        layers += _stage(before, after)
        height, breadth = _halved(height), _halved(breadth)
    flat = prod((channels[-1], height, breadth))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, width))


def _stage(before: int, after: int) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, kernel_size=3, padding=1)
    norm = nn.GroupNorm(gcd(GROUPS, after), after)
    return [convolution, norm, nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]


def _halved(side: int) -> int:
    """Return the side after pooling; ``ceil_mode`` keeps the last row of an odd side."""
    return (side + 1) // 2


def _positive(network: str, **sizes: int) -> None:
    wrong = {name: size for name, size in sizes.items() if size < 1}
    if wrong:
        raise ValueError(
            f"{network}: all sizes of this network must be 1 or more (got {wrong}); change the "
            "sizes in the config"
        )


class ParallelBottoms(nn.ModuleList):
    """Bottom models of several shards as one network, ``[batch, models * width]``."""

    def forward(self, features: Tensor) -> Tensor:
        """Return the embeddings of all bottom models side by side, ``[batch, models * width]``.

        ``features`` are ``[batch, ...]``, the input of every bottom model.
        """
        return torch.cat([bottom(features) for bottom in self], dim=1)
