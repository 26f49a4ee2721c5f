"""A member, a passive party: its side of one run with the leader."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from psi.aes import KEY_BYTES
from psi.base_ot import Choice, choose, chosen_keys
from psi.buckets import capacity
from psi.errors import PsiError
from psi.member_bucket import MemberBucket, Secrets
from psi.shared_types import Bytes, Entropy
from psi.shares import Shares
from psi.terms import Terms
from psi.turns import Once, Turns

STEPS = ("start", "offer", "accept", "bucket")


class Member:
    """One side of one run: start, offer, accept, then open bucket after bucket.

    Args:
        name: its own name, and ``members`` the names of all, its own included: they come from the
            signed agreement and never from the leader, which could otherwise pretend that there
            is no other member and so learn a pairwise intersection.
        session: 16 or more bytes that no other run has, the same for all parties.
        entropy: uniform bytes, as many as asked for.

    Raises:
        PsiError: the names are bad.
    """

    # What each step leaves for later ones.
    _pair_keys: list[bytes]  # offer
    _terms: Terms  # offer
    _once: Once  # offer
    _choice: Choice  # offer
    _keys: list[bytes]  # accept
    _position_key: bytes  # accept

    def __init__(
        self,
        *,
        name: str,
        members: Sequence[str],
        session: bytes,
        entropy: Entropy = os.urandom,
    ) -> None:
        self._name, self._session, self._entropy = name, session, entropy
        self._shares = Shares(name, members, entropy)
        self._turns = Turns(name, STEPS)

    def start(self) -> bytes:
        """The public X25519 share, 32 bytes: sign it with the party's identity key.

        Raises:
            UsedTwice: the run was started before.
        """
        self._turns.take("start")
        return self._shares.public

    def offer(
        self, shares: Mapping[str, bytes], *, size: int, leader_size: int, buckets: int = 1
    ) -> bytes:
        """The offer of the base OT, 64 · w bytes, once the ``shares`` of all members are verified.

        Args:
            shares: the public shares of all members.
            size: its own declared number of IDs; public, as is
            leader_size: that of the leader.
            buckets: how many, the same for all parties.

        Raises:
            PsiError: a share is missing, unknown, changed, repeated, too long or of small order,
                or `Terms` refuses.
            UsedTwice: the offer was made before.
        """
        self._turns.take("offer")
        self._pair_keys = self._shares.pair_keys(shares, self._session)
        self._once = Once(self._name, buckets)
        self._terms = Terms(
            session=self._session,
            member=self._name,
            leader_size=capacity(leader_size, buckets),
            member_size=capacity(size, buckets),
            buckets=buckets,
        )
        context = self._terms.context("base-ot")
        self._choice = choose(context, self._terms.width, self._entropy)
        return self._choice.offer

    def accept(self, answer: bytes) -> None:
        """Take the leader's ``answer``, 16 + 64 · w bytes.

        Raises:
            PsiError: a wrong length or a bad point.
            UsedTwice: an answer was taken before.
        """
        self._turns.take("accept")
        legal = KEY_BYTES + 64 * self._terms.width
        if len(answer) != legal:
            raise PsiError(f"leader: answer has {len(answer)} bytes, legal are {legal}")
        context = self._terms.context("base-ot")
        self._keys = chosen_keys(context, self._choice, answer[KEY_BYTES:])
        self._position_key = answer[:KEY_BYTES]

    def bucket(self, number: int, hashes: Bytes) -> MemberBucket:
        """Open bucket ``number`` with h(x) of the own rows in it, [n, 16] uint8.

        The keys of the run are dropped with the last one.

        Raises:
            PsiError: nothing was accepted yet, there is no such bucket, or it is too full.
            UsedTwice: it was opened before.
        """
        self._turns.require("bucket")
        self._once.take(number)
        terms = replace(self._terms, bucket=number)
        bits = self._choice.bits
        secrets = Secrets(self._position_key, self._keys, bits, self._pair_keys)
        if self._once.over:
            del self._choice, self._keys, self._pair_keys, self._shares
        return MemberBucket(terms, hashes, secrets, self._entropy)
