"""IDs: normal forms, joined columns, hashes, common order, alignment digest, duplicates."""

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from psi.aes import encrypt_blocks
from psi.alignment import alignment_digest, common_order, order_words
from psi.domain import labelled_bytes, labelled_digest
from psi.errors import PsiError
from psi.ids import (
    NO_FINGERPRINTS,
    fingerprint_ids,
    join_columns,
    normalise,
    refuse_duplicates,
    session_hashes,
)

SESSION = b"a session of tests"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  ada\t\n", "ada"),
        ("\u00a0ada\u3000", "ada"),  # no-break and ideographic space
        ("Ａ１２", "A12"),  # full width
        ("ﬁle", "file"),  # ligature
        ("e\u0301", "é"),  # combining accent
        ("Å", "Å"),  # ångström sign
        ("①", "1"),
        ("Ada", "Ada"),  # no case folding
        ("007", "007"),  # no numeric rewriting
        ("a  b", "a  b"),
        ("ß", "ß"),
    ],
)
def test_normal_forms(text: str, normal: str) -> None:
    assert normalise(text) == normal.encode()


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    try:
        once = normalise(text)
    except PsiError:
        return
    assert normalise(once.decode()) == once


@pytest.mark.parametrize("text", ["", "  ", "\u3000\t"])
def test_empty_id(text: str) -> None:
    with pytest.raises(PsiError, match="an ID is empty"):
        normalise(text)


def test_id_that_is_no_text() -> None:
    with pytest.raises(PsiError, match="not valid Unicode") as caught:
        normalise("ada\ud800")
    assert "ada" not in str(caught.value)


@given(st.lists(st.binary(), min_size=1), st.lists(st.binary(), min_size=1))
def test_joined_columns_are_unambiguous(left: list[bytes], right: list[bytes]) -> None:
    assert (join_columns(left) == join_columns(right)) == (left == right)


def test_no_columns() -> None:
    with pytest.raises(PsiError, match="the list of ID columns is empty"):
        join_columns([])


def test_hash_is_sha256_of_domain_salt_and_id_under_a_key_of_the_session() -> None:
    row = session_hashes([b"ada"], SESSION, b"salt")
    expected = hashlib.sha256(b"vfl/psi/id/v1\n" + bytes([0, 0, 0, 4]) + b"salt" + b"ada")
    key = hashlib.sha256(b"vfl/psi/id-session/v1\n" + bytes([0, 0, 0, 18]) + SESSION).digest()[:16]
    block = np.frombuffer(expected.digest()[:16], np.uint8).reshape(1, 16)
    assert row.dtype == np.uint8
    assert np.array_equal(row, encrypt_blocks(key, block))


def test_fingerprints_are_chunks_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [b"%d" % number for number in range(10)]
    (whole,) = fingerprint_ids(ids)
    monkeypatch.setattr("psi.ids.CHUNK_IDS", 4)
    parts = list(fingerprint_ids(iter(ids)))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert np.array_equal(np.concatenate(parts), whole)


def test_hashes_are_separated_by_salt() -> None:
    assert not np.array_equal(
        session_hashes([b"ada"], SESSION, b"1"), session_hashes([b"ada"], SESSION, b"2")
    )


def test_hashes_are_separated_by_session() -> None:
    assert not np.array_equal(
        session_hashes([b"ada"], SESSION), session_hashes([b"ada"], SESSION + b"2")
    )


def test_hash_of_no_ids() -> None:
    assert session_hashes([], SESSION).shape == (0, 16)


@given(st.text(min_size=1), st.lists(st.binary()), st.lists(st.binary()))
def test_framing_is_unambiguous(label: str, left: list[bytes], right: list[bytes]) -> None:
    assert (labelled_bytes(label, *left) == labelled_bytes(label, *right)) == (left == right)


def ordered(ids: list[bytes], key: bytes) -> np.ndarray:
    prints = np.concatenate([NO_FINGERPRINTS, *fingerprint_ids(ids)])
    return common_order(lambda part: order_words(prints, key, part))


