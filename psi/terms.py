"""The terms of one pair, leader and member: all public, and all that follows from them.

Letters of the paper (Chase and Miao, CRYPTO 2020): the matrix has m rows and w columns; the
leader, its receiver, holds n₂ items and the member, its sender, n₁; λ = 128 and σ = 40.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from psi.domain import digest, number
from psi.errors import PsiError

SECURITY = 128  # λ, bits: unknown bits of s in every output that the leader must not know
STATISTICAL = 40  # σ, bits: what may fail by chance does so with probability at most 2^-σ
TAG_BYTES = 12
LONGEST = 1 << 27  # IDs: m stays far below the 2^32 words that `scaled` maps to rows
SHORT_CHECK_LIMIT = 1 << 20  # rows of the leader in all buckets up to which 64 bits test for zero
FEWEST_ROWS = 1 << 13
ROWS_PER_ID = (7, 4)  # m / n₂: more rows need fewer columns, and this costs few bytes
SESSION_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What leader and ``member`` must both know before they start with one bucket.

    The sizes are what each side declared for a bucket: it brings no more, and the other side sees
    no other number.

    Raises:
        PsiError: the session or the name is too short, or a size is out of range.
    """

    session: bytes
    member: str
    leader_size: int  # IDs
    member_size: int  # IDs
    bucket: int = 0  # which one this is
    buckets: int = 1  # in the session; all have these sizes and share one base OT

    def __post_init__(self) -> None:
        if len(self.session) < SESSION_BYTES:
            raise PsiError(f"the session id has {len(self.session)} bytes, legal are 16 or more")
        if not self.member:
            raise PsiError("a member has an empty name")
        for who, size in (("leader", self.leader_size), (self.member, self.member_size)):
            if not 1 <= size <= LONGEST:
                raise PsiError(
                    f"{who}: a set of {size} IDs, legal are 1 to {LONGEST}",
                    hint="an intersection needs at least one ID on every side",
                )

    @property
    def rows(self) -> int:
        """m, about 1.75 n₂ and a multiple of 64 (whole words of bits in every column)."""
        more, of = ROWS_PER_ID
        return max(FEWEST_ROWS, -(-more * self.leader_size // (of * 64)) * 64)

    @property
    def width(self) -> int:
        """w, rounded up to a multiple of 8; it hides the member's rows of all buckets together."""
        exact = matrix_width(self.rows, self.leader_size, self.member_size * self.buckets)
        return -(-exact // 8) * 8

    @property
    def check_bytes(self) -> int:
        """Bytes of a share, all zero on a common row: 8, or 12 for a leader above 2²⁰ rows."""
        return 8 if self.leader_size * self.buckets <= SHORT_CHECK_LIMIT else 12

    def context(self, label: str) -> bytes:
        """32 bytes that separate ``label`` by session, member, sizes and bucket."""
        sizes = number(self.leader_size) + number(self.member_size) + number(self.bucket)
        return digest(label, self.session, self.member.encode(), sizes)

    def common(self, label: str) -> bytes:
        """32 bytes that separate ``label`` by session and bucket, the same for all members."""
        return digest(label, self.session, number(self.bucket))


@lru_cache
def matrix_width(rows: int, leader_size: int, member_size: int) -> int:
    """The smallest w that hides every row of the member that the leader lacks.

    Such a row reads w bits of D, each still 1 with probability p; fewer than λ ones would leave
    its output open to guessing. One of the n₁ rows may do so with probability 2^-σ in all.
    """
    # Chase and Miao, Section 3.3: p = (1 - 1/m)^n₂ and Pr[Bin(w, p) < λ] ≤ 2^-(σ + log₂ n₁).
    # `scaled` may hit a position (1 + m/2³²) times too often.
    p = (1 - (1 + rows / 2**32) / rows) ** leader_size
    limit = -STATISTICAL * math.log(2) - math.log(member_size)
    width = SECURITY
    while _log_binomial_tail(width, p, SECURITY) > limit:
        width += 1
    return width


def _log_binomial_tail(trials: int, p: float, below: int) -> float:
    """The natural logarithm of Pr[Bin(trials, p) < below], 0 < p < 1."""
    hit, miss = math.log(p), math.log1p(-p)
    terms = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * hit + (trials - k) * miss
        for k in range(below)
    ]  # fmt: skip
    return log_sum(terms)


def log_sum(terms: list[float]) -> float:
    """The logarithm of Σ exp(term), without underflow."""
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))
