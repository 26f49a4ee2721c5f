"""Alignment: the order of the common rows, and the digest that proves both sides share it."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from psi.domain import framed
from psi.id_list import AT_ONCE, IdList, in_parts
from psi.ids import bound
from psi.shared_types import Bytes, Positions

Rows: TypeAlias = npt.NDArray[np.integer[Any]]
Words: TypeAlias = npt.NDArray[np.uint64]

BLOCK = 64  # bytes of a block of SHA-256


def common_order(words: Callable[[int], Words]) -> Positions:
    """The permutation that puts common rows in the order of HMAC-SHA256(key, id).

    Every party computes it by itself. ``words(part)`` gives their `order_words`, of which the
    second part is needed once in a million runs of ten million rows.

    Returns:
        [n] int64.
    """
    first = words(0)
    order = np.argsort(first)
    return np.lexsort((words(1), first)) if _repeated(first, order) else order


def inverse(order: Positions) -> npt.NDArray[np.uint32]:
    """The rank of every row in ``order``: [n]."""
    ranks = np.empty(len(order), np.uint32)
    for at in range(0, len(order), AT_ONCE):
        part = order[at : at + AT_ONCE]
        ranks[part] = np.arange(at, at + len(part), dtype=np.uint32)
    return ranks


def order_words(ids: IdList, rows: Rows, key: bytes, part: int) -> Words:
    """The eight bytes number ``part`` of HMAC-SHA256(key, x) of all ``rows``, as numbers: [n]."""
    # RFC 2104 with both first blocks hashed once, which halves the time of `hmac.digest`.
    block = (key if len(key) <= BLOCK else hashlib.sha256(key).digest()).ljust(BLOCK, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def one(identity: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(identity)
        outside.update(inside.digest())
        return outside.digest()

    words, start = np.empty(len(rows), np.uint64), 0
    for some in in_parts(ids.take(rows), AT_ONCE):
        whole = np.frombuffer(b"".join(map(one, some)), ">u8").reshape(-1, 4)
        words[start : start + len(some)] = whole[:, part]
        start += len(some)
    return words


def _repeated(words: Words, order: Positions) -> bool:
    """Whether two of the ``words`` are equal; ``order`` sorts them."""
    parts = (words.take(order[at : at + AT_ONCE + 1]) for at in range(0, len(order), AT_ONCE))
    return any(bool((part[1:] == part[:-1]).any()) for part in parts)


def alignment_digest(prints: Iterable[Bytes], session: bytes, agreement_digest: bytes) -> bytes:
    """SHA-256(domain ‖ session ‖ agreement digest ‖ h(x) in common order): 32 bytes.

    ``prints`` are the fingerprints in common order, in parts of [n, 16]. Compare the digest with
    ``hmac.compare_digest``, keep it in memory only.
    """
    state = hashlib.sha256(framed("alignment", session, agreement_digest))
    for part in prints:
        state.update(bound(part, session).data)
    return state.digest()
