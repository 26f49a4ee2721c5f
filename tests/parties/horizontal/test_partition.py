"""Partitions of one data set among clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.data.partition import dirichlet_partition, iid_partition, pathological_partition

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
    parts = pathological_partition(LABELS, 10, share, 0)
    assert disjoint(parts)
    assert sum(map(len, parts)) == len(LABELS)
    assert [len(np.unique(LABELS[part])) for part in parts] == [classes] * 10


def test_classes_are_assigned_to_the_first_clients_with_too_few() -> None:
    """Every client has two classes; the first two clients share the first two classes."""
    parts = pathological_partition(LABELS, 10, 0.2, 0)
    assert set(LABELS[parts[0]]) == set(LABELS[parts[1]]) == {0, 1}
    assert len(parts[0]) == 60


def test_more_clients_than_classes_are_refused() -> None:
    with pytest.raises(PolicyError, match="the partition leaves a client without rows"):
        pathological_partition(np.repeat([0, 1], 3), 10, 0.5, 0)


@pytest.mark.parametrize("concentration", [0.05, 0.5, 100.0])
def test_small_concentration_gives_few_classes_per_client(concentration: float) -> None:
    parts = dirichlet_partition(LABELS, 5, concentration, 10, 0)
    assert disjoint(parts)
    assert sum(map(len, parts)) == len(LABELS)
    assert min(map(len, parts)) >= 10
    largest = np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts])
    assert largest > 0.3 if concentration < 0.1 else largest < 0.8


def test_too_large_minimum_of_rows_is_refused() -> None:
    with pytest.raises(PolicyError, match="of 600 rows gives every client 200 rows"):
        dirichlet_partition(LABELS, 5, 0.1, 200, 0)


def test_same_seed_gives_the_same_partition() -> None:
    for partition in (
        lambda seed: iid_partition(LABELS, 5, seed),
        lambda seed: pathological_partition(LABELS, 5, 0.4, seed),
        lambda seed: dirichlet_partition(LABELS, 5, 0.5, 1, seed),
    ):
        first, again, other = partition(1), partition(1), partition(2)
        assert all((a == b).all() for a, b in zip(first, again, strict=True))
        assert any(len(a) != len(b) or (a != b).any() for a, b in zip(first, other, strict=True))
