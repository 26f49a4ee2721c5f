"""Oblivious key-value store: decoding a key gives its value, and the store hides its keys.

The construction is the one with three hashes and dense columns from Garimella, Pinkas, Rosulek,
Trieu and Yanai, "Oblivious Key-Value Stores and Amplification for Private Set Intersection" (CRYPTO
2021). The store is an array of slots: a sparse part in three thirds, followed by 40 dense slots. A
key reads three slots of the sparse part, one in each third, and a random subset of the dense slots.
The value of the key is the XOR of all slots that the key reads. If the values are random, every
slot is uniform, so the store reveals nothing about the keys.

Encoding first peels the keys and then fills the slots. Each round of peeling removes every key that
is the only remaining reader of at least one slot. The keys that cannot be removed form the 2-core:
every slot that a key of the 2-core reads is read by at least two keys of the 2-core. To fill the
slots, Gaussian elimination first solves the linear equations of the 2-core. Then the removed keys
are processed in reverse order. For each removed key, the slot that only this key read is filled
such that the XOR of all slots of the key is the value of the key.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psi.aes import AES_BLOCK_BYTES, KEY_BYTES, aes_keystream, encrypt_blocks, scale_words
from psi.domain import labelled_digest
from psi.errors import PsiError
from psi.parameters import PsiParameters
from psi.shared_types import Bytes, Entropy, Positions

MIN_KEYS = 4096  # smaller sets fail to peel too often
EXPANSION = 1.3  # sparse slots per key; above 1.23, random keys almost surely peel
DENSE_SLOTS = 40
MAX_CORE_KEYS = 8192  # keys of the 2-core up to which elimination is fast enough
ONE_READER = 1 << 40  # larger than any sum of key numbers, see _tally
RETRY_HINT = "by chance this happens with probability below 2^-40; start a new session"

Round = tuple[Positions, Positions]  # the keys of a round, and the slot that each key fills
Equation = tuple[int, int]  # the unknowns as bits, and the value


@dataclass(frozen=True, slots=True, eq=False)
class StoreSlots:
    """The slots that each of n keys reads; they are the same in all stores with equal layouts."""

    sparse: Positions  # [n, 3]
    dense: Bytes  # [n, 5], bits


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Shape and hash functions of a store, which both sides know; ``seed`` is 32 public bytes."""

    count: int  # keys, dummies included
    value_bytes: int
    seed: bytes

    @property
    def third(self) -> int:
        """The number of slots in each third of the sparse part."""
        return math.ceil(EXPANSION * self.count / 3)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape [slots, value bytes] of the store."""
        return 3 * self.third + DENSE_SLOTS, self.value_bytes

    def sparse(self, keys: Bytes) -> Positions:
        """Return the three sparse slots, [n, 3] int64, of each of the n ``keys``, [n, 16]."""
        key = labelled_digest("okvs-sparse", self.seed)[:KEY_BYTES]
        words = encrypt_blocks(key, keys).view("<u4")
        return scale_words(words[:, :3], self.third) + np.arange(3) * self.third

    def dense(self, keys: Bytes) -> Bytes:
        """Return the dense slots, [n, 5] uint8, of each of the n ``keys``, [n, 16].

        A set bit means that the key reads the slot; the lowest bit of a byte comes first.
        """
        key = labelled_digest("okvs-dense", self.seed)[:KEY_BYTES]
        return encrypt_blocks(key, keys)[:, : DENSE_SLOTS // 8]

    def slots(self, keys: Bytes) -> StoreSlots:
        """Return the slots of the store that each of ``keys`` [n, 16] reads."""
        return StoreSlots(self.sparse(keys), self.dense(keys))


def store_layout(parameters: PsiParameters) -> StoreLayout:
    """The layout of a member's store; members with the same declared size have the same layout."""
    count = max(MIN_KEYS, parameters.member_size)
    return StoreLayout(count, parameters.check_bytes, parameters.shared_context("okvs"))


