"""A member, a passive party: its side of one run with the leader."""

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from psi.aes import KEY_BYTES
from psi.base_ot import Choice, choose, chosen_keys
from psi.errors import PsiError
from psi.ids import hashed, refuse_duplicates
from psi.okvs import encode, layout
from psi.oprf import Readings, chosen, positions
from psi.shared_types import Bytes, Entropy, Positions
from psi.tags import find
from psi.terms import Terms
from psi.turns import Turns
from psi.zero_share import SHARE_BYTES, pair_key, zero_shares

STEPS = ("start", "offer", "accept", "store", "finish")


class Member:
    """One side of one run: start, offer, accept, absorb every block, store, finish.

    Args:
        ids: normalised and without duplicates; row numbers are positions in this sequence.
        name: its own name, and ``members`` the names of all, its own included: they come from the
            signed agreement and never from the leader, which could otherwise pretend that there
            is no other member and so learn a pairwise intersection.
        session: 16 or more bytes that no other run has, the same for all parties.
        leader_size: the declared number of IDs of the leader; public.
        entropy: uniform bytes, as many as asked for.

    Raises:
        PsiError: the own set is empty or has duplicates, the names are bad, or `Terms` refuses.
    """

    # What each step leaves for later ones.
    _private: X25519PrivateKey  # start
    _share: bytes  # start
    _pair_keys: list[bytes]  # offer
    _choice: Choice  # offer
    _keys: list[bytes]  # accept
    _columns: Iterator[Positions]  # accept
    _tags: Bytes  # store

    def __init__(
        self,
        ids: Sequence[bytes],
        *,
        name: str,
        members: Sequence[str],
        session: bytes,
        leader_size: int,
        entropy: Entropy = os.urandom,
    ) -> None:
        self._terms = Terms(
            session=session, member=name, leader_size=leader_size, member_size=len(ids)
        )
        if name not in members or len(set(members)) != len(members):
            raise PsiError(f"{name}: the members must be different names, {name} among them")
        refuse_duplicates(ids, name)
        self._members = tuple(members)
        self._entropy = entropy
        self._turns = Turns(name, STEPS)
        self._hashes = hashed(ids, session)
        self._readings = Readings(len(ids), self._terms.width)

    def start(self) -> bytes:
        """The public X25519 share, 32 bytes: sign it with the party's identity key.

        Raises:
            UsedTwice: the run was started before.
        """
        self._turns.take("start")
        self._private = X25519PrivateKey.from_private_bytes(self._entropy(32))
        self._share = self._private.public_key().public_bytes_raw()
        return self._share

    def offer(self, shares: Mapping[str, bytes]) -> bytes:
        """The offer of the base OT, 64 · w bytes, once the ``shares`` of all members are verified.

        Raises:
            PsiError: a share is missing, unknown, changed, repeated, too long or of small order.
            UsedTwice: the offer was made before.
        """
        self._turns.take("offer")
        self._refuse_bad_shares(shares)
        name, session = self._terms.member, self._terms.session
        self._pair_keys = [
            pair_key(self._private, shares, session, (name, other))
            for other in self._members
            if other != name
        ]
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
        self._columns = positions(
            answer[:KEY_BYTES], self._terms.session, self._hashes, self._terms.rows
        )

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
            column = chosen(self._keys[j], int(self._choice.bits[j]), delta)
            self._readings.read(column, next(self._columns))

    @property
    def columns_left(self) -> int:
        """How many columns of the matrix are still to come."""
        return self._terms.width - self._readings.columns

    def store(self) -> Bytes:
        """The key-value store for the leader, [slots, ℓ] uint8.

        The keys of the run are dropped here.

        Raises:
            PsiError: columns are missing, or the store has no solution (probability below 2⁻⁴⁰).
            UsedTwice: the store was made before.
        """
        self._turns.take("store")
        if self.columns_left:
            read, legal = self._readings.columns, self._terms.width
            raise PsiError(f"leader: the matrix ended after {read} columns, legal are {legal}")
        pads, self._tags = self._readings.outputs(self._terms)
        values = pads ^ zero_shares(self._pair_keys, self._hashes, self._terms.check_bytes)
        del self._keys, self._choice, self._pair_keys
        return encode(layout(self._terms), self._hashes, values, self._entropy)

    def finish(self, tags: Bytes) -> Positions:
        """The own row numbers of the common rows, ascending: [k] int64; ``tags`` is [k, 12] uint8.

        Raises:
            PsiError: a wrong shape or order, a tag that is repeated or not held, or two own rows
                with one tag.
            UsedTwice: the run was finished before.
        """
        self._turns.take("finish")
        return find(self._tags, tags, self._terms.member)

    def _refuse_bad_shares(self, shares: Mapping[str, bytes]) -> None:
        name = self._terms.member
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

    def _refuse_bad_block(self, block: Bytes) -> None:
        left, size = self.columns_left, self._terms.rows // 8
        right_type = block.dtype == np.uint8 and block.ndim == 2
        if not right_type or block.shape[1] != size or not 1 <= len(block) <= left:
            raise PsiError(
                f"leader: a block of the matrix is {block.dtype} {list(block.shape)}, "
                f"legal is uint8 [1 to {left}, {size}]",
                hint="both sides must declare the same set sizes",
            )
