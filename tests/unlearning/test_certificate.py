"""Tests of the certificate: the distance bound, the scale of the noise, and the noise."""

from collections.abc import Callable
from hashlib import shake_256

import pytest
import torch

from unlearning.certificate import (
    add_gaussian_noise,
    distance_bound,
    gaussian_delta,
    gaussian_noise_scale,
)


def fixed_bytes(word: bytes) -> Callable[[int], bytes]:
    return lambda count: shake_256(word).digest(count)


def test_the_bound_by_hand() -> None:
    assert distance_bound(0.3, 0.1) == pytest.approx(3.0, rel=1e-9)
    assert distance_bound(0.0, 1e-3) == pytest.approx(1e-9)  # the slack for rounding


@pytest.mark.parametrize(("epsilon", "scale"), [(0.5, 7.03), (1.0, 3.73), (2.0, 1.99), (4.0, 1.08)])
def test_the_scale_of_the_analytic_gaussian(epsilon: float, scale: float) -> None:
    result = gaussian_noise_scale(epsilon, 1e-5)
    assert result == pytest.approx(scale, abs=0.005)
    assert gaussian_delta(epsilon, result) <= 1e-5 < gaussian_delta(epsilon, result * (1 - 1e-9))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_an_impossible_guarantee_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="Gaussian noise needs epsilon"):
        gaussian_noise_scale(epsilon, delta)


def test_noise_has_the_scale_and_changes_every_released_number() -> None:
    block = [torch.zeros(300, 100, dtype=torch.float64), torch.ones(7, dtype=torch.float64)]
    add_gaussian_noise(block, 0.5, fixed_bytes(b"a"))
    assert block[0].std().item() == pytest.approx(0.5, rel=0.02)
    assert abs(block[0].mean().item()) < 0.02
    assert block[0].unique().numel() == 30_000
    assert (block[1] != 1).all()


def test_noise_depends_only_on_the_given_random_bytes() -> None:
    first, again, other = (torch.zeros(5, dtype=torch.float64) for _ in range(3))
    add_gaussian_noise([first], 1.0, fixed_bytes(b"a"))
    add_gaussian_noise([again], 1.0, fixed_bytes(b"a"))
    add_gaussian_noise([other], 1.0, fixed_bytes(b"b"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_noise_is_finite_for_extreme_random_bytes() -> None:
    for word in (b"\x00", b"\xff", b"\x7f", b"\x80"):
        block = [torch.zeros(3, dtype=torch.float64)]
        add_gaussian_noise(block, 1.0, lambda count, word=word: word * count)  # type: ignore[misc]
        assert torch.isfinite(block[0]).all()
