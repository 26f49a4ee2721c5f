"""The leader, the active party: its side of one run with all members."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from psi.aes import KEY_BYTES
from psi.errors import PsiError
from psi.ids import hashed, refuse_duplicates
from psi.oprf import positions, zeros_at
from psi.pairing import Pairing
from psi.shared_types import Bytes, Entropy, Positions
from psi.terms import Terms

BLOCK_BYTES = 1 << 20  # a block of the matrix is at most this long, but at least one column


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """What the leader learned, and what it tells each member."""

    rows: Positions = field(repr=False)  # [k] own row numbers of the common rows, ascending
    tags: Mapping[str, Bytes] = field(repr=False)  # member → [k, 12] uint8, ascending


class Leader:
    """One side of one run: answer each member, send the matrix, take the stores, finish.

    Args:
        ids: normalised and without duplicates; row numbers are positions in this sequence.
        sizes: for each member its declared number of IDs; public.
        session: 16 or more bytes that no other run has, the same for all parties.
        entropy: uniform bytes, as many as asked for.

    Raises:
        PsiError: the own set is empty or has duplicates, there is no member, or `Terms` refuses.
    """

    def __init__(
        self,
        ids: Sequence[bytes],
        *,
        sizes: Mapping[str, int],
        session: bytes,
        entropy: Entropy = os.urandom,
    ) -> None:
        if not sizes:
            raise PsiError("leader: there is no member", hint="declare the size of one at least")
        terms = [
            Terms(session=session, member=member, leader_size=len(ids), member_size=size)
            for member, size in sizes.items()
        ]
        refuse_duplicates(ids, "leader")
        self._session = session
        self._entropy = entropy
        self._hashes = hashed(ids, session)
        self._position_key = entropy(KEY_BYTES)  # k of the OPRF, one for all members
        self._pairings = {each.member: Pairing(each, self._hashes) for each in terms}
        self._residual = np.zeros((len(ids), terms[0].check_bytes), np.uint8)

    def answer(self, member: str, offer: bytes) -> bytes:
        """The answer to the ``offer`` of ``member``: 16 + 64 · w bytes.

        Raises:
            PsiError: an unknown member, or an offer of a wrong length or with a bad point.
            UsedTwice: it was answered before.
        """
        pairing = self._pairing(member)
        pairing.turns.take("answer")
        return pairing.answer(offer, self._position_key, self._entropy)

    def matrix(self) -> Iterator[dict[str, Bytes]]:
        """The columns Δ in blocks: for each member the next [columns, m / 8] uint8.

        A member whose matrix is narrower is missing from the last blocks. Read the iterator to its
        end: the leader's own outputs are computed after the last block, while members work.

        Raises:
            PsiError: a member was not answered yet.
            UsedTwice: the matrix was started before.
        """
        self._take_for_all("matrix")
        return self._blocks()

    def store(self, member: str, store: Bytes) -> None:
        """Take the key-value store of ``member``, [slots, ℓ] uint8.

        Raises:
            PsiError: an unknown member, a wrong type or shape, or the matrix is not at its end.
            UsedTwice: this member's store was taken before.
        """
        pairing = self._pairing(member)
        pairing.turns.take("store")
        self._residual ^= pairing.residual(store)

    def finish(self) -> Matches:
        """The common rows, and for each member the tags to send; there may be none.

        Raises:
            PsiError: a store is missing.
            UsedTwice: the run was finished before.
        """
        self._take_for_all("finish")
        # KMPRT: on common rows ⊕_i (Decode(OKVS_i, h(x)) ⊕ pad_i(x)) = ⊕_i z_i(x) = 0.
        rows = np.flatnonzero(~self._residual.any(axis=1))
        return Matches(rows, {name: each.tags(rows) for name, each in self._pairings.items()})

    def _blocks(self) -> Iterator[dict[str, Bytes]]:
        rows, width = self._shape()
        per_block = max(1, BLOCK_BYTES // (rows // 8))
        columns = positions(self._position_key, self._session, self._hashes, rows)
        for start in range(0, width, per_block):
            yield self._block(columns, start, min(start + per_block, width))
        self._take_for_all("the last block of matrix")
        for pairing in self._pairings.values():
            pairing.evaluate()

    def _block(self, columns: Iterator[Positions], start: int, stop: int) -> dict[str, Bytes]:
        masked: dict[str, list[Bytes]] = {member: [] for member in self._pairings}
        for j, where in zip(range(start, stop), columns, strict=False):
            column = zeros_at(where, self._shape()[0])
            for member, pairing in self._pairings.items():
                if j < pairing.terms.width:
                    masked[member].append(pairing.mask(column, where))
        return {member: np.stack(deltas) for member, deltas in masked.items() if deltas}

    def _shape(self) -> tuple[int, int]:
        """The number m of rows and the largest width w."""
        terms = [pairing.terms for pairing in self._pairings.values()]
        return terms[0].rows, max(each.width for each in terms)

    def _pairing(self, member: str) -> Pairing:
        if member not in self._pairings:
            known = ", ".join(self._pairings)
            raise PsiError(f"{member!r} is no member of this run", hint=f"the members are {known}")
        return self._pairings[member]

    def _take_for_all(self, step: str) -> None:
        """Take ``step`` with every member, or with none."""
        for pairing in self._pairings.values():
            pairing.turns.require(step)
        for pairing in self._pairings.values():
            pairing.turns.take(step)
