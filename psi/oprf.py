"""Multi-point OPRF of the semi-honest mode: one output for each row of the leader.

The protocol is from Chase and Miao, "Private Set Intersection in the Internet Setting From
Lightweight Oblivious PRF" (CRYPTO 2020), Section 3. The leader is the paper's receiver P₂; the
member is the sender P₁.

Notation: the function F_k selects for a row one position v[j] in each of the w columns. D is a
matrix with zeros exactly at the positions of the leader's rows. A is the leader's matrix, s are the
member's secret choice bits, and C = A ⊕ s·D is the member's matrix. For a row of the leader, the
selected bits of A and of C are equal. For any other row, D is 1 at the selected positions of at
least λ columns, with high probability. In these columns, the selected bits of A and C differ if the
member's choice bit is 1. From C, the member can compute the output of any row.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

from psi.aes import KEY_BYTES, aes_keystream, encrypt_blocks
from psi.column_kernels import NUMPY_KERNELS, ColumnKernels
from psi.domain import labelled_digest, uint64_bytes
from psi.parameters import TAG_BYTES, PsiParameters
from psi.shared_types import Bytes, ColumnPlaces

COLUMNS_PER_BLOCK = 4  # 32-bit words in an AES block
ROWS_PER_CHUNK = 1 << 16  # bounds the memory of H₂


def bucket_position_key(key: bytes, parameters: PsiParameters) -> bytes:
    """Derive the position key of one bucket, 16 bytes, from the position key of the run."""
    parts = (parameters.session, key, uint64_bytes(parameters.bucket))
    return labelled_digest("oprf-bucket", *parts)[:KEY_BYTES]


def column_seed(key: bytes, parameters: PsiParameters, column: int) -> bytes:
    """Derive the PRG seed of one column in one bucket, 16 bytes, from a key of the base OT."""
    context = parameters.context("oprf-seed")
    return labelled_digest("oprf-seed", context, uint64_bytes(column), key)[:KEY_BYTES]


def column_positions(
    key: bytes, session: bytes, hashes: Bytes, rows: int, kernels: ColumnKernels = NUMPY_KERNELS
) -> Iterator[ColumnPlaces]:
    """Yield the positions v[j] = F_k(h(x))_j of all rows x, column by column, without end.

    Each array is [n], with positions in [0, rows). ``hashes`` are h(x), [n, 16] uint8.
    """
    block = 0
    while True:
        block_key = labelled_digest("oprf-position", session, key, uint64_bytes(block))[:KEY_BYTES]
        words = encrypt_blocks(block_key, hashes).view("<u4")
        for lane in range(COLUMNS_PER_BLOCK):
            yield kernels.scale_lane(words, lane, rows)
        block += 1


def leader_column(keys: tuple[bytes, bytes], column: Bytes) -> tuple[Bytes, Bytes]:
    """Return the leader's column A_j = PRG(K₀), and Δ_j, which the member needs for its column.

    Δ_j is PRG(K₀) ⊕ PRG(K₁) ⊕ D_j. ``keys`` are K₀ and K₁, and ``column`` is D_j. The columns A_j,
    Δ_j and D_j are packed bits, [m / 8] uint8.
    """
    # Chase and Miao, "oblivious transfer", of A_j and B_j = A_j ⊕ D_j: random keys, one difference.
    own = aes_keystream(keys[0], column.size)
    delta = aes_keystream(keys[1], column.size)
    delta ^= own
    delta ^= column
    return own, delta


def member_column(key: bytes, bit: int, delta: Bytes) -> Bytes:
    """The member's column C_j = PRG(K_s) ⊕ s·Δ_j; ``bit`` is s, and ``delta`` is Δ_j [m / 8].

    Returns:
        The column as packed bits, [m / 8] uint8. The computing time does not depend on s.
    """
    column = aes_keystream(key, delta.size)
    column ^= delta & np.uint8(0xFF * bit)
    return column


class RowBits:
    """Collects, column by column, the bits of the matrix that each of ``count`` rows selects."""

    def __init__(self, count: int, width: int, kernels: ColumnKernels = NUMPY_KERNELS) -> None:
        self._kernels = kernels
        self._octets = np.zeros((width // 8, count), np.uint8)
        self._columns = 0

    @property
    def columns(self) -> int:
        """The number of matrix columns that were read so far."""
        return self._columns

    def read(self, column: Bytes, where: ColumnPlaces) -> None:
        """Append one bit to each row: the bit of the packed ``column`` [m / 8] at ``where`` [n]."""
        octet, bit = divmod(self._columns, 8)
        self._kernels.read_bits(column, where, 7 - bit, self._octets[octet])
        self._columns += 1

    def outputs(self, parameters: PsiParameters) -> tuple[Bytes, Bytes]:
        """Return both parts of each row's OPRF output: pads [n, ℓ] uint8 and tags [n, 12] uint8."""
        # Chase and Miao, "OPRF evaluation": Ψ = H₂(C₁[v[1]] ‖ … ‖ C_w[v[w]]). H₂ is BLAKE2b after
        # 32 bytes of context: of the available hashes its state is the fastest to copy.
        size = parameters.check_bytes + TAG_BYTES
        start = hashlib.blake2b(parameters.context("oprf-output"), digest_size=size)
        parts = range(0, self._octets.shape[1], ROWS_PER_CHUNK)
        digests = b"".join(self._digests(start, slice(at, at + ROWS_PER_CHUNK)) for at in parts)
        out = np.frombuffer(digests, np.uint8).reshape(-1, size)
        return out[:, : parameters.check_bytes], out[:, parameters.check_bytes :]

    def _digests(self, start: hashlib.blake2b, part: slice) -> bytes:
        """The digests of the rows in ``part``, concatenated."""
        rows = np.ascontiguousarray(self._octets[:, part].T)

        def digest_of(bits: bytes) -> bytes:
            state = start.copy()
            state.update(bits)
            return state.digest()

        return b"".join(map(digest_of, rows.view(f"V{rows.shape[1]}").ravel().tolist()))
