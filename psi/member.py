"""A member, a passive party: its side of one run with the leader."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from psi.aes import KEY_BYTES
from psi.base_ot import Choice, choose, chosen_keys
from psi.buckets import capacity
from psi.errors import PsiError
from psi.member_bucket import MemberBucket, Secrets
from psi.shared_types import Bytes, Entropy
from psi.terms import Terms
from psi.turns import Once, Turns
from psi.zero_share import SHARE_BYTES, pair_key

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
    _private: X25519PrivateKey  # start
    _share: bytes  # start
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
        if name not in members or len(set(members)) != len(members):
            raise PsiError(f"{name}: the members must be different names, {name} among them")
        self._name, self._session, self._members = name, session, tuple(members)
        self._entropy = entropy
        self._turns = Turns(name, STEPS)

    def start(self) -> bytes:
        """The public X25519 share, 32 bytes: sign it with the party's identity key.

        Raises:
            UsedTwice: the run was started before.
        """
        self._turns.take("start")
        self._private = X25519PrivateKey.from_private_bytes(self._entropy(32))
        self._share = self._private.public_key().public_bytes_raw()
        return self._share

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
        self._refuse_bad_shares(shares)
        self._pair_keys = [
            pair_key(self._private, shares, self._session, (self._name, other))
            for other in self._members
            if other != self._name
        ]
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
            del self._choice, self._keys, self._pair_keys, self._private
        return MemberBucket(terms, hashes, secrets, self._entropy)

    def _refuse_bad_shares(self, shares: Mapping[str, bytes]) -> None:
        name = self._name
        if set(shares) != set(self._members):
            raise PsiError(
                f"{name}: got {len(shares)} public shares, not one of each member",
                hint=f"the members are {', '.join(self._members)}",
            )
        for member, share in shares.items():
            if len(share) != SHARE_BYTES:
                raise PsiError(f"{member}: public share has {len(share)} bytes, legal are 32")
        if shares[name] != self._share:
            raise PsiError(f"{name}: its own public share came back changed")
        if len(set(shares.values())) != len(shares):
            raise PsiError(f"{name}: two members sent the same public share")