def test_common_order_does_not_depend_on_the_row_order() -> None:
    ids = [f"person {number}".encode() for number in range(100)]
    there, back = ordered(ids, b"key"), ordered(ids[::-1], b"key")
    assert [ids[row] for row in there] == [ids[::-1][row] for row in back]
    assert there.dtype == np.int64


def test_common_rows_are_in_the_order_of_aes_of_their_fingerprints() -> None:
    ids = [f"person {number}".encode() for number in range(100)]
    key = hashlib.sha256(b"vfl/psi/order/v1\n" + bytes([0, 0, 0, 3]) + b"key").digest()[:16]
    aes = Cipher(algorithms.AES128(key), modes.ECB())
    prints = [hashlib.sha256(b"vfl/psi/id/v1\n" + bytes(4) + each).digest()[:16] for each in ids]
    blocks = [aes.encryptor().update(each) for each in prints]
    assert ordered(ids, b"key").tolist() == sorted(range(100), key=blocks.__getitem__)


def test_order_words_are_the_two_halves_of_a_block() -> None:
    (prints,) = fingerprint_ids([b"ada", b"bob"])
    halves = [order_words(prints, b"key", part).astype(">u8").tobytes() for part in (0, 1)]
    block = encrypt_blocks(labelled_digest("order", b"key")[:16], prints)
    assert [halves[0][:8] + halves[1][:8], halves[0][8:] + halves[1][8:]] == [
        row.tobytes() for row in block
    ]


def test_common_order_depends_on_the_key() -> None:
    ids = [f"person {number}".encode() for number in range(100)]
    assert not np.array_equal(ordered(ids, b"key"), ordered(ids, b"other"))


def test_common_order_of_nothing() -> None:
    assert ordered([], b"key").shape == (0,)


def test_alignment_digest_binds_order_session_and_agreement() -> None:
    ids, agreement = next(fingerprint_ids([b"ada", b"bob"])), bytes(32)
    digests = {
        alignment_digest([ids], SESSION, agreement),
        alignment_digest([ids[::-1]], SESSION, agreement),
        alignment_digest([ids[:1]], SESSION, agreement),
        alignment_digest([ids], SESSION + b"2", agreement),
        alignment_digest([ids], SESSION, b"1" * 32),
    }
    assert len(digests) == 5
    assert {len(digest) for digest in digests} == {32}


@pytest.mark.parametrize("chunk_ids", [2, 3, 100])
def test_equal_order_words_are_decided_by_the_next_words(
    monkeypatch: pytest.MonkeyPatch, chunk_ids: int
) -> None:
    words = [np.array([5, 1, 5, 9, 5], np.uint64), np.array([2, 9, 1, 4, 0], np.uint64)]
    monkeypatch.setattr("psi.alignment.CHUNK_IDS", chunk_ids)
    assert common_order(words.__getitem__).tolist() == [1, 4, 2, 0, 3]


def refused(ids: list[bytes], rows: np.ndarray | None = None) -> str:
    with pytest.raises(PsiError, match="shop: duplicate IDs") as caught:
        refuse_duplicates(next(fingerprint_ids(ids)), "shop", rows)
    assert "ada" not in str(caught.value) + caught.value.hint
    return str(caught.value)


def test_duplicate_ids_by_row_and_never_by_value() -> None:
    assert "rows 0 and 2, 1 and 3 (" in refused([b"ada", b"bob", b"ada", b"bob"])


def test_duplicate_ids_of_a_bucket_by_the_rows_of_the_party() -> None:
    assert "rows 4 and 90 (" in refused([b"ada", b"bob", b"ada"], np.array([4, 7, 90]))


def test_many_duplicate_ids_are_counted() -> None:
    assert "and 4 more pairs" in refused([b"ada"] * 10)


def test_fingerprints_that_are_alike_in_half_are_no_duplicates() -> None:
    half = np.zeros((2, 16), np.uint8)
    half[1, 12] = 1
    refuse_duplicates(half, "shop")
