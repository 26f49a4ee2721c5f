"""Public parameters of an intersection of the leader with one member: sizes and widths.

Notation of the paper (Chase and Miao, CRYPTO 2020): the matrix has m rows and w columns; the leader
is the paper's receiver and has n₂ items; the member is the paper's sender and has n₁ items; λ = 128
and σ = 40.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from psi.domain import labelled_digest, uint64_bytes
from psi.errors import PsiError

SECURITY_BITS = 128  # λ: bits of s in every output that must stay unknown to the leader
STATISTICAL_BITS = 40  # σ: a failure by chance has probability at most 2^-σ
TAG_BYTES = 12
MAX_IDS = 1 << 27  # m stays far below the 2^32 words that `scale_words` maps to rows
SHORT_CHECK_LIMIT = 1 << 20  # rows of the leader in all buckets up to which 64 bits test for zero
MIN_ROWS = 1 << 13
ROWS_PER_ID = (7, 4)  # m / n₂: more rows need fewer columns, which adds few bytes
SESSION_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PsiParameters:
    """The public parameters of one bucket, equal at the leader and at ``member``.

    The sizes are declared upper bounds of the number of IDs per bucket; the actual numbers are not
    revealed to the other side.

    Raises:
        PsiError: the session id is too short, the name is empty, or a size is out of range.
    """

    session: bytes
    member: str
    leader_size: int  # IDs
    member_size: int  # IDs
    bucket: int = 0  # number of this bucket
    buckets: int = 1  # in the session; all buckets have these sizes and share one base OT

    def __post_init__(self) -> None:
        if len(self.session) < SESSION_BYTES:
            raise PsiError(
                f"the session id has {len(self.session)} bytes, expected at least {SESSION_BYTES}"
            )
        if not self.member:
            raise PsiError("a member has an empty name")
        for who, size in (("leader", self.leader_size), (self.member, self.member_size)):
            if not 1 <= size <= MAX_IDS:
                raise PsiError(
                    f"{who}: the set has {size} IDs, expected 1 to {MAX_IDS}",
                    hint="an intersection needs at least one ID on every side",
                )

    @property
    def rows(self) -> int:
        """m, the number of matrix rows: about 1.75 n₂, rounded up to a multiple of 64."""
        more, of = ROWS_PER_ID
        return max(MIN_ROWS, -(-more * self.leader_size // (of * 64)) * 64)

    @property
    def width(self) -> int:
        """w, the number of matrix columns: `matrix_width`, rounded up to a multiple of 8."""
        exact = matrix_width(self.rows, self.leader_size, self.member_size * self.buckets)
        return -(-exact // 8) * 8

    @property
    def check_bytes(self) -> int:
        """ℓ, the bytes of a row's value z(x): 8, or 12 if the leader has more than 2²⁰ rows."""
        return 8 if self.leader_size * self.buckets <= SHORT_CHECK_LIMIT else 12

    def context(self, label: str) -> bytes:
        """Digest of ``label``, the session, the member, both sizes and the bucket: 32 bytes."""
        sizes = map(uint64_bytes, (self.leader_size, self.member_size, self.bucket))
        return labelled_digest(label, self.session, self.member.encode(), b"".join(sizes))

    def shared_context(self, label: str) -> bytes:
        """Digest of ``label``, the session and the bucket, equal for all members: 32 bytes."""
        return labelled_digest(label, self.session, uint64_bytes(self.bucket))


@lru_cache
def matrix_width(rows: int, leader_size: int, member_size: int) -> int:
    """Return the smallest width w that keeps the outputs of rows outside the intersection secret.

    The leader must not be able to guess the OPRF output of a row that only the member has. Such a
    row selects w bits of D, and each bit is 1 with probability p. If fewer than λ of these bits are
    1, the leader could guess the OPRF output of the row. The probability that the leader can guess
    the output of any of the n₁ rows is at most 2^-σ.
    """
    # Chase and Miao, Section 3.3: p = (1 - 1/m)^n₂ and Pr[Bin(w, p) < λ] ≤ 2^-(σ + log₂ n₁).
    # `scale_words` may choose a position (1 + m/2³²) times too often.
    p = (1 - (1 + rows / 2**32) / rows) ** leader_size
    limit = -STATISTICAL_BITS * math.log(2) - math.log(member_size)

    def keeps_secret(width: int) -> bool:
        return _log_binomial_tail(width, p, SECURITY_BITS) <= limit

    most = SECURITY_BITS
    while not keeps_secret(most):
        most *= 2
    # The probability falls with the width, so a binary search finds the smallest one.
    return bisect_left(range(most), True, lo=SECURITY_BITS, hi=most, key=keeps_secret)


def _log_binomial_tail(trials: int, p: float, below: int) -> float:
    """The natural logarithm of Pr[Bin(trials, p) < below], 0 < p < 1."""
    hit, miss = math.log(p), math.log1p(-p)
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * hit + (trials - k) * miss
        for k in range(below)
    ]  # fmt: skip
    top = max(logs)  # subtracted against underflow
    return top + math.log(math.fsum(math.exp(term - top) for term in logs))
