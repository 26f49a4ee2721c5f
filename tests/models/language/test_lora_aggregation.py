"""Tests of the aggregation of adapters, by hand and on random factors."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.language.errors import LanguageModelError
from models.language.lora_aggregation import aggregate_adapters, factor_gaps, total_gap

A, B = "m.lora_A.weight", "m.lora_B.weight"


def client(a, b):
    return {A: torch.tensor(a, dtype=torch.float64), B: torch.tensor(b, dtype=torch.float64)}


# W₁ = [[2, 0], [0, 0]] and W₂ = [[0, 0], [0, 4]]; rows 3 and 1.
ONE = client([[1.0, 0.0]], [[2.0], [0.0]])
TWO = client([[0.0, 2.0]], [[0.0], [2.0]])


def product(adapters):
    return adapters[B].double() @ adapters[A].double()


def mean_product(clients, rows):
    total = sum(rows)
    return sum(n / total * product(each) for each, n in zip(clients, rows, strict=True))


def test_the_mean_of_factors_by_hand() -> None:
    result = aggregate_adapters("factors", [ONE, TWO], [3, 1])
    assert result[A].tolist() == [[0.75, 0.5]]
    assert result[B].tolist() == [[1.5], [0.5]]


def test_the_gap_by_hand() -> None:
    """W̄ = diag(1.5, 1), B̄ Ā = [[1.125, .75], [.375, .25]]: ‖W̄ − B̄ Ā‖² = 1.40625."""
    gap = factor_gaps([ONE, TWO], [3, 1])["m"]
    assert gap.gap == pytest.approx(math.sqrt(1.40625), rel=1e-12)
    assert gap.mean == pytest.approx(math.sqrt(3.25), rel=1e-12)
    assert gap.relative == pytest.approx(math.sqrt(1.40625 / 3.25), rel=1e-12)


def test_the_nearest_product_by_hand() -> None:
    """The larger entry of diag(1.5, 1) stays; each factor has its root, with positive sign."""
    result = aggregate_adapters("product_svd", [ONE, TWO], [3, 1])
    torch.testing.assert_close(result[B], torch.tensor([[math.sqrt(1.5)], [0.0]]).double())
    torch.testing.assert_close(result[A], torch.tensor([[math.sqrt(1.5), 0.0]]).double())


def test_total_gap_adds_squares() -> None:
    result = factor_gaps([ONE | {"n" + k[1:]: v for k, v in ONE.items()}] * 2, [1, 1])
    assert set(result) == {"m", "n"}
    assert total_gap(result).gap == 0
    assert total_gap(result).mean == pytest.approx(math.sqrt(8))


def random_clients(seed: int, count: int, rank: int, rows: int, columns: int):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return [{A: draw(rank, columns), B: draw(rows, rank)} for _ in range(count)]


CASES = given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 4),
    rank=st.integers(1, 4),
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
)


@settings(max_examples=60)
@CASES
def test_the_gap_is_that_of_the_full_matrices(seed, count, rank, rows, columns) -> None:
    clients = random_clients(seed, count, rank, rows, columns)
    weights = [seed % 7 + k + 1 for k in range(count)]
    mean = mean_product(clients, weights)
    expected = float((mean - product(aggregate_adapters("factors", clients, weights))).norm())
    result = factor_gaps(clients, weights)["m"]
    assert result.gap == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert result.mean == pytest.approx(float(mean.norm()), rel=1e-9)


@settings(max_examples=60)
@CASES
def test_the_nearest_product_is_that_of_the_full_svd(seed, count, rank, rows, columns) -> None:
    clients = random_clients(seed, count, rank, rows, columns)
    weights = [1.0] * count
    result = aggregate_adapters("product_svd", clients, weights)
    assert {name: each.shape for name, each in result.items()} == {
        name: each.shape for name, each in clients[0].items()
    }
    u, s, vh = torch.linalg.svd(mean_product(clients, weights), full_matrices=False)
    expected = u[:, :rank] * s[:rank] @ vh[:rank]
    torch.testing.assert_close(product(result), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@CASES
def test_the_nearest_product_is_exact_up_to_rank_r(seed, count, rank, rows, columns) -> None:
    """All clients have the same B, so the mean has rank r."""
    clients = random_clients(seed, count, rank, rows, columns)
    clients = [each | {B: clients[0][B]} for each in clients]
    weights = [k + 1.0 for k in range(count)]
    result = product(aggregate_adapters("product_svd", clients, weights))
    torch.testing.assert_close(result, mean_product(clients, weights), rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@CASES
def test_frozen_a_is_exact(seed, count, rank, rows, columns) -> None:
    clients = random_clients(seed, count, rank, rows, columns)
    clients = [each | {A: clients[0][A]} for each in clients]
    weights = [k + 0.3 for k in range(count)]
    result = aggregate_adapters("freeze_A", clients, weights)
    assert torch.equal(result[A], clients[0][A])
    torch.testing.assert_close(product(result), mean_product(clients, weights), rtol=0, atol=1e-12)
    assert factor_gaps(clients, weights)["m"].gap == pytest.approx(0, abs=1e-13)


def test_means_of_factors_and_of_products_differ() -> None:
    clients = random_clients(1, 2, 2, 6, 5)
    gap = factor_gaps(clients, [1, 1])["m"]
    assert gap.relative > 0.1


def test_a_direction_with_singular_value_zero_keeps_a_nonzero_a() -> None:
    """In the first round every B is zero, so the product is zero; A must not become zero."""
    clients = [each | {B: torch.zeros(6, 2).double()} for each in random_clients(1, 3, 2, 6, 5)]
    result = aggregate_adapters("product_svd", clients, [1, 1, 1])
    assert not result[B].any()
    usual = (
        torch.stack([each[A] for each in clients]).square().sum() / 6
    )  # 3 clients with 2 rows each
    torch.testing.assert_close(result[A].square().sum(dim=1), usual.expand(2))


def test_aggregation_is_deterministic_and_nearly_independent_of_the_order() -> None:
    clients = random_clients(4, 3, 2, 6, 5)
    first = aggregate_adapters("product_svd", clients, [1, 2, 3])
    again = aggregate_adapters("product_svd", clients, [1, 2, 3])
    reversed_order = aggregate_adapters("product_svd", clients[::-1], [3, 2, 1])
    assert all(torch.equal(first[name], again[name]) for name in first)
    torch.testing.assert_close(first, reversed_order, rtol=1e-9, atol=1e-12)


def test_sums_are_in_float64() -> None:
    """In float32 the small client would be lost by rounding."""
    large, small = {"w": torch.tensor([2.0**25])}, {"w": torch.tensor([1.0])}
    result = aggregate_adapters("factors", [large, small, {"w": -large["w"]}], [1, 1, 1])
    assert result["w"].dtype == torch.float32
    assert result["w"].item() == pytest.approx(1 / 3, rel=1e-6)


def test_b_alone_is_averaged_and_has_no_gap() -> None:
    clients = [{B: each[B]} for each in (ONE, TWO)]
    assert aggregate_adapters("freeze_A", clients, [1, 1])[B].tolist() == [[1.0], [1.0]]
    assert factor_gaps(clients, [1, 1]) == {}


def test_differing_a_are_refused_where_a_is_frozen() -> None:
    with pytest.raises(
        LanguageModelError, match=r"the same matrix A at all clients, but m.lora_A.weight differs"
    ):
        aggregate_adapters("freeze_A", [ONE, TWO], [1, 1])


@pytest.mark.parametrize(
    ("clients", "rows", "message"),
    [
        ([], [], "0 clients"),
        ([ONE, TWO], [1], "2 clients and 1 weights"),
        ([ONE, TWO], [0, 0], "adapters cannot be averaged with the weights"),
        ([ONE, TWO], [2, -1], "adapters cannot be averaged with the weights"),
        ([ONE, TWO], [math.nan, 1], "adapters cannot be averaged with the weights"),
        ([ONE, {A: TWO[A]}], [1, 1], "adapters of client 2 of 2 differ from those of client 1"),
        ([ONE, TWO | {A: TWO[A].T}], [1, 1], "adapters of client 2 of 2 differ"),
    ],
)
def test_clients_or_weights_without_a_mean_are_refused(clients, rows, message) -> None:
    with pytest.raises(LanguageModelError, match=message):
        aggregate_adapters("factors", clients, rows)
