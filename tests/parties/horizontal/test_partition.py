"""Partitions of one data set among clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.data.partition import (
    class_holders,
    dirichlet_partition,
    iid_partition,
    pathological_partition,
)

LABELS = np.repeat(np.arange(10), 60)


def disjoint(parts: list[Index]) -> bool:
    whole = np.concatenate(parts)
    return len(np.unique(whole)) == len(whole)


@given(st.integers(0, 1000), st.integers(2, 20))
def test_iid_parts_are_disjoint_and_equal(seed: int, clients: int) -> None:
    parts = iid_partition(LABELS, clients, seed)
    assert disjoint(parts)
    assert sum(map(len, parts)) == len(LABELS)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("share", "classes"), [(0.1, 1), (0.2, 2), (0.5, 5)])
def test_every_client_has_its_share_of_the_classes(share: float, classes: int) -> None:
    parts = pathological_partition(LABELS, 10, 10, share, 0)
    assert disjoint(parts)
    assert sum(map(len, parts)) == len(LABELS)
    assert [len(np.unique(LABELS[part])) for part in parts] == [classes] * 10


def test_classes_are_assigned_to_the_first_clients_with_too_few() -> None:
    """Every client has two classes; the first two clients share the first two classes."""
    parts = pathological_partition(LABELS, 10, 10, 0.2, 0)
    assert set(LABELS[parts[0]]) == set(LABELS[parts[1]]) == {0, 1}
    assert len(parts[0]) == 60


@pytest.mark.parametrize(
    ("clients", "share", "holders"),
    [
        (10, 0.2, [2] * 10),
        (5, 0.1, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]),
        # Twelve places for ten classes: two clients get the same four, the third the next four.
        (3, 0.4, [2, 2, 2, 2, 1, 1, 1, 1, 0, 0]),
    ],
)
def test_rows_of_a_class_without_a_holder_belong_to_no_client(
    clients: int, share: float, holders: list[int]
) -> None:
    assert [len(each) for each in class_holders(10, clients, share)] == holders
    parts = pathological_partition(LABELS, 10, clients, share, 0)
    counts = np.bincount(LABELS[np.concatenate(parts)], minlength=10)
    assert counts.tolist() == [60 if each else 0 for each in holders]


def test_more_clients_than_classes_are_refused() -> None:
    with pytest.raises(PolicyError, match="the partition leaves a client without rows"):
        pathological_partition(np.repeat([0, 1], 3), 2, 10, 0.5, 0)


@pytest.mark.parametrize("concentration", [0.05, 0.5, 100.0])
def test_small_concentration_gives_few_classes_per_client(concentration: float) -> None:
    parts = dirichlet_partition(LABELS, 5, concentration, 10, 0)
    assert disjoint(parts)
    assert sum(map(len, parts)) == len(LABELS)
    assert min(map(len, parts)) >= 10
    largest = np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts])
    assert largest > 0.3 if concentration < 0.1 else largest < 0.8


@pytest.mark.parametrize("concentration", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("clients", [5, 7])
def test_balanced_partition_gives_no_client_more_than_its_part(
    concentration: float, clients: int
) -> None:
    """600 rows: five clients get 120 each, of seven clients five get 86 and two get 85."""
    parts = dirichlet_partition(LABELS, clients, concentration, 10, 0, balanced=True)
    assert disjoint(parts)
    assert sorted(map(len, parts)) == ([120] * 5 if clients == 5 else [85] * 2 + [86] * 5)
    largest = np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts])
    assert largest > 0.4 if concentration < 0.1 else largest < 0.6
    free = dirichlet_partition(LABELS, clients, concentration, 1, 0)
    assert max(map(len, free)) > 600 / clients + 1


def test_balanced_partition_by_hand() -> None:
    """Two clients, one with nearly all of every share: it gets its half, the other the rest."""
    labels = np.repeat([0, 1, 2], [3, 2, 1])
    parts = dirichlet_partition(labels, 2, 1e-3, 1, 3, balanced=True)
    assert [len(part) for part in parts] == [3, 3]
    assert {tuple(np.bincount(labels[part], minlength=3)) for part in parts} == {
        (3, 0, 0),
        (0, 2, 1),
    }


def test_too_large_minimum_of_rows_is_refused() -> None:
    with pytest.raises(PolicyError, match="of 600 rows gives every client 200 rows"):
        dirichlet_partition(LABELS, 5, 0.1, 200, 0)


def test_same_seed_gives_the_same_partition() -> None:
    for partition in (
        lambda seed: iid_partition(LABELS, 5, seed),
        lambda seed: pathological_partition(LABELS, 10, 5, 0.4, seed),
        lambda seed: dirichlet_partition(LABELS, 5, 0.5, 1, seed),
    ):
        first, again, other = partition(1), partition(1), partition(2)
        assert all((a == b).all() for a, b in zip(first, again, strict=True))
        assert any(len(a) != len(b) or (a != b).any() for a, b in zip(first, other, strict=True))
