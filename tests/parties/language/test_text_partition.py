"""Partition of a corpus among clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.language.texts.partition import (
    CorpusSizes,
    PartitionKind,
    TextShare,
    equal_shards,
    forget_rows_at_holders,
    partition_rows,
    separate_forget_holders,
    whole_authors,
)

TOFU = CorpusSizes(retain=3600, forget=400)
SHARDS = [[0, 1, 5, 7], [2, 3, 4, 6]]  # five rows to retain and three to forget, two clients
ONE = [[1, 3, 4], [0, 2, 5, 6, 7]]


def retained(share: TextShare) -> Index:
    return share.rows[~share.forget]


def forgotten(share: TextShare) -> Index:
    return share.rows[share.forget]


def rows(shares: tuple[TextShare, ...]) -> list[int]:
    return sorted(row for share in shares for row in share.rows.tolist())


@given(
    st.sampled_from(["shards", "one", "authors", "apart"]),
    st.integers(2, 6),
    st.integers(0, 10_000),
    st.integers(6, 20),
    st.integers(1, 10),
)
def test_every_row_has_one_client_and_its_flag(
    kind: PartitionKind, clients: int, seed: int, retain: int, forget: int
) -> None:
    sizes = CorpusSizes(20 * retain, 20 * forget)
    shares = partition_rows(kind, sizes, clients, seed, holders=(1,))
    assert len(shares) == clients
    assert rows(shares) == list(range(sizes.rows))
    for share in shares:
        assert (share.forget == (share.rows >= sizes.retain)).all()
        assert (np.diff(share.rows) > 0).all()
        both = [*retained(share).tolist(), *forgotten(share).tolist()]
        assert both == share.rows.tolist()


def test_shards_are_equal_and_shuffled() -> None:
    shares = equal_shards(TOFU, 3, 0)
    assert [len(share.rows) for share in shares] == [1334, 1333, 1333]
    # 400 rows at random over three clients: 133 each, give or take 4.5 standard deviations of 9.4
    assert all(91 <= len(forgotten(share)) <= 176 for share in shares)
    # A shuffle has no long runs: a row is followed by the next number one time in three.
    assert np.mean(np.diff(shares[0].rows) == 1) < 0.4


def test_the_partition_depends_on_the_seed() -> None:
    first, again, other = (equal_shards(TOFU, 3, seed)[0].rows.tolist() for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_small_partitions_are_reproduced() -> None:
    assert [share.rows.tolist() for share in equal_shards(CorpusSizes(5, 3), 2, 0)] == SHARDS
    assert [
        share.rows.tolist() for share in forget_rows_at_holders(CorpusSizes(5, 3), 2, 0, (1,))
    ] == ONE


def test_one_client_holds_all_rows_to_forget() -> None:
    shares = forget_rows_at_holders(TOFU, 3, 0, (0,))
    assert [len(forgotten(share)) for share in shares] == [400, 0, 0]
    assert [len(retained(share)) for share in shares] == [1200, 1200, 1200]


def test_several_clients_hold_equal_parts_of_the_rows_to_forget() -> None:
    shares = forget_rows_at_holders(TOFU, 4, 0, (3, 1))
    assert [len(forgotten(share)) for share in shares] == [0, 200, 0, 200]


def test_authors_are_not_divided() -> None:
    shares = whole_authors(TOFU, 3, 0)
    assert [len(share.rows) // 20 for share in shares] == [67, 67, 66]
    for share in shares:
        whole = share.rows.reshape(-1, 20)
        assert (whole[:, 0] % 20 == 0).all()
        assert (np.diff(whole, axis=1) == 1).all()


def test_a_corpus_to_forget_may_be_separate() -> None:
    shares = separate_forget_holders(CorpusSizes(10, 4), 3, 0, (1,))
    assert [len(forgotten(share)) for share in shares] == [0, 4, 0]
    assert [len(retained(share)) for share in shares] == [5, 0, 5]


@pytest.mark.parametrize(
    ("kind", "sizes", "clients", "holders", "message"),
    [
        (
            "shards",
            CorpusSizes(2, 1),
            4,
            (0,),
            r"3 rows \(authors if .*\) cannot be divided among 4 clients",
        ),
        ("shards", CorpusSizes(2, 1), 0, (0,), "cannot be divided among 0 clients"),
        ("one", TOFU, 3, (3,), r"cannot be divided among the clients \[3\]"),
        ("one", TOFU, 3, (-1,), r"cannot be divided among the clients \[-1\]"),
        ("one", TOFU, 3, (), r"cannot be divided among the clients \[\]"),
        ("one", TOFU, 3, (1, 1), r"cannot be divided among the clients \[1, 1\]"),
        (
            "one",
            CorpusSizes(9, 1),
            3,
            (0, 1),
            r"1 rows \(authors if .*\) cannot be divided among 2 clients",
        ),
        ("authors", CorpusSizes(3600, 399), 3, (0,), "into authors with 20 rows each"),
        ("apart", TOFU, 2, (0, 1), "every client holds rows to forget"),
        ("apart", TOFU, 2, (5,), r"cannot be divided among the clients \[5\]"),
    ],
)
def test_impossible_partitions_are_refused(
    kind: PartitionKind, sizes: CorpusSizes, clients: int, holders: tuple[int, ...], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        partition_rows(kind, sizes, clients, 0, holders)
