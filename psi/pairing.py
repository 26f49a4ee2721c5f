"""The leader's half of one bucket with one member."""

from collections.abc import Sequence

import numpy as np

from psi.errors import PsiError
from psi.loops import Loops
from psi.okvs import Layout, Places, decode_at, layout
from psi.oprf import Readings, bucket_seed, difference
from psi.shared_types import Bytes, ColumnPlaces, Positions
from psi.tags import ascending
from psi.terms import Terms
from psi.turns import Turns

STEPS = ("matrix", "the last block of matrix", "store", "finish")


class Pairing:
    """What the leader keeps for the member of ``terms``; ``keys`` are the pairs of the base OT."""

    # What each step leaves for later ones.
    _pads: Bytes  # evaluate
    _tags: Bytes  # evaluate

    def __init__(
        self, terms: Terms, count: int, keys: Sequence[tuple[bytes, bytes]], loops: Loops
    ) -> None:
        self.terms = terms
        self.turns = Turns(f"leader, with {terms.member}", STEPS)
        self._keys = keys
        self._readings = Readings(count, terms.width, loops)

    def mask(self, column: Bytes, where: ColumnPlaces) -> Bytes:
        """The next Δ_j for the member, from the column D_j; reads the leader's own bits too."""
        j = self._readings.columns
        zero, one = (bucket_seed(key, self.terms, j) for key in self._keys[j])
        own, delta = difference((zero, one), column)
        self._readings.read(own, where)
        return delta

    def evaluate(self) -> None:
        """Turn the bits of all columns into pads and tags; drop the bits and the keys."""
        self._pads, self._tags = self._readings.outputs(self.terms)
        del self._readings, self._keys

    @property
    def layout(self) -> Layout:
        """Where the member's store is read."""
        return layout(self.terms)

    def residual(self, store: Bytes, places: Places) -> Bytes:
        """Decode(store, h(x)) ⊕ pad(x) for every row x: z(x) where both hold x, [n, ℓ] uint8.

        Raises:
            PsiError: the store is no uint8 array of the declared shape.
        """
        shape = self.layout.shape
        if store.dtype != np.uint8 or store.shape != shape:
            raise PsiError(
                f"{self.terms.member}: store is {store.dtype} {list(store.shape)}, "
                f"legal is uint8 {list(shape)}",
                hint="both sides must declare the same set sizes",
            )
        return decode_at(places, np.ascontiguousarray(store)) ^ self._pads

    def tags(self, rows: Positions) -> Bytes:
        """The tags of ``rows`` in ascending order, which says nothing: [k, 12] uint8."""
        tags = self._tags.take(rows, axis=0)
        return tags.take(ascending(tags), axis=0)
