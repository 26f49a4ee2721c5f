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


def order_words(ids: Iterable[bytes], key: bytes) -> npt.NDArray[np.uint64]:
    """The first 16 bytes of HMAC-SHA256(key, x) of every x as two numbers: [n, 2]."""
    # RFC 2104 with both first blocks hashed once, which halves the time of `hmac.digest`.
    block = (key if len(key) <= BLOCK else hashlib.sha256(key).digest()).ljust(BLOCK, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def one(identity: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(identity)
        outside.update(inside.digest())
        return outside.digest()

    parts = [np.empty((0, 2), np.uint64)]
    for part in in_parts(ids, AT_ONCE):
        whole = np.frombuffer(b"".join(map(one, part)), ">u8").reshape(-1, 4)
        parts.append(whole[:, :2].astype(np.uint64))
    return np.concatenate(parts)


def ordered(words: npt.NDArray[np.uint64]) -> Positions:
    """The permutation that sorts ``words`` [n, 2]."""
    order = np.argsort(words[:, 0])
    high = words[order, 0]
    if (high[1:] == high[:-1]).any():
        return np.lexsort((words[:, 1], words[:, 0]))
    return order


def common_order(ids: Iterable[bytes], key: bytes) -> Positions:
    """The permutation that puts ``ids`` in the order of HMAC-SHA256(key, id)[:16].

    Every party computes it by itself; ``ids[order[0]]`` is the first common row.

    Returns:
        [n] int64.
    """
    return ordered(order_words(ids, key))


def alignment_digest(prints: Bytes, session: bytes, agreement_digest: bytes) -> bytes:
    """SHA-256(domain ‖ session ‖ agreement digest ‖ h(x) in common order): 32 bytes.

    ``prints`` are the fingerprints in common order, [n, 16]. Compare the digest with
    ``hmac.compare_digest``, keep it in memory only.
    """
    state = hashlib.sha256(framed("alignment", session, agreement_digest))
    for start in range(0, len(prints), AT_ONCE):
        state.update(bound(prints[start : start + AT_ONCE], session).data)
    return state.digest()
