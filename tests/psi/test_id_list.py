"""The compact list of IDs: it behaves like a Python list."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psi.id_list import IdList

ids_strategy = st.lists(st.binary(max_size=9), max_size=40)


@given(ids_strategy)
def test_equal_to_a_python_list(ids: list[bytes]) -> None:
    compact = IdList.of(iter(ids))
    assert len(compact) == len(ids)
    assert list(compact) == ids
    assert [compact[at] for at in range(len(ids))] == ids
    assert [compact[at] for at in range(-len(ids), 0)] == ids
    assert compact[1:7:2] == ids[1:7:2]
    assert compact[::-1] == ids[::-1]


def test_reading_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psi.id_list.CHUNK_IDS", 3)
    ids = [b"%d" % number for number in range(10)]
    compact = IdList.of(ids)
    assert list(compact) == ids
    assert compact[2:9] == ids[2:9]
    rows = np.array([9, 0, 3, 3, 2, 6, 8], np.uint32)
    assert list(compact.take(rows)) == [ids[row] for row in rows]


@given(ids_strategy)
def test_text_and_ends_give_the_same_list(ids: list[bytes]) -> None:
    assert_same_from_text(ids)


def test_text_and_ends_give_the_same_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psi.id_list.CHUNK_IDS", 3)
    for count in (0, 1, 3, 4, 9, 10):
        assert_same_from_text([b"%d" % number for number in range(count)])


def assert_same_from_text(ids: list[bytes]) -> None:
    """The list of a text and its ends equals the list of single IDs."""
    text = np.frombuffer(b"".join(ids), np.uint8)
    compact = IdList.from_text(text, np.cumsum([len(each) for each in ids], dtype=np.int64))
    assert list(compact) == ids
    assert compact.digest == IdList(ids).digest


@pytest.mark.parametrize("at", [3, -4])
def test_an_index_out_of_range_is_refused(at: int) -> None:
    with pytest.raises(IndexError):
        IdList.of([b"a", b"b", b"c"])[at]


@given(ids_strategy, ids_strategy)
def test_the_digests_of_different_lists_differ(one: list[bytes], two: list[bytes]) -> None:
    assert (IdList.of(one).digest == IdList.of(two).digest) == (one == two)


def test_its_repr_shows_no_id() -> None:
    assert repr(IdList.of([b"ada", b"bob"])) == "IdList of 2 IDs"


def test_a_compact_list_is_returned_unchanged() -> None:
    ids = IdList.of([b"ada"])
    assert IdList.of(ids) is ids


def test_memory_is_little_more_than_the_ids() -> None:
    ids = IdList.of(b"person-%06d" % number for number in range(10_000))
    assert sum(map(len, ids._buffers)) + ids._bounds.nbytes < 18 * 10_000