def encode_store(layout: StoreLayout, keys: Bytes, values: Bytes, entropy: Entropy) -> Bytes:
    """The store that encodes ``keys`` [n, 16], ``values`` [n, ℓ] and random dummy keys.

    Returns:
        [slots, ℓ] uint8.

    Raises:
        PsiError: the equations have no solution.
    """
    keys, values = _padded(layout, keys, values, entropy)
    slots = layout.sparse(keys)
    rounds, core = peel_keys(slots, 3 * layout.third)
    store = _random(layout.shape, entropy)
    _solve_core(store, slots[core], layout.dense(keys[core]), values[core])
    missing = values ^ _dense_part(store[-DENSE_SLOTS:], layout.dense(keys))
    whole_slots = store.view(f"V{layout.value_bytes}").ravel()  # faster to assign than rows
    for peeled, slot in reversed(rounds):
        others = _sparse_part(store, slots.take(peeled, axis=0)) ^ store.take(slot, axis=0)
        filled = missing.take(peeled, axis=0) ^ others
        whole_slots[slot] = filled.view(whole_slots.dtype).ravel()
    return store


def decode_store(layout: StoreLayout, store: Bytes, keys: Bytes) -> Bytes:
    """Return the values, [n, ℓ] uint8, of the ``keys`` [n, 16] in ``store`` [slots, ℓ].

    For a key that was not encoded, the result is a random value.
    """
    return decode_slots(layout.slots(keys), store)


def decode_slots(slots: StoreSlots, store: Bytes) -> Bytes:
    """Return the values, [n, ℓ] uint8, in ``store`` [slots, ℓ] of the keys that read ``slots``."""
    sparse = _sparse_part(store, slots.sparse)
    return sparse ^ _dense_part(store[-DENSE_SLOTS:], slots.dense)


def refuse_bad_store(store: Bytes, layout: StoreLayout, member: str) -> None:
    """Check that the ``store`` of ``member`` is a uint8 array of the layout's shape, [slots, ℓ].

    Raises:
        PsiError: ``store`` is not a uint8 array of the declared shape.
    """
    if store.dtype != np.uint8 or store.shape != layout.shape:
        raise PsiError(
            f"{member}: the store is an array of type {store.dtype} and shape {list(store.shape)}; "
            f"expected type uint8 and shape {list(layout.shape)}",
            hint="both sides must declare the same set sizes",
        )


def _padded(
    layout: StoreLayout, keys: Bytes, values: Bytes, entropy: Entropy
) -> tuple[Bytes, Bytes]:
    """Keys and values with random dummies up to the count of the layout."""
    missing = layout.count - len(keys)
    return (
        np.concatenate([keys, _random((missing, AES_BLOCK_BYTES), entropy)]),
        np.concatenate([values, _random((missing, layout.value_bytes), entropy)]),
    )


def _random(shape: tuple[int, int], entropy: Entropy) -> Bytes:
    return aes_keystream(entropy(KEY_BYTES), math.prod(shape)).reshape(shape)


def _sparse_part(store: Bytes, slots: Positions) -> Bytes:
    """⊕ of the three sparse slots of each key: [n, ℓ] uint8."""
    # `take` of whole rows is ten times faster than indexing.
    first, second, third = (store.take(slots[:, i], axis=0) for i in range(3))
    return first ^ second ^ third


