"""Buckets: large sets are cut by a public hash, and every bucket looks equally full.

The hash does not depend on the session, so a bucket means the same after a restart.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from psi.aes import scaled
from psi.errors import PsiError
from psi.shared_types import Bytes, Positions
from psi.terms import STATISTICAL

SMALLEST = 1 << 17  # IDs of the largest party in a bucket: its columns fit a core's cache
UNCUT = 1 << 18  # IDs up to which a set stays whole


def bucket_count(sizes: Iterable[int]) -> int:
    """How many buckets all parties cut, from the declared ``sizes`` of all: 2¹⁷ to 2¹⁸ IDs each."""
    most = max(sizes)
    return 1 if most <= UNCUT else most // SMALLEST


def capacity(size: int, buckets: int) -> int:
    """How many of ``size`` IDs a bucket is declared to hold.

    One of the buckets overflows with probability below 2^-σ.
    """
    # Bernstein: Pr[Bin(n, 1/b) ≥ μ + t] ≤ exp(-t² / (2μ + 2t/3)), μ = n/b, and b buckets. From
    # 2¹⁷ IDs a bucket on this t is 8 standard deviations √μ.
    if buckets == 1:
        return size
    mean, limit = size / buckets, STATISTICAL * math.log(2) + math.log(buckets)
    spare = limit / 3 + math.sqrt((limit / 3) ** 2 + 2 * mean * limit)
    return min(size, math.ceil(mean + spare))


def cut(prints: Bytes, buckets: int) -> Iterator[tuple[int, Positions]]:
    """Which of the fingerprints ``prints`` [n, 16] fall into each bucket, ascending."""
    # The last four bytes: any part of a fingerprint is as good as another.
    where = scaled(np.ascontiguousarray(prints[:, -4:]).view("<u4").ravel(), buckets)
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        yield bucket, order[ends[bucket] : ends[bucket + 1]]


def refuse_overflow(who: str, found: int, declared: int) -> None:
    """Check that a bucket, or the whole set, holds no more than was declared.

    Raises:
        PsiError: it does; a bucket may by chance, with probability below 2^-40.
    """
    if found > declared:
        raise PsiError(
            f"{who}: a bucket of {found} IDs, {declared} were declared",
            hint="declare at least as many rows as there are; if so, change the agreement's seed",
        )
