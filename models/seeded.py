"""Seeded construction: the same seed builds the same weights, whoever wrote the module."""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)

# torch initialises modules from its global generator and offers no argument for another one. So
# the one place that must touch it forks it, seeds the fork and puts it back. Forking is not
# thread-safe (a simulation runs one thread a party), hence the lock: while one builder holds it
# no other builder can seed in between. Only a thread that draws from the global generator
# outside this function could still interfere, and the house has none.
_BUILDING = Lock()


def seeded(seed: int, build: Callable[[], Module]) -> Module:
    """Return ``build()`` with torch's default initialisation, a function of ``seed`` alone."""
    with _BUILDING, torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        return build()
