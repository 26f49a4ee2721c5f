"""Buckets: the parts into which a hash splits large sets; the parts are intersected in turn.

The hash does not depend on the session. A bucket therefore contains the same IDs after a restart. A
party declares the same number of IDs for each of its buckets, whatever the bucket contains.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from psi.aes import scale_words
from psi.errors import PsiError
from psi.parameters import STATISTICAL_BITS
from psi.shared_types import Bytes, Positions

MIN_BUCKET_IDS = (
    1 << 17
)  # fewest IDs of the largest party in a bucket: its columns fit a core's cache
MAX_UNCUT_IDS = 1 << 18  # sets of at most this many IDs are not split


def bucket_count(sizes: Iterable[int]) -> int:
    """The number of buckets for all parties, from their declared ``sizes``.

    If there are two or more buckets, a bucket of the largest set has 2¹⁷ to 2¹⁸ IDs on average.
    """
    largest = max(sizes)
    return 1 if largest <= MAX_UNCUT_IDS else largest // MIN_BUCKET_IDS


def bucket_capacity(size: int, buckets: int) -> int:
    """The number of IDs to declare for each of the ``buckets`` of a set of ``size`` IDs.

    The probability that any bucket contains more IDs is below 2^-σ.
    """
    # Bernstein: Pr[Bin(n, 1/b) ≥ μ + t] ≤ exp(-t² / (2μ + 2t/3)), μ = n/b, and b buckets. From
    # 2¹⁷ IDs a bucket on, this t is 8 standard deviations √μ.
    if buckets == 1:
        return size
    mean, limit = size / buckets, STATISTICAL_BITS * math.log(2) + math.log(buckets)
    spare = limit / 3 + math.sqrt((limit / 3) ** 2 + 2 * mean * limit)
    return min(size, math.ceil(mean + spare))


def split_into_buckets(fingerprints: Bytes, buckets: int) -> Iterator[tuple[int, Positions]]:
    """Yield the number of each bucket, and the positions of the bucket's rows: [k] int64.

    ``fingerprints`` [n, 16] are the fingerprints of the party's IDs. Positions are in ascending
    order.
    """
    # The last four bytes: any part of a fingerprint serves as well as another.
    where = scale_words(np.ascontiguousarray(fingerprints[:, -4:]).view("<u4").ravel(), buckets)
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        yield bucket, order[ends[bucket] : ends[bucket + 1]]


def refuse_overflow(who: str, found: int, declared: int) -> None:
    """Check that a bucket, or a whole set, has at most the ``declared`` number of IDs.

    Raises:
        PsiError: there are more IDs than ``declared``. The probability of this error is below
            2^-40, unless the whole set is larger than declared.
    """
    if found > declared:
        raise PsiError(
            f"{who}: a bucket holds {found} IDs, but at most {declared} were declared",
            hint="declare at least as many rows as the data has; if this is already the case, "
            "change the agreement's seed",
        )
