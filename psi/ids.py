"""IDs: one normal form, no duplicates, and their session-bound hashes."""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from psi.aes import KEY_BYTES, encrypted
from psi.domain import digest, framed, length_prefixed
from psi.errors import PsiError
from psi.id_list import AT_ONCE, in_parts
from psi.shared_types import Bytes

HASH_BYTES = 16
NONE = np.empty((0, HASH_BYTES), np.uint8)
SHOWN_ROWS = 5


def normalise(text: str) -> bytes:
    """Text → NFKC → strip → UTF-8; no case folding, no numeric rewriting.

    Raises:
        PsiError: nothing is left, or ``text`` has no UTF-8 form (a lone surrogate).
    """
    try:
        normal = unicodedata.normalize("NFKC", text).strip().encode()
    except UnicodeEncodeError:
        raise PsiError("an ID is not valid Unicode text", hint="read the file as UTF-8") from None
    if not normal:
        raise PsiError("an ID is empty", hint="drop rows without an ID before the intersection")
    return normal


def join_columns(parts: Sequence[bytes]) -> bytes:
    """One ID of several columns, each normalised and behind its length: ("ab", "c") ≠ ("a", "bc").

    Raises:
        PsiError: there is no column.
    """
    if not parts:
        raise PsiError("an ID has no columns", hint="name at least one ID column")
    return length_prefixed(parts)


def fingerprints(ids: Iterable[bytes], salt: bytes = b"") -> Iterator[Bytes]:
    """SHA-256(domain ‖ salt ‖ x)[:16] of every x, the same in every session: parts of [n, 16].

    Chunks bound the memory. A fingerprint never leaves the party.
    """
    start = hashlib.sha256(framed("id", salt))

    def one(identity: bytes) -> bytes:
        state = start.copy()
        state.update(identity)
        return state.digest()

    for part in in_parts(ids, AT_ONCE):
        digests = np.frombuffer(b"".join(map(one, part)), np.uint8)
        yield np.ascontiguousarray(digests.reshape(len(part), -1)[:, :HASH_BYTES])


def bound(prints: Bytes, session: bytes) -> Bytes:
    """h(x) of fingerprints, equal for all parties of a session: [n, 16] → [n, 16] uint8.

    AES under a key that the session gives is a permutation: what differs stays different, and no
    value of one session says anything in another to who lacks the fingerprint.
    """
    return encrypted(digest("id-session", session)[:KEY_BYTES], np.ascontiguousarray(prints))


def hashed(ids: Iterable[bytes], session: bytes, salt: bytes = b"") -> Bytes:
    """h(x) of all ``ids``: [n, 16] uint8."""
    return bound(np.concatenate([NONE, *fingerprints(ids, salt)]), session)


def refuse_duplicates(
    prints: Bytes, who: str, rows: npt.NDArray[np.integer[Any]] | None = None
) -> None:
    """Check that all fingerprints ``prints`` [n, 16] of the party ``who`` differ.

    ``rows`` are their row numbers; without it, their places.

    Raises:
        PsiError: some do not; it names rows, counted from 0, and never values.
    """
    words = prints.view("<u8")
    sorted_words = np.sort(words[:, 0])
    if not (sorted_words[1:] == sorted_words[:-1]).any():
        return
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable: equal ones stay in their order
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (words[order][1:] != words[order][:-1]).any(axis=1)
    first = order[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
    numbers = np.arange(len(prints)) if rows is None else rows
    pairs = sorted(zip(numbers[order[~fresh]], numbers[first[~fresh]], strict=True))
    if not pairs:
        return
    shown = ", ".join(f"{a} and {b}" for b, a in pairs[:SHOWN_ROWS])
    more = f" and {len(pairs) - SHOWN_ROWS} more pairs" if len(pairs) > SHOWN_ROWS else ""
    raise PsiError(
        f"{who}: duplicate IDs in rows {shown}{more} (counted from 0)",
        hint="two raw forms with one normal form count as duplicates; keep one row per ID",
    )
