"""Seeded initialisation of networks: the same seed gives the same weights for any module."""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)

# torch initialises modules from its global generator and takes no argument for another one. So this
# function forks the global generator, seeds the fork and restores it. Forking is not thread-safe (a
# simulation runs one thread per party), hence the lock: no two builders seed at the same time. Only
# a thread that draws from the global generator outside this function could interfere, and no code
# of this project does.
_BUILDING = Lock()


def build_seeded(seed: int, build: Callable[[], Module]) -> Module:
    """Return ``build()``; torch's random initialisation of the module depends only on ``seed``."""
    with _BUILDING, torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        return build()