def _dense_part(dense: Bytes, bits: Bytes) -> Bytes:
    """⊕ of the dense slots of each key, by one table of 256 sums per byte of ``bits``."""
    total = np.zeros((len(bits), dense.shape[1]), np.uint8)
    for byte in range(DENSE_SLOTS // 8):
        table = np.zeros((1, dense.shape[1]), np.uint8)
        for slot in dense[8 * byte : 8 * byte + 8]:
            table = np.concatenate([table, table ^ slot])
        total ^= table.take(bits[:, byte], axis=0)
    return total


def peel_keys(slots: Positions, slot_count: int) -> tuple[list[Round], Positions]:
    """Peel n keys; ``slots`` [n, 3] are the slots of each key, with numbers below ``slot_count``.

    Each round of peeling is a pair of arrays: the removed keys, [k], and for each removed key the
    slot to fill, [k]. The caller must fill the slots of the last round first.

    Returns:
        The rounds of peeling, and the keys of the 2-core in ascending order: [c].
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
        owner[keys] = place  # a key with two such slots fills the last
        first = owner[keys] == place
        keys, touched = keys[first], touched[first]
        rounds.append((keys, touched))
        left[keys] = False
        touched = slots.take(keys, axis=0).ravel()
        np.subtract.at(tally, touched, np.repeat(keys + ONE_READER, 3))


def _tally(slots: Positions, slot_count: int) -> Positions:
    """For each slot 2⁴⁰ · (count of its keys) + (sum of its key numbers); exact in float64."""
    flat = slots.ravel()
    keys = np.repeat(np.arange(len(slots), dtype=np.float64) + ONE_READER, 3)
    return np.bincount(flat, weights=keys, minlength=slot_count).astype(np.int64)


def _solve_core(store: Bytes, slots: Positions, bits: Bytes, values: Bytes) -> None:
    """Write into ``store`` a solution for the keys of the 2-core, in place."""
    if len(slots) > MAX_CORE_KEYS:
        raise PsiError(
            f"key-value store: {len(slots)} keys are left after peeling; at most {MAX_CORE_KEYS} "
            "keys may be left",
            hint=RETRY_HINT,
        )
    used, local = np.unique(slots, return_inverse=True)
    dense_slots = np.arange(len(store) - DENSE_SLOTS, len(store))
    unknown = np.concatenate([used, dense_slots])
    rows = [
        sum(1 << u for u in three) | int.from_bytes(dense, "little") << len(used)
        for three, dense in zip(local.reshape(-1, 3).tolist(), map(bytes, bits), strict=True)
    ]
    solution = solve_gf2(rows, _integers(values), _integers(store[unknown]))
    if solution is None:
        raise PsiError(
            "key-value store: the equations for the slots have no solution", hint=RETRY_HINT
        )
    solved = b"".join(value.to_bytes(store.shape[1], "big") for value in solution)
    store[unknown] = np.frombuffer(solved, np.uint8).reshape(-1, store.shape[1])


def _integers(values: Bytes) -> list[int]:
    return [int.from_bytes(row.tobytes(), "big") for row in values]


def solve_gf2(rows: Sequence[int], values: Sequence[int], free: Sequence[int]) -> list[int] | None:
    """Solve linear equations over GF(2); each unknown is a bit string in a Python integer.

    The result x satisfies ⊕_{bit u of rows[e]} x[u] = values[e] for every equation e. An unknown
    that the equations do not determine gets the value in ``free``. The result is None if the rows
    are linearly dependent.
    """
    pivots: dict[int, Equation] = {}
    for equation in zip(rows, values, strict=True):
        row, value = _reduced(equation, pivots)
        if not row:
            return None
        pivots[row.bit_length() - 1] = (row, value)
    return _back_substituted(pivots, list(free))


def _reduced(equation: Equation, pivots: dict[int, Equation]) -> Equation:
    row, value = equation
    while row and (pivot := pivots.get(row.bit_length() - 1)):
        row, value = row ^ pivot[0], value ^ pivot[1]
    return row, value


def _back_substituted(pivots: dict[int, Equation], solution: list[int]) -> list[int]:
    for top in sorted(pivots):
        row, value = pivots[top]
        rest = row ^ (1 << top)
        while rest:
            low = rest & -rest
            value ^= solution[low.bit_length() - 1]
            rest ^= low
        solution[top] = value
    return solution
