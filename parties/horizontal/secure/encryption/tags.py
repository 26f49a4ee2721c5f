"""Authentication tags: they show whether a sum contains each member's numbers exactly once.

The tags are linearly homomorphic, as in Agrawal and Boneh (ACNS 2009), modulo the prime p:

    t_i = r_i + Σ_j w_j x_ij        r_i and w_j are derived from a key that all members have, but
                                    that the server does not have

Here t_i is the tag of member i, and x_ij are the numbers of member i. The tags of a set S of
members add up to Σ_S r_i + Σ_j w_j Σ_S x_ij. A sum is wrong if a member is missing, counted twice
or replaced, or if a number was changed. The check accepts a wrong sum with probability 1/p. A
ciphertext encrypts a list of numbers; the first number of the list is the tag.
"""

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from parties.horizontal.secure.encryption.ckks import Numbers
from parties.horizontal.secure.masking.fixed_point import Words, mask_keystream
from parties.horizontal.secure.masking.pair_keys import KEY_BYTES

PRIME = 16_777_213  # p, the largest below 2^24: Σ_j stays below 2^64, and a sum of tags below MOST


class SumTags:
    """Computes and checks the tags of one sum; each sum has its own key of 16 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def tags_of(self, name: str, rows: Numbers) -> Numbers:
        """Return one member's tags, ``[count]``, for the member's numbers, ``[count, width]``."""
        return (self._own(name, len(rows)) + self._weighed(rows)).astype(np.int64) % PRIME

    def verify(self, members: Iterable[str], rows: Numbers, tags: Numbers) -> bool:
        """Return whether ``tags``, ``[count]``, belong to the sum of exactly these members.

        ``rows`` are the summed numbers, ``[count, width]``.
        """
        owed = self._weighed(rows)
        for name in members:
            owed = (owed + self._own(name, len(rows))) % PRIME
        return bool((owed.astype(np.int64) == tags % PRIME).all())

    def _weighed(self, rows: Numbers) -> Words:
        """Σ_j w_j x_j modulo p."""
        weights = self._drawn("weights", rows.size).reshape(rows.shape)
        found: Words = (weights * (rows % PRIME).astype(np.uint64)).sum(axis=1) % PRIME
        return found

    def _own(self, name: str, count: int) -> Words:
        return self._drawn(f"member {name}", count)

    def _drawn(self, what: str, count: int) -> Words:
        info = f"vfl/encryption/tags/v1\n{what}".encode()
        found: Words = mask_keystream(
            HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(self._key), count
        )
        return found % PRIME
