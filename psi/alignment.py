"""Alignment: the order of the common rows, and the digest that proves both sides share it."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from psi.domain import framed
from psi.id_list import AT_ONCE, in_parts
from psi.ids import bound
from psi.shared_types import Bytes, Positions

BLOCK = 64  # bytes of a block of SHA-256


def order_words(ids: Iterable[bytes], count: int, key: bytes) -> npt.NDArray[np.uint64]:
    """The first 16 bytes of HMAC-SHA256(key, x) of every x as two numbers: [2, n]."""
    # RFC 2104 with both first blocks hashed once, which halves the time of `hmac.digest`.
    block = (key if len(key) <= BLOCK else hashlib.sha256(key).digest()).ljust(BLOCK, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def one(identity: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(identity)
        outside.update(inside.digest())
        return outside.digest()

    words, start = np.empty((2, count), np.uint64), 0
    for part in in_parts(ids, AT_ONCE):
        whole = np.frombuffer(b"".join(map(one, part)), ">u8").reshape(-1, 4)
        words[:, start : start + len(part)] = whole[:, :2].T
        start += len(part)
    return words


def ordered(words: npt.NDArray[np.uint64]) -> Positions:
    """The permutation that sorts pairs of numbers, [2, n], by the first and then the second."""
    order = np.argsort(words[0])
    first = words[0].take(order)
    if (first[1:] == first[:-1]).any():
        return np.lexsort((words[1], words[0]))
    return order


def common_order(ids: Iterable[bytes], count: int, key: bytes) -> Positions:
    """The permutation that puts the ``count`` ``ids`` in the order of HMAC-SHA256(key, id)[:16].

    Every party computes it by itself; the first common row is ID ``order[0]``.

    Returns:
        [n] int64.
    """
    return ordered(order_words(ids, count, key))


def alignment_digest(prints: Iterable[Bytes], session: bytes, agreement_digest: bytes) -> bytes:
    """SHA-256(domain ‖ session ‖ agreement digest ‖ h(x) in common order): 32 bytes.

    ``prints`` are the fingerprints in common order, in parts of [n, 16]. Compare the digest with
    ``hmac.compare_digest``, keep it in memory only.
    """
    state = hashlib.sha256(framed("alignment", session, agreement_digest))
    for part in prints:
        state.update(bound(part, session).data)
    return state.digest()
