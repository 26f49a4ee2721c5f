"""Alignment: the common order of the intersected rows, and a digest to check equal orders."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from psi.domain import labelled_bytes
from psi.id_list import CHUNK_IDS, IdList, chunked
from psi.ids import bind_to_session
from psi.shared_types import Bytes, Positions

Rows: TypeAlias = npt.NDArray[np.integer[Any]]
OrderWords: TypeAlias = npt.NDArray[np.uint64]

SHA256_BLOCK_BYTES = 64


def common_order(words: Callable[[int], OrderWords]) -> Positions:
    """The permutation that sorts the common rows by HMAC-SHA256(key, id): [n] int64.

    Every party computes the same order, without sending a message. ``words(part)`` returns the
    result of `order_words` for the common rows, [n]. ``words(1)`` is called only if two of the
    ``words(0)`` are equal. With ten million rows, the probability of equal words is below 2⁻¹⁸.
    """
    first = words(0)
    order = np.argsort(first)
    return np.lexsort((words(1), first)) if _repeated(first, order) else order


def inverse_permutation(order: Positions) -> npt.NDArray[np.uint32]:
    """The position of each row in the permutation ``order`` [n]; the result is [n] uint32."""
    ranks = np.empty(len(order), np.uint32)
    for at in range(0, len(order), CHUNK_IDS):
        part = order[at : at + CHUNK_IDS]
        ranks[part] = np.arange(at, at + len(part), dtype=np.uint32)
    return ranks


def order_words(ids: IdList, rows: Rows, key: bytes, part: int) -> OrderWords:
    """The sort keys of ``rows`` [n]: one 64-bit word of HMAC-SHA256(key, x) per row, [n] uint64.

    ``part`` selects one of the four words of the HMAC; 0 is the most significant word.
    """
    # RFC 2104; both first blocks are hashed once, which takes half the time of `hmac.digest`.
    size = SHA256_BLOCK_BYTES
    block = (key if len(key) <= size else hashlib.sha256(key).digest()).ljust(size, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def hmac_of(identity: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(identity)
        outside.update(inside.digest())
        return outside.digest()

    words, start = np.empty(len(rows), np.uint64), 0
    for chunk in chunked(ids.take(rows), CHUNK_IDS):
        digests = np.frombuffer(b"".join(map(hmac_of, chunk)), ">u8").reshape(-1, 4)
        words[start : start + len(chunk)] = digests[:, part]
        start += len(chunk)
    return words


def _repeated(words: OrderWords, order: Positions) -> bool:
    """True if two of the ``words`` are equal; ``order`` sorts the words."""
    parts = (words.take(order[at : at + CHUNK_IDS + 1]) for at in range(0, len(order), CHUNK_IDS))
    return any(bool((part[1:] == part[:-1]).any()) for part in parts)


def alignment_digest(
    fingerprints: Iterable[Bytes], session: bytes, agreement_digest: bytes
) -> bytes:
    """SHA-256(domain ‖ session ‖ agreement digest ‖ h(x) in common order): 32 bytes.

    ``fingerprints`` are the fingerprints of the common rows in the common order, as arrays of
    [n, 16]. Compare two alignment digests with ``hmac.compare_digest``, and keep alignment digests
    in memory only.
    """
    state = hashlib.sha256(labelled_bytes("alignment", session, agreement_digest))
    for part in fingerprints:
        state.update(bind_to_session(part, session).data)
    return state.digest()
