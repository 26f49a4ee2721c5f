"""Oblivious key-value store: decoding a key gives its value, and the store shows no key.

Garimella, Pinkas, Rosulek, Trieu and Yanai, "Oblivious Key-Value Stores and Amplification for
Private Set Intersection" (CRYPTO 2021), the three-hash construction with dense columns: a key reads
three slots of the sparse part, one in each third, and a random subset of 40 dense slots; its value
is the XOR of all it reads. With random values every slot is uniform, so the keys do not show.
"""

import math
from dataclasses import dataclass

import numpy as np

from psi.aes import BLOCK, KEY_BYTES, encrypted, keystream, scaled
from psi.domain import digest
from psi.elimination import solve
from psi.errors import PsiError
from psi.peeling import peel
from psi.shared_types import Bytes, Entropy, Positions
from psi.terms import Terms

FEWEST_KEYS = 4096  # smaller sets fail to peel too often
EXPANSION = 1.3  # sparse slots per key; a third hash peels almost surely from 1.23 on
DENSE = 40  # dense slots
LARGEST_CORE = 8192  # keys that may be left to elimination
AGAIN = "by chance this happens with probability below 2^-40; start a new session"


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where some keys read: computed once for all stores with one layout."""

    sparse: Positions  # [n, 3]
    dense: Bytes  # [n, 5], bits


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the keys of one store read, known to both sides: ``seed`` is 32 public bytes."""

    count: int  # keys, dummies included
    value_bytes: int
    seed: bytes

    @property
    def third(self) -> int:
        """Slots in each third of the sparse part."""
        return math.ceil(EXPANSION * self.count / 3)

    @property
    def shape(self) -> tuple[int, int]:
        """[slots, value bytes] of the store."""
        return 3 * self.third + DENSE, self.value_bytes

    def sparse(self, keys: Bytes) -> Positions:
        """The three slots of each key: [n, 3] int64."""
        words = encrypted(digest("okvs-sparse", self.seed)[:KEY_BYTES], keys).view("<u4")
        return scaled(words[:, :3], self.third) + np.arange(3) * self.third

    def dense(self, keys: Bytes) -> Bytes:
        """The dense slots of each key as bits, least significant first: [n, 5] uint8."""
        return encrypted(digest("okvs-dense", self.seed)[:KEY_BYTES], keys)[:, : DENSE // 8]

    def places(self, keys: Bytes) -> Places:
        """Where ``keys`` [n, 16] read."""
        return Places(self.sparse(keys), self.dense(keys))


def layout(terms: Terms) -> Layout:
    """The store that the member of ``terms`` sends; members of one size share its layout."""
    count = max(FEWEST_KEYS, terms.member_size)
    return Layout(count, terms.check_bytes, terms.common("okvs"))


def encode(plan: Layout, keys: Bytes, values: Bytes, entropy: Entropy) -> Bytes:
    """The store of ``keys`` [n, 16] and ``values`` [n, ℓ], padded with random dummies.

    Returns:
        [slots, ℓ] uint8.

    Raises:
        PsiError: the equations have no solution.
    """
    keys, values = _padded(plan, keys, values, entropy)
    slots = plan.sparse(keys)
    rounds, core = peel(slots, 3 * plan.third)
    store = _random(plan.shape, entropy)
    _solve_core(store, slots[core], plan.dense(keys[core]), values[core])
    missing = values ^ _dense_part(store[-DENSE:], plan.dense(keys))
    whole_slots = store.view(f"V{plan.value_bytes}").ravel()  # assigned faster than rows of bytes
    for peeled, slot in reversed(rounds):
        others = _sparse_part(store, slots.take(peeled, axis=0)) ^ store.take(slot, axis=0)
        filled = missing.take(peeled, axis=0) ^ others
        whole_slots[slot] = filled.view(whole_slots.dtype).ravel()
    return store


def decode(plan: Layout, store: Bytes, keys: Bytes) -> Bytes:
    """The value of every key, random for a key that was not encoded: [n, ℓ] uint8."""
    return decode_at(plan.places(keys), store)


def decode_at(places: Places, store: Bytes) -> Bytes:
    """Like ``decode``, for keys whose places are known."""
    sparse = _sparse_part(store, places.sparse)
    return sparse ^ _dense_part(store[-DENSE:], places.dense)


def _padded(plan: Layout, keys: Bytes, values: Bytes, entropy: Entropy) -> tuple[Bytes, Bytes]:
    """Keys and values with random dummies up to the count of the plan."""
    missing = plan.count - len(keys)
    return (
        np.concatenate([keys, _random((missing, BLOCK), entropy)]),
        np.concatenate([values, _random((missing, plan.value_bytes), entropy)]),
    )


def _random(shape: tuple[int, int], entropy: Entropy) -> Bytes:
    return keystream(entropy(KEY_BYTES), math.prod(shape)).reshape(shape)


def _sparse_part(store: Bytes, slots: Positions) -> Bytes:
    """⊕ of the three slots that each key reads: [n, ℓ] uint8."""
    # `take` of whole rows is ten times faster than indexing them.
    first, second, third = (store.take(slots[:, i], axis=0) for i in range(3))
    return first ^ second ^ third


def _dense_part(dense: Bytes, bits: Bytes) -> Bytes:
    """⊕ of the dense slots that each key reads, by one table of 256 sums per byte of ``bits``."""
    total = np.zeros((len(bits), dense.shape[1]), np.uint8)
    for byte in range(DENSE // 8):
        table = np.zeros((1, dense.shape[1]), np.uint8)
        for slot in dense[8 * byte : 8 * byte + 8]:
            table = np.concatenate([table, table ^ slot])
        total ^= table.take(bits[:, byte], axis=0)
    return total


def _solve_core(store: Bytes, slots: Positions, bits: Bytes, values: Bytes) -> None:
    """Write into ``store`` a solution for the keys that peeling left, in place."""
    if len(slots) > LARGEST_CORE:
        raise PsiError(f"key-value store: peeling left {len(slots)} keys", hint=AGAIN)
    used, local = np.unique(slots, return_inverse=True)
    dense_slots = np.arange(len(store) - DENSE, len(store))
    unknown = np.concatenate([used, dense_slots])
    rows = [
        sum(1 << u for u in three) | int.from_bytes(dense, "little") << len(used)
        for three, dense in zip(local.reshape(-1, 3).tolist(), map(bytes, bits), strict=True)
    ]
    solution = solve(rows, _integers(values), _integers(store[unknown]))
    if solution is None:
        raise PsiError("key-value store: the equations have no solution", hint=AGAIN)
    whole = b"".join(value.to_bytes(store.shape[1], "big") for value in solution)
    store[unknown] = np.frombuffer(whole, np.uint8).reshape(-1, store.shape[1])


def _integers(values: Bytes) -> list[int]:
    return [int.from_bytes(row.tobytes(), "big") for row in values]
