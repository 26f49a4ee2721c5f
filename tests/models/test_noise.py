"""Tests of clipping and noise: adversarial rows, distributions, and values by hand."""

import math
from hashlib import sha256

import pytest
import torch
from scipy.stats import kstest

from models.noise import (
    Keystream,
    add_noise,
    clip_rows,
    gaussian_mechanism,
    keep_probability,
    noise_grid,
    randomised_response,
)


def stream(name: str) -> Keystream:
    return Keystream(sha256(name.encode()).digest())


def adversarial(rows: int, dtype: torch.dtype) -> torch.Tensor:
    """Return rows that mix zeros, NaN, infinities, very large and very small numbers."""
    largest = torch.finfo(dtype).max
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e38, -1e38, largest, 1e-45, 1e-39, 1.0, -0.5]
    pool = torch.tensor(odd, dtype=torch.float64).to(dtype)
    generator = torch.Generator().manual_seed(1)
    chosen = pool[torch.randint(len(pool), (rows, 4), generator=generator)]
    chosen[::2] = chosen[::2].nan_to_num(
        3e38, 3e38, -3e38
    )  # otherwise most rows would contain a NaN
    return chosen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_million_adversarial_rows_are_clipped(dtype: torch.dtype) -> None:
    rows = adversarial(1_000_000 if dtype is torch.float32 else 100_000, dtype)
    clipped = clip_rows(rows, 0.7).double()
    assert torch.isfinite(clipped).all()
    assert clipped.square().sum(dim=1).sqrt().max() <= 0.7 * (1 + 1e-6)
    wild = ~torch.isfinite(rows).all(dim=1)
    assert wild.any()
    assert not clipped[wild].any()


def test_clipping_by_hand() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(clip_rows(rows, 1.0), expected)


def test_a_large_row_does_not_change_the_others() -> None:
    rows = torch.tensor([[0.3, 0.4], [3e30, 4e30]])
    torch.testing.assert_close(clip_rows(rows, 1.0), torch.tensor([[0.3, 0.4], [0.6, 0.8]]))


def test_gradients_go_through_clipping() -> None:
    rows = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 2
    rows = rows.requires_grad_()
    assert torch.autograd.gradcheck(lambda each: clip_rows(each, 1.0), (rows,))
    odd = torch.tensor([[0.0, 0.0], [math.nan, 1.0]], requires_grad=True)
    clip_rows(odd, 1.0).sum().backward()
    assert odd.grad is not None
    assert torch.isfinite(odd.grad).all()


def test_normal_numbers_are_normal() -> None:
    drawn = stream("normal").normal((100_000,)).numpy()
    assert kstest(drawn, "norm").pvalue > 1e-3


def test_a_key_gives_one_stream_without_repeated_numbers() -> None:
    one, same, other = stream("a"), stream("a"), stream("b")
    first, again, different = (each.normal((1000,)) for each in (one, same, other))
    assert torch.equal(first, again)
    later = one.normal((1000,))
    assert not set(first.tolist()) & (set(later.tolist()) | set(different.tolist()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("largest", "multiplier"), [(1.0, 4.0), (1e-3, 0.05), (500.0, 1e4)])
def test_the_set_of_outputs_does_not_depend_on_the_value(
    dtype: torch.dtype, largest: float, multiplier: float
) -> None:
    """All outputs lie exactly on one grid, so their last bits reveal nothing."""
    sigma = multiplier * largest
    values = torch.rand(2000, 3, generator=torch.Generator().manual_seed(3)).to(dtype) * largest
    sent = gaussian_mechanism(values, largest, sigma, stream("grid")).double()
    steps = sent / noise_grid(largest, sigma)
    assert torch.equal(steps, steps.round())
    assert noise_grid(largest, sigma) < sigma / 1000


def test_the_mechanism_adds_noise_of_sigma_to_the_clipped_row() -> None:
    rows = torch.tensor([[30.0, 40.0]]).expand(100_000, 2)
    noise = gaussian_mechanism(rows, 1.0, 0.5, stream("sigma")) - torch.tensor([[0.6, 0.8]])
    assert noise.std().item() == pytest.approx(0.5, rel=0.0074)
    assert noise.mean().abs() < 3.3 * 0.5 / math.sqrt(200_000)


def test_added_noise_does_not_clip_and_passes_gradients() -> None:
    rows = torch.full((1000, 4), 1e6, dtype=torch.float64, requires_grad=True)
    noised = add_noise(rows, 1.0, stream("plain"))
    assert 0.9 < (noised - rows).std() < 1.1
    noised.sum().backward()
    assert rows.grad is not None
    assert (rows.grad == 1).all()


def test_randomised_response_keeps_by_the_formula() -> None:
    assert keep_probability(math.log(3), 4) == pytest.approx(3 / 6)
    labels = torch.full((60_000,), 2)
    flipped = randomised_response(labels, 4, math.log(3), stream("labels"))
    shares = torch.bincount(flipped, minlength=4) / 60_000
    torch.testing.assert_close(
        shares, torch.tensor([1 / 6, 1 / 6, 1 / 2, 1 / 6]), atol=0.007, rtol=0
    )


def test_randomised_response_between_two_classes() -> None:
    flipped = randomised_response(torch.tensor([0, 1] * 5000), 2, 1e-9, stream("two"))
    assert 0.45 < flipped.double().mean() < 0.55
    assert not randomised_response(torch.zeros(100, dtype=torch.int64), 2, 50.0, stream("x")).any()


@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_outside_the_classes_is_refused(label: int) -> None:
    with pytest.raises(ValueError, match="needs labels from 0 to 3"):
        randomised_response(torch.tensor([label]), 4, 1.0, stream("refused"))
