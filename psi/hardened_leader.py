"""The leader of a hardened run: it asks for its IDs blinded, and believes what is proved."""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from psi.blind import as_array, blinded
from psi.buckets import refuse_overflow
from psi.errors import PsiError
from psi.group import POINT_BYTES
from psi.hardened_pairing import HardenedPairing
from psi.leader_bucket import Matches, known
from psi.shared_types import Bytes, Entropy
from psi.spread import BLOCK, Spread, alone, pieces
from psi.terms import Terms
from psi.turns import Turns


class HardenedLeader:
    """One side of one run: ask, take every answer and its proof, take the stores, finish.

    Args:
        ids: normalised and without duplicates; row numbers are positions in this sequence.
        hashes: h(x) of every row, [n, 16] uint8.
        terms: with every member; the leader asks as often as it declared, whatever it brings.
        entropy: uniform bytes, as many as asked for.
        spread: shares the multiplications out among workers.

    Raises:
        PsiError: there is no member, or the own set is larger than declared.
    """

    def __init__(
        self,
        ids: Sequence[bytes],
        hashes: Bytes,
        *,
        terms: Sequence[Terms],
        entropy: Entropy = os.urandom,
        spread: Spread = alone,
    ) -> None:
        if not terms:
            raise PsiError("leader: there is no member", hint="declare the size of one at least")
        size = terms[0].leader_size
        refuse_overflow("leader", len(ids), size)
        # Nobody has what fills up: the chance to meet 32 random bytes is 2^-256.
        self._ids = [*ids, *(entropy(POINT_BYTES) for _ in range(size - len(ids)))]
        self._hashes, self._session = hashes, terms[0].session
        self._entropy, self._spread = entropy, spread
        self._turns = Turns("leader", ("ask", "the last ask", "answered"))
        self._asked, self._unblinders = bytearray(), bytearray()
        self._pairings = {each.member: HardenedPairing(each) for each in terms}
        self._residual = np.zeros((len(ids), terms[0].check_bytes), np.uint8)

    def ask(self) -> Iterator[Bytes]:
        """The blinded IDs, the same for all members, in blocks [n, 32] uint8.

        Raises:
            UsedTwice: they were asked before.
        """
        self._turns.take("ask")
        return self._blocks()

    def answered(self, member: str, block: Bytes) -> None:
        """Take the next answers of ``member``, [n, 32] uint8.

        Raises:
            PsiError: an unknown member, more answers than were asked for, or a bad point.
            UsedTwice: this member's proof was taken before.
        """
        pairing = self._pairing(member)
        pairing.turns.require("prove")
        self._turns.require("answered")
        pairing.answered(block, self._unblinders, self._spread)

    def prove(self, member: str, commitment: bytes, proof: bytes) -> None:
        """Take the proof that ``member`` used the committed key for all its answers.

        Raises:
            PsiError: an unknown member, answers are missing, or the proof does not hold.
            UsedTwice: this member's proof was taken before.
        """
        pairing = self._pairing(member)
        pairing.turns.take("prove")
        pairing.prove(bytes(self._asked), self._ids, (commitment, proof), self._spread)

    def answers_left(self, member: str) -> int:
        """How many answers of ``member`` are still to come."""
        return self._pairing(member).left

    def slots(self, member: str) -> int:
        """How many slots the store of ``member`` has."""
        return self._pairing(member).slots

    def store(self, member: str, store: Bytes) -> None:
        """Take the key-value store of ``member``, [slots, ℓ] uint8.

        Raises:
            PsiError: an unknown member, a wrong type or shape, or its proof was not taken yet.
            UsedTwice: this member's store was taken before.
        """
        pairing = self._pairing(member)
        pairing.turns.take("store")
        self._residual ^= pairing.residual(store, self._hashes)

    def finish(self) -> Matches:
        """The common rows, and for each member the tags to send; there may be none.

        Raises:
            PsiError: a store is missing.
            UsedTwice: the run was finished before.
        """
        for pairing in self._pairings.values():
            pairing.turns.require("finish")
        for pairing in self._pairings.values():
            pairing.turns.take("finish")
        # KMPRT: on common rows ⊕_i (Decode(OKVS_i, h(x)) ⊕ pad_i(x)) = ⊕_i z_i(x) = 0.
        rows = np.flatnonzero(~self._residual.any(axis=1))
        return Matches(rows, {name: each.tags(rows) for name, each in self._pairings.items()})

    def _blocks(self) -> Iterator[Bytes]:
        for _, ids in pieces(self._ids, BLOCK):
            points, unblinders = blinded(ids, self._session, self._entropy, self._spread)
            self._asked += points
            self._unblinders += unblinders
            yield as_array(points)
        self._turns.take("the last ask")

    def _pairing(self, member: str) -> HardenedPairing:
        return known(self._pairings, member)
