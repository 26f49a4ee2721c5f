"""Peeling: the order in which a three-hash store can be filled without solving equations.

A slot that a single key reads can be given last: it takes what the key's value still lacks. Take
away all such keys, look again, until none is left or every slot is read twice (the 2-core).
"""

import numpy as np

from psi.shared_types import Positions

Round = tuple[Positions, Positions]  # keys and, for each, the slot that it fills

ONE_READER = 1 << 40  # above any sum of key numbers; below, see _tally


def peel(slots: Positions, slot_count: int) -> tuple[list[Round], Positions]:
    """Peel the keys that read ``slots`` [n, 3].

    Returns:
        The rounds, in peeling order: fill them in reverse. And the keys of the 2-core, ascending.
    """
    tally = _tally(slots, slot_count)
    owner = np.full(len(slots), -1, np.int64)
    left = np.ones(len(slots), np.bool_)
    rounds: list[Round] = []
    touched = np.arange(slot_count)
    while True:
        touched = touched[tally[touched] >> 40 == 1]
        if not touched.size:
            return rounds, np.flatnonzero(left)
        keys = tally[touched] & (ONE_READER - 1)
        place = np.arange(len(keys))
        owner[keys] = place  # a key with two such slots takes the last
        first = owner[keys] == place
        keys, touched = keys[first], touched[first]
        rounds.append((keys, touched))
        left[keys] = False
        touched = slots.take(keys, axis=0).ravel()
        np.subtract.at(tally, touched, np.repeat(keys + ONE_READER, 3))


def _tally(slots: Positions, slot_count: int) -> Positions:
    """For each slot 2⁴⁰ · (number of its keys) + (sum of their numbers); exact in float64."""
    flat = slots.ravel()
    keys = np.repeat(np.arange(len(slots), dtype=np.float64) + ONE_READER, 3)
    return np.bincount(flat, weights=keys, minlength=slot_count).astype(np.int64)
