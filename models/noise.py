"""Noise for privacy: per-row clipping, Gaussian noise and randomised response, as pure functions.

Letters: C = largest norm of a row, σ = standard deviation of the noise, ε = privacy parameter,
K = number of classes.

Floating point: the sum of a number and of continuous noise betrays the number by its last bits
(Mironov, CCS 2012; Haney et al., arXiv 2112.05307). `gaussian_mechanism` therefore puts values and
noise on one grid, on which every sum is exact: which outputs are possible does not depend on the
value. Values go to the grid towards zero, so that no norm grows. As the values lie on the grid,
rounding the noise is rounding the sum, which is post-processing of the Gaussian mechanism. What
remains is that a uniform of 53 bits becomes a normal by the inverse of its distribution function:
nothing lies beyond 8.3 σ (probability 1e-16, to be held against δ), and that the generator is
cryptographic, not truly random.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

_GRID = 2.0**21  # steps that a number may be away from zero: exact in float32, which has 24 bits
_FARTHEST = 9.0  # σ; no normal of a 53-bit uniform is farther from zero


class Keystream:
    """Random numbers that nobody can foretell who lacks the key of 32 bytes (AES-CTR)."""

    def __init__(self, key: bytes) -> None:
        self._words = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Float64 of ``shape``, inside (0, 1)."""
        words = np.frombuffer(self._words.update(bytes(8 * math.prod(shape))), "<u8")
        return torch.from_numpy(((words >> 11) + 0.5) * 2.0**-53).reshape(tuple(shape))

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Float64 of ``shape``, mean 0 and variance 1."""
        drawn: Tensor = torch.special.ndtri(self.uniform(shape))
        return drawn


def clip_rows(rows: Tensor, largest: float) -> Tensor:
    """Scale every row of ``[batch, width]`` whose Euclidean norm is above ``largest`` down to it.

    Norms are taken in float64. A row that is not finite becomes zero. Gradients pass through.
    """
    finite = torch.isfinite(rows).all(dim=1, keepdim=True)
    wide = torch.where(finite, rows, torch.zeros_like(rows)).double()
    # Squares of very large or very small numbers leave float64: rows are first scaled to 1.
    peak = wide.detach().abs().amax(dim=1, keepdim=True)
    scale = torch.where(peak > 0, peak, torch.ones_like(peak))
    unit = wide / scale
    length = unit.square().sum(dim=1, keepdim=True)
    norm = torch.where(peak > 0, length, torch.ones_like(length)).sqrt()
    above = norm > largest / scale
    clipped = unit * (largest / norm)
    return torch.where(above, clipped, wide).to(rows.dtype)


def gaussian_mechanism(rows: Tensor, largest: float, sigma: float, noise: Keystream) -> Tensor:
    """Clip every row of ``[batch, width]`` to norm ``largest``, then add noise of σ, on a grid.

    The noise is absolute: for a noise multiplier z it is σ = z C.
    """
    step = grid(largest, sigma)
    clipped = clip_rows(rows.detach().double(), largest)
    drawn = noise.normal(rows.shape) * sigma
    return ((clipped / step).trunc() * step + (drawn / step).round() * step).to(rows.dtype)


def grid(largest: float, sigma: float) -> float:
    """The distance of two outputs: a power of two, fine beside σ, exact in float32."""
    return float(2.0 ** math.ceil(math.log2((largest + _FARTHEST * sigma) / _GRID)))


def add_noise(rows: Tensor, sigma: float, noise: Keystream) -> Tensor:
    """Add Gaussian noise of standard deviation ``sigma`` to every number; gradients pass through.

    Neither clipped nor on a grid: this is noise, and no mechanism with an (ε, δ).
    """
    return rows + (noise.normal(rows.shape) * sigma).to(rows.dtype)


def keep_probability(epsilon: float, classes: int) -> float:
    """Of a label under randomised response: e^ε / (e^ε + K - 1) (Warner 1965)."""
    return 1 / (1 + (classes - 1) * math.exp(-epsilon))


def randomised_response(labels: Tensor, classes: int, epsilon: float, noise: Keystream) -> Tensor:
    """Keep each of ``labels`` [rows] with ``keep_probability``, else draw another one evenly.

    Raises:
        ValueError: a label is no class.
    """
    if len(labels) and not bool(((labels >= 0) & (labels < classes)).all()):
        raise ValueError(f"labels must be from 0 to {classes - 1}")
    first, second = noise.uniform([2, len(labels)])
    others = 1 + (second * (classes - 1)).long().clamp(max=classes - 2)  # steps to another class
    flipped = (labels + others) % classes
    return torch.where(first < keep_probability(epsilon, classes), labels, flipped)
