"""The targets of a model: the unit of a number."""

import pytest
import torch

from models.targets import standard_deviation


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_numbers_have_no_deviation(dtype: torch.dtype) -> None:
    numbers = torch.full((273,), 0.1, dtype=dtype)
    assert standard_deviation(numbers) == 0.0
    assert standard_deviation(numbers[:0]) == 0.0


def test_deviation_is_that_of_all_numbers() -> None:
    assert standard_deviation(torch.tensor([1.0, 3.0])) == 1.0
