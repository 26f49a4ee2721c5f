"""Codes of features: numbers for each row that depend on no label, from a party's own columns."""

from collections.abc import Iterator
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, conv2d, normalize

CHUNK = 4096  # rows whose float64 copy is in memory at a time
# A direction with a smaller variance is left out: as a part of the largest variance, and, against
# rounding errors of constant columns, as a part of the largest mean square of a column.
SMALLEST_VARIANCE, ROUNDING = 1e-6, 1e-12
FEATURES_PER_CODE = 4  # nonlinear features for each code that linear directions do not fill
PATCH = 5  # pixels of a side of a patch
FILTERS = 64  # patches whose similarity to all places of an image is a feature
CANDIDATES = 4096  # patches from which the filters are chosen
CELL, CELLS = 8, 4  # pixels of a side of a cell of pooling, about; most cells in a direction
SMALLEST_SIDE = PATCH + CELL - 1  # pixels of a side of an image with one whole cell
IMAGES = 256  # images whose responses are in memory at a time


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


def patch_codes(images: Tensor, width: int, seed: int) -> Tensor:
    """Return whitened leading directions of patch features of ``images``, ``[rows, width]``.

    A patch feature is the mean similarity of one cell of an image to one small patch; the patches
    are random pieces of the images (after Coates, Lee and Ng 2011). The codes are ``svd_codes`` of
    the patch features. They are not linear in the pixels, and they tell a shape from another one
    wherever in a cell it is, so a convolutional network learns from them what it later needs.
    Images with fewer than ``SMALLEST_SIDE`` pixels on a side, and tables, get ``svd_codes``.

    Args:
        images: ``[rows, channels, height, width]``, the images of the rows; others have no effect.
            ``[rows, columns]`` for tables.
        width: number of codes of a row.
        seed: determines the patches, and what it determines in ``svd_codes``.
    """
    if images.dim() != 4 or min(images.shape[2:]) < SMALLEST_SIDE:
        return svd_codes(images, width, seed)
    generator = torch.Generator().manual_seed(seed)
    return svd_codes(_patch_features(images, _filters(images, generator)), width, seed)


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


def _filters(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return random patches of ``images`` with mean 0 and norm 1, ``[filters, channels, p, p]``.

    Patches whose variance is below the mean variance are left out: most of them are background.
    """
    rows, _, height, width = images.shape
    row, down, right = (
        torch.randint(bound, (CANDIDATES, 1, 1), generator=generator)
        for bound in (rows, height - PATCH + 1, width - PATCH + 1)
    )
    within = torch.arange(PATCH)
    patches = images[row, :, down + within[:, None], right + within].movedim(3, 1).flatten(1)
    patches = patches - patches.mean(dim=1, keepdim=True)
    variances = patches.square().mean(dim=1)
    chosen = patches[variances >= variances.mean()][:FILTERS]
    return normalize(chosen).reshape(len(chosen), -1, PATCH, PATCH)


def _patch_features(images: Tensor, filters: Tensor) -> Tensor:
    """Return the pooled responses of ``images`` to ``filters``, ``[rows, filters * cells]``.

    The response at a place is the part of its scalar product with the filter that is above the mean
    over all filters.
    """
    pooled = []
    for part in torch.split(images, IMAGES):
        responses = conv2d(part, filters)
        above = (responses - responses.mean(dim=1, keepdim=True)).relu()
        cells = (_cells(above.shape[2]), _cells(above.shape[3]))
        pooled.append(adaptive_avg_pool2d(above, cells).flatten(1))
    return torch.cat(pooled)


def _cells(side: int) -> int:
    return min(CELLS, max(1, round(side / CELL)))


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
