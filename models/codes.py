"""Codes of features: numbers for each row that depend on no label, from a party's own columns."""

from collections.abc import Iterator
from math import prod

import torch
from torch import Tensor

CHUNK = 4096  # rows whose float64 copy is in memory at a time
# A direction with a smaller variance is left out: as a part of the largest variance, and, against
# rounding errors of constant columns, as a part of the largest mean square of a column.
SMALLEST_VARIANCE, ROUNDING = 1e-6, 1e-12
FEATURES_PER_CODE = 4  # nonlinear features for each code that linear directions do not fill


def svd_codes(features: Tensor, width: int, seed: int) -> Tensor:
    """Return whitened leading directions of centred ``features``, rotated, ``[rows, width]``.

    With x = features - mean and the eigenvectors V and eigenvalues λ of the covariance of x, the
    codes are x V λ^(-1/2) Q. V has the ``width`` directions of largest variance; Q is a random
    orthogonal matrix. If the features have fewer directions, the other columns before the rotation
    are whitened leading directions of random nonlinear features tanh(z G + b) of the whitened
    directions z. Columns that these do not fill either are zero.

    Args:
        features: ``[rows, ...]``, the features of the rows; other rows have no effect.
        width: number of codes of a row.
        seed: determines Q, G and b.
    """
    generator = torch.Generator().manual_seed(seed)
    rotation = _orthogonal(width, generator)
    codes = whitened(features.flatten(1), width)
    if 0 < codes.shape[1] < width:
        count = codes.shape[1]
        size = (count, FEATURES_PER_CODE * (width - count))
        weights = torch.randn(size, dtype=torch.float64, generator=generator)
        bias = torch.randn(size[1], dtype=torch.float64, generator=generator)
        further = torch.tanh(codes @ weights + bias)
        # Only the part that no linear function of the directions explains.
        further -= codes @ (codes.T @ further / len(codes))
        codes = torch.cat([codes, whitened(further, width - count)], dim=1)
    empty = codes.new_zeros(len(codes), width - codes.shape[1])
    found: Tensor = torch.cat([codes, empty], dim=1) @ rotation
    return found.to(features.dtype)


def projection_codes(features: Tensor, width: int, seed: int) -> Tensor:
    """Return a random projection of ``features``, ``[rows, width]``; it depends on no other row.

    ``features`` are ``[rows, ...]``. The projection is a matrix of normal numbers with the variance
    1 / (numbers of a row); ``seed`` determines it.
    """
    size = prod(features.shape[1:])
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn((size, width), dtype=torch.float64, generator=generator) / size**0.5
    found: Tensor = features.flatten(1) @ matrix.to(features.dtype)
    return found


def whitened(features: Tensor, most: int) -> Tensor:
    """Return whitened directions of largest variance in float64, ``[rows, directions]``.

    ``features`` are ``[rows, numbers]``. There are at most ``most`` directions, and only directions
    whose variance is not rounding error. Every direction has mean 0 and variance 1, and no two are
    correlated.
    """
    mean = torch.stack([part.sum(dim=0) for part in _chunks(features)]).sum(dim=0) / len(features)
    covariance = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for part in _chunks(features):
        covariance.addmm_((part - mean).T, part - mean, alpha=1 / len(features))
    square = (mean.square() + covariance.diagonal()).max().item()
    variances, directions = torch.linalg.eigh(covariance)
    variances, directions = variances.flip(0)[:most], directions.flip(1)[:, :most]
    real = variances > max(SMALLEST_VARIANCE * variances[0].item(), ROUNDING * square)
    variances, directions = variances[real], directions[:, real]
    # The sign of an eigenvector is arbitrary: its largest element becomes positive.
    largest = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True))
    matrix = directions * largest.sign() / variances.sqrt()
    return torch.cat([(part - mean) @ matrix for part in _chunks(features)])


def _chunks(features: Tensor) -> Iterator[Tensor]:
    return (part.double() for part in torch.split(features, CHUNK))


def _orthogonal(size: int, generator: torch.Generator) -> Tensor:
    """Return a uniformly random orthogonal matrix in float64, ``[size, size]`` (Mezzadri 2007)."""
    normal = torch.randn((size, size), dtype=torch.float64, generator=generator)
    q, r = torch.linalg.qr(normal)
    rotation: Tensor = q * r.diagonal().sign()
    return rotation
