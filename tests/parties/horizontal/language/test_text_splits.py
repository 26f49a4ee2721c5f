"""How texts are dealt to clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.common.errors import PolicyError
from parties.language.texts.splits import (
    Holding,
    Layout,
    Sizes,
    apart,
    at_holders,
    authors,
    deal,
    shards,
)

TOFU = Sizes(retain=3600, forget=400)
SHARDS = [[0, 1, 5, 7], [2, 3, 4, 6]]  # five rows to keep and three to forget, at two clients
ONE = [[1, 3, 4], [0, 2, 5, 6, 7]]


def rows(holdings: tuple[Holding, ...]) -> list[int]:
    return sorted(row for holding in holdings for row in holding.rows.tolist())


@given(
    st.sampled_from(["shards", "one", "authors", "apart"]),
    st.integers(2, 6),
    st.integers(0, 10_000),
    st.integers(6, 20),
    st.integers(1, 10),
)
def test_every_row_has_one_holder_and_its_flag(
    layout: Layout, clients: int, seed: int, retain: int, forget: int
) -> None:
    sizes = Sizes(20 * retain, 20 * forget)
    dealt = deal(layout, sizes, clients, seed, holders=(1,))
    assert len(dealt) == clients
    assert rows(dealt) == list(range(sizes.rows))
    for holding in dealt:
        assert (holding.forget == (holding.rows >= sizes.retain)).all()
        assert (np.diff(holding.rows) > 0).all()
        both = [*holding.retained.tolist(), *holding.forgotten.tolist()]
        assert both == holding.rows.tolist()


def test_shards_are_equal_and_shuffled() -> None:
    dealt = shards(TOFU, 3, 0)
    assert [len(holding.rows) for holding in dealt] == [1334, 1333, 1333]
    # 400 rows at random over three clients: 133 each, give or take 4.5 standard deviations of 9.4
    assert all(91 <= len(holding.forgotten) <= 176 for holding in dealt)
    # A shuffle leaves no long runs: neighbours stay together one time in three.
    assert np.mean(np.diff(dealt[0].rows) == 1) < 0.4


def test_a_seed_gives_one_deal_and_another_seed_another() -> None:
    first, again, other = (shards(TOFU, 3, seed)[0].rows.tolist() for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_small_deals_are_these_for_ever() -> None:
    assert [holding.rows.tolist() for holding in shards(Sizes(5, 3), 2, 0)] == SHARDS
    assert [holding.rows.tolist() for holding in at_holders(Sizes(5, 3), 2, 0, (1,))] == ONE


def test_one_client_holds_all_that_is_to_be_forgotten() -> None:
    dealt = at_holders(TOFU, 3, 0, (0,))
    assert [len(holding.forgotten) for holding in dealt] == [400, 0, 0]
    assert [len(holding.retained) for holding in dealt] == [1200, 1200, 1200]


def test_several_clients_hold_equal_parts_of_it() -> None:
    dealt = at_holders(TOFU, 4, 0, (3, 1))
    assert [len(holding.forgotten) for holding in dealt] == [0, 200, 0, 200]


def test_authors_stay_whole() -> None:
    dealt = authors(TOFU, 3, 0)
    assert [len(holding.rows) // 20 for holding in dealt] == [67, 67, 66]
    for holding in dealt:
        whole = holding.rows.reshape(-1, 20)
        assert (whole[:, 0] % 20 == 0).all()
        assert (np.diff(whole, axis=1) == 1).all()


def test_a_corpus_to_forget_lies_apart() -> None:
    dealt = apart(Sizes(10, 4), 3, 0, (1,))
    assert [len(holding.forgotten) for holding in dealt] == [0, 4, 0]
    assert [len(holding.retained) for holding in dealt] == [5, 0, 5]


@pytest.mark.parametrize(
    ("layout", "sizes", "clients", "holders", "told"),
    [
        ("shards", Sizes(2, 1), 4, (0,), "3 rows or authors cannot be dealt to 4 clients"),
        ("shards", Sizes(2, 1), 0, (0,), "cannot be dealt to 0 clients"),
        ("one", TOFU, 3, (3,), r"cannot be dealt to the clients \[3\]"),
        ("one", TOFU, 3, (-1,), r"cannot be dealt to the clients \[-1\]"),
        ("one", TOFU, 3, (), r"cannot be dealt to the clients \[\]"),
        ("one", TOFU, 3, (1, 1), r"cannot be dealt to the clients \[1, 1\]"),
        ("one", Sizes(9, 1), 3, (0, 1), "1 rows or authors cannot be dealt to 2 clients"),
        ("authors", Sizes(3600, 399), 3, (0,), "are not whole authors of 20 rows"),
        ("apart", TOFU, 2, (0, 1), "every client holds the corpus to forget"),
        ("apart", TOFU, 2, (5,), r"cannot be dealt to the clients \[5\]"),
    ],
)
def test_what_cannot_be_dealt_is_refused(
    layout: Layout, sizes: Sizes, clients: int, holders: tuple[int, ...], told: str
) -> None:
    with pytest.raises(PolicyError, match=told):
        deal(layout, sizes, clients, 0, holders)
