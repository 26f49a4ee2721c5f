"""Noise for differential privacy: per-row clipping, Gaussian mechanism and randomised response.

Notation: C = maximum norm of a row, σ = standard deviation of the noise, ε = privacy parameter, K =
number of classes.

Floating point: if continuous noise is added to a value, the last bits of the sum can reveal the
value (Mironov, CCS 2012; Haney et al., arXiv 2112.05307). Therefore ``gaussian_mechanism`` rounds
values and noise to one grid, on which every sum is exact, so the set of possible outputs does not
depend on the value. Values are rounded towards zero, so that no norm grows. Because the values lie
on the grid, rounding the noise is the same as rounding the sum. Such rounding is
post-processing of the Gaussian mechanism.

The noise deviates from ideal Gaussian noise in two ways. A normal number is computed from 53
uniform bits by the inverse distribution function, so no noise lies beyond 8.3 σ. Ideal noise lies
beyond 8.3 σ with probability 1e-16, so δ must be much larger than 1e-16. The random numbers are
cryptographically pseudo-random, not truly random.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

_GRID = 2.0**21  # grid steps from zero to the largest number; float32 is exact up to 2**24
_FARTHEST = 9.0  # σ; no normal number from 53 uniform bits is farther from zero


class Keystream:
    """Random numbers (AES-CTR) from a secret key of 32 bytes; unpredictable without this key."""

    def __init__(self, key: bytes) -> None:
        self._words = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return uniform numbers inside (0, 1), float64 of ``shape``, ``[...]``."""
        words = np.frombuffer(self._words.update(bytes(8 * math.prod(shape))), "<u8")
        return torch.from_numpy(((words >> 11) + 0.5) * 2.0**-53).reshape(tuple(shape))

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Return normal numbers of mean 0 and variance 1, float64 of ``shape``, ``[...]``."""
        drawn: Tensor = torch.special.ndtri(self.uniform(shape))
        return drawn


def clip_rows(rows: Tensor, largest: float) -> Tensor:
    """Return ``rows``, scaled to Euclidean norms of at most ``largest``, ``[batch, width]``.

    ``rows`` are ``[batch, width]``. Longer rows are scaled to norm ``largest``. Norms are computed
    in float64. A row that is not finite becomes zero. Gradients are propagated through the
    clipping.
    """
    finite = torch.isfinite(rows).all(dim=1, keepdim=True)
    wide = torch.where(finite, rows, torch.zeros_like(rows)).double()
    # Squares of very large or very small numbers overflow float64: rows are first scaled to 1.
    peak = wide.detach().abs().amax(dim=1, keepdim=True)
    scale = torch.where(peak > 0, peak, torch.ones_like(peak))
    unit = wide / scale
    length = unit.square().sum(dim=1, keepdim=True)
    norm = torch.where(peak > 0, length, torch.ones_like(length)).sqrt()
    above = norm > largest / scale
    clipped = unit * (largest / norm)
    return torch.where(above, clipped, wide).to(rows.dtype)


def gaussian_mechanism(rows: Tensor, largest: float, sigma: float, noise: Keystream) -> Tensor:
    """Return the Gaussian mechanism's output for ``rows``, rounded to a grid, ``[batch, width]``.

    ``rows`` are ``[batch, width]``; they are clipped to norm ``largest`` before the noise.
    ``sigma`` is the standard deviation σ, which is z C for a noise multiplier z.
    """
    step = noise_grid(largest, sigma)
    clipped = clip_rows(rows.detach().double(), largest)
    drawn = noise.normal(rows.shape) * sigma
    return ((clipped / step).trunc() * step + (drawn / step).round() * step).to(rows.dtype)


def noise_grid(largest: float, sigma: float) -> float:
    """Return the step of the grid: a power of two, small compared with σ and exact in float32."""
    return float(2.0 ** math.ceil(math.log2((largest + _FARTHEST * sigma) / _GRID)))


def add_noise(rows: Tensor, sigma: float, noise: Keystream) -> Tensor:
    """Return ``rows`` with Gaussian noise of standard deviation ``sigma``, ``[batch, width]``.

    ``rows`` are ``[batch, width]``. Gradients are propagated through ``rows``. The rows are neither
    clipped nor rounded to a grid, so the result has no (ε, δ) guarantee.
    """
    return rows + (noise.normal(rows.shape) * sigma).to(rows.dtype)


def keep_probability(epsilon: float, classes: int) -> float:
    """Return the probability that randomised response keeps a label."""
    # Warner 1965, for K classes: e^ε / (e^ε + K − 1).
    return 1 / (1 + (classes - 1) * math.exp(-epsilon))


def randomised_response(labels: Tensor, classes: int, epsilon: float, noise: Keystream) -> Tensor:
    """Return labels under randomised response, ``[rows]``.

    ``labels`` are ``[rows]``. Each label is kept with probability ``keep_probability``; otherwise
    it is replaced by one of the other classes, sampled uniformly.

    Raises:
        ValueError: a label is not between 0 and ``classes`` - 1.
    """
    if len(labels) and not bool(((labels >= 0) & (labels < classes)).all()):
        raise ValueError(
            f"randomised response over {classes} classes needs labels from 0 to {classes - 1}, "
            "but a label is outside this range"
        )
    first, second = noise.uniform([2, len(labels)])
    others = 1 + (second * (classes - 1)).long().clamp(max=classes - 2)  # steps to another class
    flipped = (labels + others) % classes
    return torch.where(first < keep_probability(epsilon, classes), labels, flipped)
