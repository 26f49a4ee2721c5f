"""Codes of features: whitened directions, a rotation, and what fills a wide code."""

import numpy as np
import pytest
import torch
from torch import Tensor

from models.codes import projection_codes, svd_codes


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
