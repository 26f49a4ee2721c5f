"""Codes of features: whitened directions, a rotation, and what fills a wide code."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from models.codes import patch_codes, projection_codes, svd_codes


def table(rows: int, columns: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(columns, columns, generator=generator, dtype=torch.float64)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64) @ mixing + 3


def test_codes_are_white_and_span_the_leading_directions() -> None:
    features = table(500, 9)
    codes = svd_codes(features, 4, seed=1)
    assert codes.shape == (500, 4)
    assert torch.allclose(codes.mean(dim=0), torch.zeros(4, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(codes.T @ codes / 500, torch.eye(4, dtype=torch.float64))
    centred = (features - features.mean(dim=0)).numpy()
    left = np.linalg.svd(centred, full_matrices=False)[0][:, :4]
    # The columns of U and the codes span the same space: the projection changes nothing.
    assert np.allclose(left @ (left.T @ codes.numpy()), codes.numpy())


def test_another_seed_only_rotates_the_codes() -> None:
    features = table(300, 6)
    first, second = svd_codes(features, 3, seed=1), svd_codes(features, 3, seed=2)
    assert not torch.allclose(first, second)
    rotation = first.T @ second / 300
    assert torch.allclose(rotation @ rotation.T, torch.eye(3, dtype=torch.float64))
    assert torch.allclose(first @ rotation, second)
    assert torch.equal(first, svd_codes(features, 3, seed=1))


def test_few_columns_are_filled_with_nonlinear_features() -> None:
    codes = svd_codes(table(400, 2), 6, seed=1)
    assert torch.allclose(codes.T @ codes / 400, torch.eye(6, dtype=torch.float64))


def test_columns_without_any_direction_are_zero() -> None:
    """A binary column has one direction, and every function of the column is linear in it."""
    binary = (torch.arange(200) % 2).to(torch.float64)[:, None]
    codes = svd_codes(binary, 3, seed=1)
    assert torch.linalg.matrix_rank(codes) == 1
    assert torch.isfinite(codes).all()
    constant = torch.full((50, 2), 0.1, dtype=torch.float64)
    assert torch.equal(svd_codes(constant, 3, seed=1), torch.zeros(50, 3, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_are_flattened_and_the_type_is_kept(dtype: torch.dtype) -> None:
    images = table(5000, 12).reshape(5000, 1, 3, 4).to(dtype)  # more than one chunk of rows
    codes = svd_codes(images, 5, seed=1)
    assert codes.dtype == dtype
    assert torch.allclose(codes.T @ codes / 5000, torch.eye(5, dtype=dtype), atol=1e-5)


def test_projection_of_a_row_depends_on_no_other_row() -> None:
    features = table(100, 7)
    codes = projection_codes(features, 4, seed=1)
    assert torch.allclose(projection_codes(features[:10], 4, seed=1), codes[:10])
    assert torch.allclose(projection_codes(2 * features, 4, seed=1), 2 * codes)


def pictures(rows: int, height: int, width: int, channels: int = 1) -> Tensor:
    """Images with a bright line at a random place; the line is vertical in odd rows."""
    generator = torch.Generator().manual_seed(4)
    images = 0.05 * torch.rand(rows, channels, height, width, generator=generator)
    for row in range(rows):
        vertical = bool(row % 2)
        line = int(torch.randint(width if vertical else height, (1,), generator=generator))
        images[(row, slice(None), slice(None), line) if vertical else (row, slice(None), line)] += 1
    return images


def test_patch_codes_are_the_codes_of_pooled_responses() -> None:
    """With loops over images and patches; the 10 by 16 places are one by two cells."""
    images = pictures(40, 14, 20).double()
    generator = torch.Generator().manual_seed(3)
    rows, down, right = (
        torch.randint(bound, (4096, 1, 1), generator=generator).flatten().tolist()
        for bound in (40, 10, 16)
    )
    pieces = [images[i, 0, y : y + 5, x : x + 5] for i, y, x in zip(rows, down, right, strict=True)]
    centred = [piece - piece.mean() for piece in pieces]
    variances = [float((piece**2).mean()) for piece in centred]
    average = math.fsum(variances) / len(variances)
    bright = [
        piece / piece.norm()
        for piece, each in zip(centred, variances, strict=True)
        if each >= average
    ]
    features = torch.zeros(40, 64, 2, dtype=torch.float64)
    for image in range(40):
        for y in range(10):
            for x in range(16):
                window = images[image, 0, y : y + 5, x : x + 5]
                response = torch.stack([(window * piece).sum() for piece in bright[:64]])
                features[image, :, x // 8] += (response - response.mean()).relu() / 80
    expected = svd_codes(features, 6, seed=3)
    assert torch.allclose(patch_codes(images, 6, seed=3), expected, atol=1e-6)


def separated(codes: Tensor) -> float:
    """The share of the rows whose kind of line a linear function of the codes tells."""
    kinds = (torch.arange(len(codes)) % 2 * 2 - 1).to(codes.dtype)
    codes = torch.cat([codes, torch.ones(len(codes), 1, dtype=codes.dtype)], dim=1)
    weights = torch.linalg.lstsq(codes[::3], kinds[::3, None]).solution[:, 0]
    return float(((codes @ weights > 0) == (kinds > 0)).float().mean())


def test_patch_codes_tell_shapes_wherever_they_are() -> None:
    """A line is at a random place, so the pixels' directions do not tell its direction."""
    images = pictures(900, 20, 20)
    assert separated(patch_codes(images, 4, seed=1)) > 0.99
    assert separated(svd_codes(images, 4, seed=1)) < 0.9


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 12, 12), (2, 70, 14)])
def test_patch_codes_of_images_of_any_size(shape: tuple[int, int, int]) -> None:
    codes = patch_codes(pictures(300, *shape[1:], channels=shape[0]), 5, seed=1)
    assert codes.shape == (300, 5)
    assert torch.allclose(codes.T @ codes / 300, torch.eye(5), atol=1e-4)


def test_patch_codes_of_equal_images_are_zero() -> None:
    codes = patch_codes(torch.full((20, 1, 14, 14), 0.1), 3, seed=1)
    assert torch.equal(codes, torch.zeros(20, 3))


@pytest.mark.parametrize("shape", [(3,), (1, 8, 4), (1, 28, 11)])
def test_tables_and_small_images_have_no_patches(shape: tuple[int, ...]) -> None:
    features = table(100, math.prod(shape)).reshape(100, *shape)
    assert torch.equal(patch_codes(features, 2, seed=1), svd_codes(features, 2, seed=1))
