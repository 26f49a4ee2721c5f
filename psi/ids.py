"""IDs: one normal form, no duplicates, and their session-bound hashes."""

import hashlib
import unicodedata
from collections.abc import Sequence

import numpy as np

from psi.domain import framed, length_prefixed
from psi.errors import PsiError
from psi.shared_types import Bytes

HASH_BYTES = 16
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


def hashed(ids: Sequence[bytes], session: bytes) -> Bytes:
    """h(x) = SHA-256(domain ‖ session ‖ x)[:16], equal for all parties of a session.

    Returns:
        [n, 16] uint8.
    """
    start = hashlib.sha256(framed("id", session))

    def one(identity: bytes) -> bytes:
        state = start.copy()
        state.update(identity)
        return state.digest()

    digests = np.frombuffer(b"".join(map(one, ids)), np.uint8).reshape(-1, start.digest_size)
    return np.ascontiguousarray(digests[:, :HASH_BYTES])


def refuse_duplicates(ids: Sequence[bytes], who: str) -> None:
    """Check that all ``ids`` of the party ``who`` differ.

    Raises:
        PsiError: some do not; it names rows, counted from 0, and never values.
    """
    if len(set(ids)) == len(ids):
        return
    first: dict[bytes, int] = {}
    pairs = [(first[x], row) for row, x in enumerate(ids) if first.setdefault(x, row) != row]
    shown = ", ".join(f"{a} and {b}" for a, b in pairs[:SHOWN_ROWS])
    more = f" and {len(pairs) - SHOWN_ROWS} more pairs" if len(pairs) > SHOWN_ROWS else ""
    raise PsiError(
        f"{who}: duplicate IDs in rows {shown}{more} (counted from 0)",
        hint="two raw forms with one normal form count as duplicates; keep one row per ID",
    )
