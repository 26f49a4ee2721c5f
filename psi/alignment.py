"""Alignment: the common order of the intersected rows, and a digest to check equal orders."""

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from psi.aes import KEY_BYTES, encrypt_blocks
from psi.domain import labelled_bytes, labelled_digest
from psi.id_list import CHUNK_IDS
from psi.ids import bind_to_session
from psi.shared_types import Bytes, Positions

OrderWords: TypeAlias = npt.NDArray[np.uint64]


def common_order(words: Callable[[int], OrderWords]) -> Positions:
    """The permutation that sorts the common rows by AES(key, fingerprint): [n] int64.

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


def order_words(fingerprints: Bytes, secret: bytes, part: int) -> OrderWords:
    """The sort keys of rows: one big-endian 64-bit word of AES(key, fingerprint) each, [n] uint64.

    AES is a permutation, and the fingerprints are distinct. Therefore no two rows have equal words
    in both parts.

    Args:
        fingerprints: the fingerprints of the rows, [n, 16] uint8.
        secret: a secret that all parties have; the key of AES is derived from ``secret``.
        part: selects one of the two words of the block; 0 is the most significant word.
    """
    key = labelled_digest("order", secret)[:KEY_BYTES]
    words = encrypt_blocks(key, np.ascontiguousarray(fingerprints)).view(">u8")[:, part]
    return words.astype(np.uint64)


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
