"""The leader, the active party: its side of one run with all members."""

import os
from collections.abc import Mapping
from dataclasses import replace

from psi.aes import KEY_BYTES
from psi.base_ot import answer
from psi.buckets import capacity
from psi.errors import PsiError
from psi.leader_bucket import LeaderBucket, known
from psi.shared_types import Bytes, Entropy
from psi.terms import Terms
from psi.turns import Once, Turns


class Leader:
    """One side of one run: answer each member, then open bucket after bucket.

    Args:
        size: its own declared number of IDs; public, as are
        sizes: for each member its declared number of IDs.
        session: 16 or more bytes that no other run has, the same for all parties.
        buckets: how many, the same for all parties.
        entropy: uniform bytes, as many as asked for.

    Raises:
        PsiError: there is no member, or `Terms` refuses.
    """

    def __init__(
        self,
        *,
        size: int,
        sizes: Mapping[str, int],
        session: bytes,
        buckets: int = 1,
        entropy: Entropy = os.urandom,
    ) -> None:
        if not sizes:
            raise PsiError("leader: there is no member", hint="declare the size of one at least")
        self._terms = {
            member: Terms(
                session=session,
                member=member,
                leader_size=capacity(size, buckets),
                member_size=capacity(theirs, buckets),
                buckets=buckets,
            )
            for member, theirs in sizes.items()
        }
        self._entropy = entropy
        self._position_key = entropy(KEY_BYTES)  # k of the OPRF, one for all members
        self._turns = {
            member: Turns(f"leader, with {member}", ("answer", "bucket")) for member in sizes
        }
        self._once = Once("leader", buckets)
        self._keys: dict[str, tuple[tuple[bytes, bytes], ...]] = {}

    def answer(self, member: str, offer: bytes) -> bytes:
        """The OPRF key and the answer to the ``offer`` of ``member``: 16 + 64 · w bytes.

        Raises:
            PsiError: an unknown member, or an offer of a wrong length or with a bad point.
            UsedTwice: it was answered before.
        """
        terms = known(self._terms, member)
        self._turns[member].take("answer")
        pairs = answer(terms.context("base-ot"), terms.width, offer, self._entropy, member)
        self._keys[member] = pairs.keys
        return self._position_key + pairs.answer

    def bucket(self, number: int, hashes: Bytes) -> LeaderBucket:
        """Open bucket ``number`` with h(x) of the own rows in it, [n, 16] uint8.

        The keys of the base OT are dropped with the last one.

        Raises:
            PsiError: a member was not answered yet, there is no such bucket, or it is too full.
            UsedTwice: it was opened before.
        """
        for turns in self._turns.values():
            turns.require("bucket")
        self._once.take(number)
        terms = [replace(each, bucket=number) for each in self._terms.values()]
        keys = self._keys
        if self._once.over:
            self._keys = {}
        return LeaderBucket(terms, hashes, self._position_key, keys)
