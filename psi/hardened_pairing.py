"""The leader's half of a hardened run with one member."""

from collections.abc import Sequence

import numpy as np

from psi.blind import outputs, products
from psi.dleq import Statement, verify
from psi.errors import PsiError
from psi.group import POINT_BYTES
from psi.intake import Intake
from psi.okvs import decode, layout
from psi.shared_types import Bytes, Positions
from psi.spread import Spread
from psi.tags import ascending
from psi.terms import Terms
from psi.turns import Turns

STEPS = ("prove", "store", "finish")


class HardenedPairing:
    """What the leader keeps for the member of ``terms``."""

    # What `prove` leaves for later steps.
    _pads: Bytes
    _tags: Bytes

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.turns = Turns(f"leader, with {terms.member}", STEPS)
        self._answers = Intake(f"{terms.member}: answers", terms.leader_size)
        self._unblinded: list[bytes] = []

    @property
    def left(self) -> int:
        """How many answers are still to come."""
        return self._answers.left

    def answered(self, block: Bytes, unblinders: bytearray, spread: Spread) -> None:
        """Take the next answers D and unblind them; ``unblinders`` is r⁻¹ of every row."""
        first = self._answers.seen
        points = self._answers.take(block)
        at = first * POINT_BYTES
        back = bytes(unblinders[at : at + len(points)])
        self._unblinded.append(products(back, points, self._answers.whose, first, spread))

    def prove(
        self, asked: bytes, ids: Sequence[bytes], claim: tuple[bytes, bytes], spread: Spread
    ) -> None:
        """Check the ``claim``, commitment and proof; only then are there pads and tags."""
        statement = Statement(self.terms.context("dleq"), claim[0], asked, self._answers.whole())
        verify(statement, claim[1], self.terms.member, spread)
        self._pads, self._tags = outputs(self.terms, ids, b"".join(self._unblinded))
        del self._answers, self._unblinded

    @property
    def slots(self) -> int:
        """How many slots the member's store has."""
        return layout(self.terms).shape[0]

    def residual(self, store: Bytes, hashes: Bytes) -> Bytes:
        """Decode(store, h(x)) ⊕ pad(x) for every row x: z(x) where both hold x, [n, ℓ] uint8.

        Raises:
            PsiError: the store is no uint8 array of the declared shape.
        """
        plan = layout(self.terms)
        if store.dtype != np.uint8 or store.shape != plan.shape:
            raise PsiError(
                f"{self.terms.member}: store is {store.dtype} {list(store.shape)}, "
                f"legal is uint8 {list(plan.shape)}",
                hint="both sides must declare the same set sizes",
            )
        return decode(plan, np.ascontiguousarray(store), hashes) ^ self._pads[: len(hashes)]

    def tags(self, rows: Positions) -> Bytes:
        """The tags of ``rows`` in ascending order, which says nothing: [k, 12] uint8."""
        tags = self._tags.take(rows, axis=0)
        return tags.take(ascending(tags), axis=0)
