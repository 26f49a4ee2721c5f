"""A member's side of one bucket."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psi.buckets import refuse_overflow
from psi.errors import PsiError
from psi.loops import loops
from psi.okvs import encode, layout
from psi.oprf import Readings, bucket_key, bucket_seed, chosen, positions
from psi.shared_types import Bytes, Entropy
from psi.terms import Terms
from psi.turns import Turns
from psi.zero_share import zero_shares


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Secrets:
    """What a member brings from the start of the run into every bucket."""

    position_key: bytes  # k of the OPRF
    keys: Sequence[bytes]  # of the base OT, one a column
    bits: Bytes  # [w] its choices s
    pair_keys: Sequence[bytes]  # K_ij with every other member


class MemberBucket:
    """Absorb every block of the matrix, then make the store.

    Args:
        terms: the bucket's terms.
        hashes: h(x) of the own rows in this bucket, [n, 16] uint8; n may be less than declared.
        secrets: of the run.
        entropy: uniform bytes, as many as asked for.

    Raises:
        PsiError: more rows than declared.
    """

    tags: Bytes  # [n, 12], of the own rows, once the store is made

    def __init__(self, terms: Terms, hashes: Bytes, secrets: Secrets, entropy: Entropy) -> None:
        refuse_overflow(terms.member, len(hashes), terms.member_size)
        self._terms, self._hashes, self._secrets = terms, hashes, secrets
        self._entropy = entropy
        self._turns = Turns(terms.member, ("store",))
        chosen_loops = loops(terms.buckets)
        self._readings = Readings(len(hashes), terms.width, chosen_loops)
        key = bucket_key(secrets.position_key, terms)
        self._columns = positions(key, terms.session, hashes, terms.rows, chosen_loops)

    def absorb(self, block: Bytes) -> None:
        """Take the next columns Δ of the matrix, [columns, m / 8] uint8.

        Raises:
            PsiError: a wrong type or shape, or more columns than w.
            UsedTwice: the store was made before.
        """
        self._turns.require("store")
        self._refuse_bad_block(block)
        for delta in block:
            j = self._readings.columns
            seed = bucket_seed(self._secrets.keys[j], self._terms, j)
            column = chosen(seed, int(self._secrets.bits[j]), delta)
            self._readings.read(column, next(self._columns))

    @property
    def columns_left(self) -> int:
        """How many columns of the matrix are still to come."""
        return self._terms.width - self._readings.columns

    def store(self) -> Bytes:
        """The key-value store for the leader, [slots, ℓ] uint8.

        From here on ``tags`` are known; the keys are dropped.

        Raises:
            PsiError: columns are missing, or the store has no solution (probability below 2⁻⁴⁰).
            UsedTwice: the store was made before.
        """
        self._turns.take("store")
        if self.columns_left:
            read, legal = self._readings.columns, self._terms.width
            raise PsiError(f"leader: the matrix ended after {read} columns, legal are {legal}")
        terms = self._terms
        pads, self.tags = self._readings.outputs(terms)
        values = pads ^ zero_shares(self._secrets.pair_keys, self._hashes, terms.check_bytes)
        del self._secrets, self._readings
        return encode(layout(terms), self._hashes, values, self._entropy)

    def _refuse_bad_block(self, block: Bytes) -> None:
        left, size = self.columns_left, self._terms.rows // 8
        right_type = block.dtype == np.uint8 and block.ndim == 2
        if not right_type or block.shape[1] != size or not 1 <= len(block) <= left:
            raise PsiError(
                f"leader: a block of the matrix is {block.dtype} {list(block.shape)}, "
                f"legal is uint8 [1 to {left}, {size}]",
                hint="both sides must declare the same set sizes",
            )
