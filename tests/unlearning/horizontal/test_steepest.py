"""FedOSD's two projections, by hand, and what they promise for any gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.horizontal.common_descent import common_descent
from unlearning.horizontal.steepest import (
    Projection,
    cosines,
    not_back,
    orthogonal_steepest_descent,
)


def doubles(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


OTHERS = doubles((1, 0, 0), (1, 1, 0))
LEAVING = doubles((1, 2, 2))[0]


def test_the_direction_by_hand() -> None:
    """r = (0, 0, 2); d has the norm of g_u, which the printed factor would square."""
    found = orthogonal_steepest_descent(LEAVING, OTHERS)
    assert found.direction is not None
    assert found.direction.tolist() == pytest.approx([0, 0, 3])
    assert (found.kept, found.cosine) == (pytest.approx(2 / 3), pytest.approx(0, abs=1e-12))
    assert float(LEAVING @ found.direction) > 0


def test_where_the_leaving_client_wants_what_the_others_want_there_is_no_direction() -> None:
    found = orthogonal_steepest_descent(doubles((3, 5, 0))[0], OTHERS)
    assert found.direction is None
    assert found.kept == pytest.approx(0, abs=1e-12)
    assert orthogonal_steepest_descent(torch.zeros(3), OTHERS).direction is None


def test_clients_whose_gradients_are_one_or_none_do_no_harm() -> None:
    same = doubles((1, 0, 0), (2, 0, 0), (0, 0, 0))
    found = orthogonal_steepest_descent(LEAVING, same)
    assert found.direction is not None
    assert found.direction.tolist() == pytest.approx([0, 3 / 2**0.5, 3 / 2**0.5])


@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([1e-6, 1.0, 1e6]))
def test_no_client_is_in_conflict_with_the_direction(seed: int, count: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count + 1, 300, generator=generator) + 1  # they resemble each other
    others, leaving = drawn[1:] * size, drawn[0]
    found = orthogonal_steepest_descent(leaving, others)
    assert found.direction is not None
    assert found.cosine < 1e-6
    assert float(cosines(others, found.direction).abs().max()) < 1e-6
    assert float(found.direction.norm()) == pytest.approx(float(leaving.norm()), rel=1e-5)
    assert float(found.direction @ leaving) > 0


@pytest.mark.parametrize(
    ("gradient", "project", "wanted"),
    [
        ((3.0, 4.0), "conditional", [0, 5]),
        ((-3.0, 4.0), "conditional", [-3, 4]),
        ((-3.0, 4.0), "always", [0, 5]),
        ((3.0, 4.0), "none", [3, 4]),
        ((3.0, 0.0), "conditional", [0, 0]),
    ],
)
def test_the_way_back_is_taken_out_by_hand(
    gradient: tuple[float, float], project: Projection, wanted: list[float]
) -> None:
    found = not_back(doubles(gradient)[0], doubles((1, 0))[0], project)
    assert found.tolist() == pytest.approx(wanted)


def test_before_anything_was_unlearned_there_is_no_way_back() -> None:
    assert not_back(doubles((3, 4))[0], torch.zeros(2)).tolist() == [3, 4]


def test_common_descent_by_hand() -> None:
    # The nearest point to 0 of the segment from (2, 0) to (0, 1) is (0.4, 0.8).
    assert common_descent(doubles((2, 0), (0, 1))).tolist() == pytest.approx([0.4, 0.8], abs=1e-6)
    assert common_descent(doubles((1, 0), (3, 0))).tolist() == pytest.approx([1, 0])
    assert common_descent(doubles((1, 0), (-1, 0))).tolist() == pytest.approx([0, 0])


@given(st.integers(0, 10_000))
def test_common_descent_lowers_every_loss(seed: int) -> None:
    gradients = torch.randn(4, 20, generator=torch.Generator().manual_seed(seed)) + 0.5
    shortest = common_descent(gradients).double()
    square = float(shortest.square().sum())
    assert float((gradients.double() @ shortest).min()) >= square * 0.99 - 1e-9
