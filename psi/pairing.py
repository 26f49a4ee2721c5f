"""The leader's half of the run with one member."""

import numpy as np

from psi.base_ot import answer
from psi.errors import PsiError
from psi.okvs import decode, layout
from psi.oprf import Readings, difference
from psi.shared_types import Bytes, Entropy, Positions
from psi.tags import ascending
from psi.terms import Terms
from psi.turns import Turns

STEPS = ("answer", "matrix", "the last block of matrix", "store", "finish")


class Pairing:
    """What the leader keeps for the member of ``terms``; ``hashes`` is its h(x), [n, 16] uint8."""

    # What each step leaves for later ones.
    _keys: tuple[tuple[bytes, bytes], ...]  # answer
    _pads: Bytes  # evaluate
    _tags: Bytes  # evaluate

    def __init__(self, terms: Terms, hashes: Bytes) -> None:
        self.terms = terms
        self.turns = Turns(f"leader, with {terms.member}", STEPS)
        self._hashes = hashes
        self._readings = Readings(len(hashes), terms.width)

    def answer(self, offer: bytes, position_key: bytes, entropy: Entropy) -> bytes:
        """The OPRF key k and the answer of the base OT: 16 + 64 · w bytes."""
        terms = self.terms
        pairs = answer(terms.context("base-ot"), terms.width, offer, entropy, terms.member)
        self._keys = pairs.keys
        return position_key + pairs.answer

    def mask(self, column: Bytes, where: Positions) -> Bytes:
        """The next Δ_j for the member, from the column D_j; reads the leader's own bits too."""
        own, delta = difference(self._keys[self._readings.columns], column)
        self._readings.read(own, where)
        return delta

    def evaluate(self) -> None:
        """Turn the bits of all columns into pads and tags; drop the bits and the keys."""
        self._pads, self._tags = self._readings.outputs(self.terms)
        del self._readings, self._keys

    def residual(self, store: Bytes) -> Bytes:
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
        return decode(plan, np.ascontiguousarray(store), self._hashes) ^ self._pads

    def tags(self, rows: Positions) -> Bytes:
        """The tags of ``rows`` in ascending order, which says nothing: [k, 12] uint8."""
        tags = self._tags.take(rows, axis=0)
        return tags.take(ascending(tags), axis=0)
