"""Bottom models: what one party computes on its own columns before anything crosses the wire."""

from collections.abc import Sequence
from itertools import pairwise
from math import gcd, prod

import torch
from torch import Tensor, nn

GROUPS = 4  # GroupNorm, never BatchNorm: running statistics would remember the forget set


def mlp(inputs: int, hidden: Sequence[int], width: int) -> nn.Module:
    """Build ``[batch, inputs] -> [batch, width]`` with a ReLU after every hidden layer."""
    _positive("mlp", inputs=inputs, width=width, smallest_hidden=min(hidden, default=1))
    layers: list[nn.Module] = []
    for before, after in pairwise([inputs, *hidden]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear([inputs, *hidden][-1], width))


def cnn(shape: tuple[int, int, int], channels: Sequence[int], width: int) -> nn.Module:
    """Build ``[batch, *shape] -> [batch, width]``; ``shape`` is channels, height and width.

    Every entry of ``channels`` is one stage: 3x3 convolution, GroupNorm, ReLU, halving.
    Rows that arrive flat, ``[batch, prod(shape)]``, are accepted as well.
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
            f"{network}: sizes must be 1 or more, got {wrong}; see [models] in the config"
        )


class SideBySide(nn.ModuleList):
    """The bottoms of several models that vote, side by side: ``[batch, models * width]``."""

    def forward(self, features: Tensor) -> Tensor:
        """Concatenate what each of them embeds."""
        return torch.cat([bottom(features) for bottom in self], dim=1)
