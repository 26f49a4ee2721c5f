"""The key-value store: exact values, uniform slots, and the bound on its failures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psi_run import fixed_entropy

from psi.errors import PsiError
from psi.okvs import (
    DENSE_SLOTS,
    EXPANSION,
    MIN_KEYS,
    StoreLayout,
    decode_store,
    encode_store,
    peel_keys,
    solve_gf2,
)


def filled(count: int, seed: int, size: int = 8, plan_count: int = 0) -> tuple[StoreLayout, ...]:
    """A layout, random keys and values, and their store."""
    draw = np.random.default_rng(seed)
    plan = StoreLayout(plan_count or max(count, MIN_KEYS), size, draw.bytes(32))
    keys = draw.integers(0, 256, (count, 16), np.uint8)
    values = draw.integers(0, 256, (count, size), np.uint8)
    return plan, keys, values, encode_store(plan, keys, values, fixed_entropy(str(seed)))


@settings(max_examples=25)
@given(st.integers(1, 6000), st.integers(0, 2**32), st.sampled_from([8, 12]))
def test_every_key_decodes_to_its_value(count: int, seed: int, size: int) -> None:
    plan, keys, values, store = filled(count, seed, size)
    assert store.shape == plan.shape
    assert np.array_equal(decode_store(plan, store, keys), values)


@pytest.mark.parametrize(("count", "runs"), [(1, 300), (1000, 300), (4096, 300), (20_000, 30)])
def test_no_failure_at_shipped_sizes(count: int, runs: int) -> None:
    for seed in range(runs):
        plan, keys, values, store = filled(count, seed)
        assert np.array_equal(decode_store(plan, store, keys[:50]), values[:50])


def test_tiny_stores_need_elimination_and_do_not_fail() -> None:
    # Without the padding to 4,096 keys peeling often leaves a 2-core, which needs dense slots.
    cores = 0
    for seed in range(3000):
        count = 3 + seed % 40
        plan, keys, values, store = filled(count, seed, plan_count=count)
        cores += len(peel_keys(plan.sparse(keys), 3 * plan.third)[1]) > 0
        assert np.array_equal(decode_store(plan, store, keys), values)
    assert cores > 300


def test_a_large_core_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psi.okvs.EXPANSION", 1.15)
    plan, keys, values, store = filled(1000, 1, plan_count=1000)
    assert len(peel_keys(plan.sparse(keys), 3 * plan.third)[1]) > 500
    assert np.array_equal(decode_store(plan, store, keys), values)


def test_a_core_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psi.okvs.EXPANSION", 1.15)
    monkeypatch.setattr("psi.okvs.MAX_CORE_KEYS", 500)
    with pytest.raises(PsiError, match="are left after peeling") as caught:
        filled(1000, 1, plan_count=1000)
    assert "new session" in caught.value.hint


def test_a_repeated_key_is_refused() -> None:
    draw = np.random.default_rng(0)
    keys = np.repeat(draw.integers(0, 256, (1, 16), np.uint8), 2, axis=0)
    values = draw.integers(0, 256, (2, 8), np.uint8)
    with pytest.raises(PsiError, match="no solution"):
        encode_store(StoreLayout(MIN_KEYS, 8, bytes(32)), keys, values, fixed_entropy("repeated"))


def test_other_keys_decode_to_uniform_bytes() -> None:
    plan, _, _, store = filled(5000, 7)
    others = np.random.default_rng(8).integers(0, 256, (5000, 16), np.uint8)
    counts = np.bincount(decode_store(plan, store, others).ravel(), minlength=256)
    assert abs(counts - counts.mean()).max() < 6 * math.sqrt(counts.mean())


def test_slots_are_uniform_bytes() -> None:
    store = filled(MIN_KEYS, 9)[3]
    counts = np.bincount(store.ravel(), minlength=256)
    assert abs(counts - counts.mean()).max() < 6 * math.sqrt(counts.mean())


def test_another_seed_reads_other_slots() -> None:
    keys = np.random.default_rng(0).integers(0, 256, (100, 16), np.uint8)
    left, right = (StoreLayout(MIN_KEYS, 8, bytes([seed]) * 32) for seed in (1, 2))
    assert not np.array_equal(left.sparse(keys), right.sparse(keys))
    assert not np.array_equal(left.dense(keys), right.dense(keys))


def log2_dependent_sets(count: int) -> float:
    """log₂ of the expected number of non-empty sets of keys whose sparse rows cancel.

    Σ over even s of C(n, s) q_s³, where q_s = 2^-b Σ_k C(b, k) ((b - 2k) / b)^s is the probability
    that s balls thrown into the b slots of one third hit every slot an even number of times.
    """
    third = math.ceil(EXPANSION * count / 3)
    log_choose = np.vectorize(
        lambda n, k: math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    )
    k = np.arange(third + 1)
    weights = log_choose(third, k) - third * math.log(2)
    with np.errstate(divide="ignore"):
        bias = np.log(np.abs(1 - 2 * k / third))
    even = np.arange(2, count + 1, 2)
    each = [np.logaddexp.reduce(weights + s * bias) for s in even]
    return float(np.logaddexp.reduce(log_choose(count, even) + 3 * np.array(each)) / math.log(2))


def test_failure_bound_is_below_two_to_the_minus_forty() -> None:
    # A set of keys that cancels in the sparse part also cancels in the dense part with probability
    # 2^-40, independently; without such a set the equations have a solution (union bound).
    smallest, larger = log2_dependent_sets(MIN_KEYS), log2_dependent_sets(2 * MIN_KEYS)
    assert smallest - DENSE_SLOTS == pytest.approx(-49.4, abs=0.1)
    assert larger < smallest


def dependent_sets(rows: list[int]) -> int:
    """The number of non-empty subsets of ``rows`` that cancel: 2^(rows - rank) - 1."""
    basis: dict[int, int] = {}
    for row in rows:
        rest = row
        while rest and rest.bit_length() in basis:
            rest ^= basis[rest.bit_length()]
        if rest:
            basis[rest.bit_length()] = rest
    return 2 ** (len(rows) - len(basis)) - 1


def test_the_bound_agrees_with_experiments() -> None:
    third = math.ceil(EXPANSION * 60 / 3)
    slots = np.random.default_rng(3).integers(0, third, (4000, 60, 3)) + np.arange(3) * third
    counts = [
        dependent_sets([sum(1 << slot for slot in key) for key in store])
        for store in slots.tolist()
    ]
    assert np.mean(counts) == pytest.approx(2 ** log2_dependent_sets(60), rel=0.15)


def test_peeling_by_hand() -> None:
    slots = np.array([[0, 3, 6], [0, 3, 7], [1, 4, 8], [1, 4, 8]])
    rounds, core = peel_keys(slots, 9)
    assert core.tolist() == [2, 3]
    assert sorted(np.concatenate([keys for keys, _ in rounds]).tolist()) == [0, 1]


@given(st.lists(st.integers(0, 63), min_size=1, max_size=8), st.data())
def test_elimination_solves_or_finds_dependence(rows: list[int], data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, 255), min_size=len(rows), max_size=len(rows)))
    free = data.draw(st.lists(st.integers(0, 255), min_size=6, max_size=6))
    solution = solve_gf2(rows, values, free)
    spans = {0}
    for row in rows:
        spans |= {row ^ other for other in spans}
    assert (solution is None) == (len(spans) < 2 ** len(rows))
    for row, value in zip(rows, values, strict=True) if solution else ():
        total = 0
        for unknown in range(6):
            total ^= solution[unknown] if row >> unknown & 1 else 0
        assert total == value
