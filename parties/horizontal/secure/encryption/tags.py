"""A tag on every ciphertext, which adds up as the numbers do and tells whose sum they are.

A linearly homomorphic tag in the way of Agrawal and Boneh (ACNS 2009), modulo the prime p:

    t_i = r_i + Σ_j w_j x_ij        r_i, w_j drawn by a key that all members have and the server not

In a sum of the members S the tags add up to Σ_S r_i + Σ_j w_j Σ_S x_ij. A sum in which somebody is
missing, counted twice or put in another's place, or a number that was changed, passes with
probability 1/p. It stands in slot 0 of each ciphertext, where a canary would.
"""

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from parties.horizontal.secure.encryption.ckks import Numbers
from parties.horizontal.secure.masking.fixed_point import Words, keystream
from parties.horizontal.secure.masking.pair_keys import KEY

PRIME = 16_777_213  # p, the largest below 2^24: Σ_j stays below 2^64, and a sum of tags below MOST


class Tags:
    """The tags of one sum, under a key of 16 bytes that is used for no other."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str, rows: Numbers) -> Numbers:
        """One member's tags for its numbers, ``[count, width]``."""
        return (self._own(name, len(rows)) + self._weighed(rows)).astype(np.int64) % PRIME

    def hold(self, members: Iterable[str], rows: Numbers, tags: Numbers) -> bool:
        """Whether these are the tags of a sum over these members."""
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
        found: Words = keystream(HKDF(SHA256(), KEY, salt=None, info=info).derive(self._key), count)
        return found % PRIME
