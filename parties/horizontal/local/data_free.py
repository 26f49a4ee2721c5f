"""Distillation without data: a generator makes the images on which the student is furthest off.

The loop of ZSKT (Micaelli and Storkey 2019) and its followers; what is minimised and climbed, and
which images the student is shown, is up to the game: Mimir's or GKT's. No row of anybody is read.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from models.generator import NOISE, generator
from models.seeded import seeded
from parties.common.shared_randomness import torch_seed
from parties.horizontal.local.distillation import Pace


class Game(Protocol):
    """What student and generator play for."""

    @property
    def learns(self) -> Sequence[nn.Parameter]:
        """What of the student learns."""

    @property
    def inner(self) -> int:
        """Steps of the student on one batch of images."""

    @property
    def most(self) -> float:
        """The student is shown images of which ``gate`` is this at most."""

    def gate(self, images: Tensor) -> Tensor:
        """How much each is of what must be forgotten, ``[rows]``."""

    def loss(self, images: Tensor) -> Tensor:
        """What the student minimises."""

    def hard(self, images: Tensor) -> Tensor:
        """What the generator climbs."""


def duel(game: Game, shape: Sequence[int], pace: Pace, seed: int) -> float:
    """Teach the student in place; its last loss, 0 where no image was ever shown.

    A generator of which nothing may be shown learns to make what may.
    """
    makes = seeded(torch_seed(seed, "generator"), lambda: generator(shape))
    noise = torch.Generator().manual_seed(torch_seed(seed, "noise"))
    learns = list(game.learns)
    descent = torch.optim.Adam(learns, pace.learning_rate)
    ascent = torch.optim.Adam(makes.parameters(), pace.learning_rate)
    loss = torch.zeros(())
    for _ in range(pace.rounds):
        z = torch.randn(pace.batch, NOISE, generator=noise)
        images = makes(z)
        gate = game.gate(images)
        shown = gate <= game.most
        if not shown.any():
            _step(ascent, list(makes.parameters()), gate.mean(), pace.clip)
            continue
        for _ in range(game.inner):
            loss = game.loss(images.detach()[shown])
            _step(descent, learns, loss, pace.clip)
        _step(ascent, list(makes.parameters()), -game.hard(images[shown]), pace.clip)
    return float(loss.detach())


def _step(
    descent: torch.optim.Optimizer, block: Sequence[nn.Parameter], loss: Tensor, clip: float
) -> None:
    gradients = torch.autograd.grad(loss, block)
    for each, gradient in zip(block, gradients, strict=True):
        each.grad = gradient
    nn.utils.clip_grad_norm_(block, clip)
    descent.step()


@contextmanager
def activations(network: nn.Module) -> Iterator[list[Tensor]]:
    """The outputs of the network's ReLU layers, as they come."""
    found: list[Tensor] = []

    def note(_layer: nn.Module, _given: tuple[Tensor, ...], out: Tensor) -> None:
        found.append(out)

    hooks = [e.register_forward_hook(note) for e in network.modules() if isinstance(e, nn.ReLU)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
