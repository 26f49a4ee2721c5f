"""The OPRF: the width of the matrix, the positions, the zero shares, and the tags."""

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from psi.aes import aes_keystream, encrypt_blocks, scale_words
from psi.column_kernels import pack_zeros
from psi.errors import PsiError
from psi.ids import session_hashes
from psi.oprf import column_positions, leader_column, member_column
from psi.parameters import PsiParameters, matrix_width
from psi.tags import find_tags, tag_order
from psi.zero_share import zero_share_key, zero_shares

SESSION = b"a session of tests"


def parameters(leader_size: int = 10, member_size: int = 20, **other: object) -> PsiParameters:
    fields = {"session": SESSION, "member": "shop", **other}
    return PsiParameters(leader_size=leader_size, member_size=member_size, **fields)


@pytest.mark.parametrize(("log", "width"), [(16, 609), (18, 615), (20, 621)])
def test_width_is_that_of_the_paper(log: int, width: int) -> None:
    # Chase and Miao, Table 1 (m = n), and the defaults of their program.
    assert matrix_width(1 << log, 1 << log, 1 << log) == width


def test_width_by_exact_arithmetic() -> None:
    # One ID of the leader in 8,192 rows: p = 1 - 1/8192, all fractions, no logarithms.
    p = 1 - 1 / 8192
    tails = [
        sum(math.comb(w, k) * p**k * (1 - p) ** (w - k) for k in range(128)) for w in (132, 133)
    ]
    assert tails[0] > 2**-40 >= tails[1]
    assert matrix_width(8192, 1, 1) == 133


def test_sizes_that_follow_from_the_parameters() -> None:
    assert (parameters().rows, parameters(5000).rows, parameters(100_001).rows) == (
        8192,
        8768,
        175_040,
    )
    assert parameters(100_000, 100_000).width == 376
    assert (parameters(1 << 20).check_bytes, parameters((1 << 20) + 1).check_bytes) == (8, 12)
    assert (
        parameters(1 << 17, buckets=8).check_bytes,
        parameters(1 << 17, buckets=9).check_bytes,
    ) == (8, 12)
    assert parameters(100_000, 100_000, buckets=64).width > parameters(100_000, 100_000).width


def test_contexts_are_all_different() -> None:
    variants = [
        parameters(),
        parameters(11),
        parameters(10, 21),
        parameters(session=SESSION + b"2"),
        parameters(member="bank"),
        parameters(bucket=1),
    ]
    contexts = {each.context(label) for each in variants for label in ("base-ot", "okvs")}
    assert len(contexts) == 12


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**28))
def test_scaled_words_stay_in_range(word: int, limit: int) -> None:
    value = int(scale_words(np.array([word], np.uint32), limit)[0])
    assert value == word * limit >> 32
    assert 0 <= value < limit


def test_aes_by_the_standard() -> None:
    # FIPS 197, appendix C.1.
    block = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), np.uint8)
    out = encrypt_blocks(bytes(range(16)), block.reshape(1, 16))
    assert out.tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    counters = np.array([[0] * 16, [0] * 15 + [1]], np.uint8)
    both = encrypt_blocks(bytes(range(16)), counters).tobytes()
    assert aes_keystream(bytes(range(16)), 20).tobytes() == both[:20]


def test_positions_are_uniform_and_separated() -> None:
    hashes = session_hashes([f"person {number}".encode() for number in range(5000)], SESSION)
    columns = column_positions(b"k" * 16, SESSION, hashes, 640)
    seen = [next(columns) for _ in range(8)]
    assert len({column.tobytes() for column in seen}) == 8
    counts = np.bincount(np.concatenate(seen), minlength=640)
    assert abs(counts - 62.5).max() < 6 * math.sqrt(62.5)
    other = next(column_positions(b"k" * 16, SESSION + b"2", hashes, 640))
    assert not np.array_equal(other, seen[0])


@pytest.mark.parametrize("bit", [0, 1])
def test_both_sides_read_the_same_at_rows_of_the_leader(bit: int) -> None:
    keys = (b"0" * 16, b"1" * 16)
    where = np.array([3, 60])
    own, delta = leader_column(keys, pack_zeros(where, 64))
    theirs = member_column(keys[bit], bit, delta)
    differ = np.flatnonzero(np.unpackbits(own ^ theirs))
    assert differ.tolist() == ([row for row in range(64) if row not in (3, 60)] if bit else [])


def test_zero_shares_cancel_on_common_rows_only() -> None:
    names = ["bank", "lab", "shop"]
    private = {
        name: X25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n, name in enumerate(names)
    }
    shares = {name: key.public_key().public_bytes_raw() for name, key in private.items()}
    keys = {
        name: [
            zero_share_key(private[name], shares, SESSION, (name, other))
            for other in names
            if other != name
        ]
        for name in names
    }
    assert keys["bank"][1] == keys["shop"][0]
    assert len({key for pair in keys.values() for key in pair}) == 3
    hashes = session_hashes([b"ada", b"bob"], SESSION)
    each = [zero_shares(keys[name], hashes, 12) for name in names]
    assert not (each[0] ^ each[1] ^ each[2]).any()
    assert (each[0] ^ each[1]).any(axis=1).all()


def test_pair_keys_are_separated_by_session() -> None:
    private = X25519PrivateKey.from_private_bytes(bytes(32))
    other = X25519PrivateKey.from_private_bytes(bytes([1] * 32))
    shares = {
        "shop": private.public_key().public_bytes_raw(),
        "bank": other.public_key().public_bytes_raw(),
    }
    keys = {zero_share_key(private, shares, session, ("shop", "bank")) for session in (b"1", b"2")}
    assert len(keys) == 2


@given(st.lists(st.binary(min_size=12, max_size=12), max_size=30))
def test_tags_are_sorted_as_byte_strings(tags: list[bytes]) -> None:
    array = np.frombuffer(b"".join(tags), np.uint8).reshape(-1, 12)
    assert [bytes(tag) for tag in array[tag_order(array)]] == sorted(tags)


@given(st.sets(st.binary(min_size=12, max_size=12), max_size=30), st.data())
def test_named_rows_are_found(tags: set[bytes], data: st.DataObject) -> None:
    own = data.draw(st.permutations(sorted(tags)))
    named = sorted(data.draw(st.sets(st.sampled_from(own))) if own else set())
    own_array, named_array = (
        np.frombuffer(b"".join(each), np.uint8).reshape(-1, 12) for each in (own, named)
    )
    rows = find_tags(own_array, named_array, "shop")
    assert rows.tolist() == [row for row, tag in enumerate(own) if tag in named]


def test_tags_with_equal_first_eight_bytes() -> None:
    tags = [bytes([0] * 8) + bytes([0, 0, 0, number]) for number in (3, 1, 2, 0)]
    own = np.frombuffer(b"".join(tags), np.uint8).reshape(-1, 12)
    assert tag_order(own).tolist() == [3, 1, 2, 0]
    for wanted in ([1], [0], [0, 3], [1, 2], []):
        received = own.take(np.array(wanted, np.int64), axis=0)
        received = received.take(tag_order(received), axis=0)
        assert find_tags(own, received, "shop").tolist() == wanted
    absent = np.frombuffer(bytes([0] * 8) + bytes([0, 0, 0, 4]), np.uint8).reshape(1, 12)
    for rows in (own, own[:0]):
        with pytest.raises(PsiError, match="no row of shop matches 1 of the 1 tags"):
            find_tags(rows, absent, "shop")
