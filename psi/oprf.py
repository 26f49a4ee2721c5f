"""Multi-point OPRF: the leader learns its outputs at its own rows, the member may compute any.

Chase and Miao, "Private Set Intersection in the Internet Setting From Lightweight Oblivious PRF"
(CRYPTO 2020), Section 3; the leader is the paper's receiver P₂, the member its sender P₁. Letters:
k and F_k choose for a row one position v[j] in each of the w columns; D has zeros exactly at the
positions of the leader's rows; A is the leader's matrix, C = A ⊕ s·D the member's, so both read
the same bits at a row of the leader, and at any other row they differ in at least λ bits of s.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

from psi.aes import KEY_BYTES, encrypted, keystream
from psi.domain import digest, number
from psi.loops import PLAIN, Loops
from psi.shared_types import Bytes, ColumnPlaces
from psi.terms import TAG_BYTES, Terms

COLUMNS_PER_BLOCK = 4  # 32-bit words in an AES block
ROWS_AT_ONCE = 1 << 16  # bounds the memory of H₂


def bucket_key(key: bytes, terms: Terms) -> bytes:
    """The position key of the bucket of ``terms``, from that of the run: 16 bytes."""
    return digest("oprf-bucket", terms.session, key, number(terms.bucket))[:KEY_BYTES]


def bucket_seed(key: bytes, terms: Terms, column: int) -> bytes:
    """The seed of one column in the bucket of ``terms``, from a key of the base OT: 16 bytes."""
    return digest("oprf-seed", terms.context("oprf-seed"), number(column), key)[:KEY_BYTES]


def positions(
    key: bytes, session: bytes, hashes: Bytes, rows: int, loops: Loops = PLAIN
) -> Iterator[ColumnPlaces]:
    """v[j] = F_k(h(x))_j in [0, rows) for every row x: one [n] array per column, without end.

    ``hashes`` is h(x), [n, 16] uint8.
    """
    block = 0
    while True:
        block_key = digest("oprf-position", session, key, number(block))[:KEY_BYTES]
        words = encrypted(block_key, hashes).view("<u4")
        for lane in range(COLUMNS_PER_BLOCK):
            yield loops.places(words, lane, rows)
        block += 1


def difference(keys: tuple[bytes, bytes], column: Bytes) -> tuple[Bytes, Bytes]:
    """The leader's column A_j = PRG(K₀) and Δ_j = PRG(K₀) ⊕ PRG(K₁) ⊕ D_j, both packed."""
    # Chase and Miao, "oblivious transfer", of A_j and B_j = A_j ⊕ D_j: random keys, one difference.
    own = keystream(keys[0], column.size)
    delta = keystream(keys[1], column.size)
    delta ^= own
    delta ^= column
    return own, delta


def chosen(key: bytes, bit: int, delta: Bytes) -> Bytes:
    """The member's column C_j = PRG(K_s) ⊕ s·Δ_j, packed; the work does not depend on s."""
    column = keystream(key, delta.size)
    column ^= delta & np.uint8(0xFF * bit)
    return column


class Readings:
    """The bits that the rows read in the columns seen so far: [n, w] bits, built by column."""

    def __init__(self, count: int, width: int, loops: Loops = PLAIN) -> None:
        self._loops = loops
        self._octets = np.zeros((width // 8, count), np.uint8)
        self._columns = 0

    @property
    def columns(self) -> int:
        """How many columns were read."""
        return self._columns

    def read(self, column: Bytes, where: ColumnPlaces) -> None:
        """Append to every row its bit of the packed ``column``, at its position ``where``."""
        octet, bit = divmod(self._columns, 8)
        self._loops.read_bits(column, where, 7 - bit, self._octets[octet])
        self._columns += 1

    def outputs(self, terms: Terms) -> tuple[Bytes, Bytes]:
        """H₂ of the bits of each row, cut in two: pads [n, ℓ] and tags [n, 12] uint8."""
        # Chase and Miao, "OPRF evaluation": Ψ = H₂(C₁[v[1]] ‖ … ‖ C_w[v[w]]). H₂ is BLAKE2b behind
        # 32 bytes of context: among the hashes at hand its state is the quickest to copy.
        size = terms.check_bytes + TAG_BYTES
        start = hashlib.blake2b(terms.context("oprf-output"), digest_size=size)
        parts = range(0, self._octets.shape[1], ROWS_AT_ONCE)
        digests = b"".join(self._digests(start, slice(at, at + ROWS_AT_ONCE)) for at in parts)
        out = np.frombuffer(digests, np.uint8).reshape(-1, size)
        return out[:, : terms.check_bytes], out[:, terms.check_bytes :]

    def _digests(self, start: hashlib.blake2b, part: slice) -> bytes:
        """The digests of the rows in ``part``, one behind the other."""
        rows = np.ascontiguousarray(self._octets[:, part].T)

        def one(bits: bytes) -> bytes:
            state = start.copy()
            state.update(bits)
            return state.digest()

        return b"".join(map(one, rows.view(f"V{rows.shape[1]}").ravel().tolist()))
