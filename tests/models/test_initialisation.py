"""Tests of seeded initialisation: the same weights for a seed, in any thread and module."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from models.arithmetic import snapshot
from models.bottoms import mlp
from models.initialisation import build_seeded


def small() -> nn.Module:
    return mlp(4, [8], 2)


def test_the_same_seed_builds_the_same_weights() -> None:
    first, second, other = (snapshot(build_seeded(s, small).parameters()) for s in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], other[0])


def test_the_global_generator_is_restored() -> None:
    before = torch.random.get_rng_state()
    build_seeded(3, small)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_threads_do_not_disturb_each_other() -> None:
    seeds = [s % 4 for s in range(64)]
    with ThreadPoolExecutor(8) as pool:
        built = list(pool.map(lambda s: snapshot(build_seeded(s, small).parameters()), seeds))
    expected = [snapshot(build_seeded(s, small).parameters()) for s in range(4)]
    pairs = [(got, expected[s]) for got, s in zip(built, seeds, strict=True)]
    assert all(torch.equal(a, b) for got, want in pairs for a, b in zip(got, want, strict=True))


def test_a_builder_that_raises_releases_the_lock_and_the_generator() -> None:
    before = torch.random.get_rng_state()
    with pytest.raises(ValueError, match="1 or more"):
        build_seeded(1, lambda: mlp(0, [], 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert isinstance(build_seeded(1, small), nn.Module)
