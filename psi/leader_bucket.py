"""The leader's side of one bucket with all members."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from psi.buckets import refuse_overflow
from psi.errors import PsiError
from psi.loops import loops
from psi.okvs import Layout, Places
from psi.oprf import bucket_key, positions
from psi.pairing import Pairing
from psi.shared_types import Bytes, ColumnPlaces, Positions
from psi.terms import Terms

T = TypeVar("T")

BLOCK_BYTES = 1 << 20  # a block of the matrix is at most this long, but at least one column


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """What the leader learned of a bucket, and what it will tell each member."""

    rows: Positions = field(repr=False)  # [k] places of the common rows in the bucket, ascending
    tags: Mapping[str, Bytes] = field(repr=False)  # member → [k, 12] uint8, ascending


class LeaderBucket:
    """Send the matrix, take the stores, finish.

    Args:
        terms: the bucket's terms with every member.
        hashes: h(x) of the own rows in this bucket, [n, 16] uint8; n may be less than declared.
        position_key: k of the run, the same for all members.
        keys: for each member the pairs of the base OT.

    Raises:
        PsiError: more rows than declared.
    """

    def __init__(
        self,
        terms: Sequence[Terms],
        hashes: Bytes,
        position_key: bytes,
        keys: Mapping[str, Sequence[tuple[bytes, bytes]]],
    ) -> None:
        refuse_overflow("leader", len(hashes), terms[0].leader_size)
        self._hashes = hashes
        self._position_key = bucket_key(position_key, terms[0])
        self._loops = loops(terms[0].buckets)
        self._pairings = {
            each.member: Pairing(each, len(hashes), keys[each.member], self._loops)
            for each in terms
        }
        self._residual = np.zeros((len(hashes), terms[0].check_bytes), np.uint8)
        self._places: dict[Layout, Places] = {}

    def matrix(self) -> Iterator[dict[str, Bytes]]:
        """The columns Δ in blocks: for each member the next [columns, m / 8] uint8.

        A member whose matrix is narrower is missing from the last blocks. Read the iterator to its
        end: the leader's own outputs are computed after the last block, while members work.

        Raises:
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
        pairing = known(self._pairings, member)
        pairing.turns.take("store")
        self._residual ^= pairing.residual(store, self._placed(pairing.layout))

    def finish(self) -> Matches:
        """The common rows, and for each member the tags to send; there may be none.

        Raises:
            PsiError: a store is missing.
            UsedTwice: the bucket was finished before.
        """
        self._take_for_all("finish")
        # KMPRT: on common rows ⊕_i (Decode(OKVS_i, h(x)) ⊕ pad_i(x)) = ⊕_i z_i(x) = 0.
        rows = np.flatnonzero(~self._residual.any(axis=1))
        return Matches(rows, {name: each.tags(rows) for name, each in self._pairings.items()})

    def _placed(self, layout: Layout) -> Places:
        if layout not in self._places:
            self._places[layout] = layout.places(self._hashes)
        return self._places[layout]

    def _blocks(self) -> Iterator[dict[str, Bytes]]:
        rows, width = self._shape()
        per_block = max(1, BLOCK_BYTES // (rows // 8))
        session = next(iter(self._pairings.values())).terms.session
        columns = positions(self._position_key, session, self._hashes, rows, self._loops)
        for start in range(0, width, per_block):
            yield self._block(columns, start, min(start + per_block, width))
        self._take_for_all("the last block of matrix")
        for pairing in self._pairings.values():
            pairing.evaluate()

    def _block(self, columns: Iterator[ColumnPlaces], start: int, stop: int) -> dict[str, Bytes]:
        masked: dict[str, list[Bytes]] = {member: [] for member in self._pairings}
        for j, where in zip(range(start, stop), columns, strict=False):
            # Chase and Miao, "precomputation": D_j[v[j]] = 0 for v = F_k(H₁(y)), y ∈ Y; else 1.
            column = self._loops.zeros_at(where, self._shape()[0])
            for member, pairing in self._pairings.items():
                if j < pairing.terms.width:
                    masked[member].append(pairing.mask(column, where))
        return {member: np.stack(deltas) for member, deltas in masked.items() if deltas}

    def _shape(self) -> tuple[int, int]:
        """The number m of rows and the largest width w."""
        terms = [pairing.terms for pairing in self._pairings.values()]
        return terms[0].rows, max(each.width for each in terms)

    def _take_for_all(self, step: str) -> None:
        """Take ``step`` with every member, or with none."""
        for pairing in self._pairings.values():
            pairing.turns.require(step)
        for pairing in self._pairings.values():
            pairing.turns.take(step)


def known(members: Mapping[str, T], member: str) -> T:
    """What is kept for ``member``; raises ``PsiError`` when there is no such member."""
    if member not in members:
        names = ", ".join(members)
        raise PsiError(f"{member!r} is no member of this run", hint=f"the members are {names}")
    return members[member]
