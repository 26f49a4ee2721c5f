"""IDs: normal form, fingerprints, hashes for one session, and the check for duplicates."""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from psi.aes import KEY_BYTES, encrypt_blocks
from psi.domain import labelled_bytes, labelled_digest, length_prefixed
from psi.errors import PsiError
from psi.id_list import CHUNK_IDS, chunked
from psi.shared_types import Bytes

HASH_BYTES = 16
NO_FINGERPRINTS = np.empty((0, HASH_BYTES), np.uint8)
SHOWN_PAIRS = 5  # of duplicate rows in an error


def normalise(text: str) -> bytes:
    """The normal form of an ID: NFKC, surrounding white space removed, UTF-8.

    Letter case and number formats are not changed.

    Raises:
        PsiError: the normal form is empty, or ``text`` has no UTF-8 form (a lone surrogate).
    """
    try:
        normal = unicodedata.normalize("NFKC", text).strip().encode()
    except UnicodeEncodeError:
        raise PsiError("an ID is not valid Unicode text", hint="read the file as UTF-8") from None
    if not normal:
        raise PsiError("an ID is empty", hint="drop rows without an ID before the intersection")
    return normal


def join_columns(parts: Sequence[bytes]) -> bytes:
    """Join the normalised values of several columns into one ID.

    The length of each value precedes the value, so that ("ab", "c") and ("a", "bc") give different
    IDs.

    Raises:
        PsiError: ``parts`` is empty.
    """
    if not parts:
        raise PsiError("the list of ID columns is empty", hint="name at least one ID column")
    return length_prefixed(parts)


def fingerprint_ids(ids: Iterable[bytes], salt: bytes = b"") -> Iterator[Bytes]:
    """The fingerprint SHA-256(domain ‖ salt ‖ x)[:16] of each ID x, as chunks of [n, 16] uint8.

    A fingerprint is the same in every session. Therefore fingerprints must not be sent to another
    party. The result is an iterator of chunks, so the fingerprints of all IDs need not fit into
    memory.
    """
    start = hashlib.sha256(labelled_bytes("id", salt))

    def digest_of(identity: bytes) -> bytes:
        state = start.copy()
        state.update(identity)
        return state.digest()

    for chunk in chunked(ids, CHUNK_IDS):
        digests = np.frombuffer(b"".join(map(digest_of, chunk)), np.uint8)
        yield np.ascontiguousarray(digests.reshape(len(chunk), -1)[:, :HASH_BYTES])


def bind_to_session(fingerprints: Bytes, session: bytes) -> Bytes:
    """Return the session hash h(x), [n, 16] uint8, for each of ``fingerprints``, also [n, 16].

    All parties of a session get the same values. h is AES under a key that is derived from the
    session id. AES is a permutation, so different fingerprints have different values h(x). Without
    the fingerprints, the values of two sessions cannot be linked.
    """
    key = labelled_digest("id-session", session)[:KEY_BYTES]
    return encrypt_blocks(key, np.ascontiguousarray(fingerprints))


def session_hashes(ids: Iterable[bytes], session: bytes, salt: bytes = b"") -> Bytes:
    """Return the session hash h(x) of each of the n ``ids``; the result is [n, 16] uint8."""
    return bind_to_session(np.concatenate([NO_FINGERPRINTS, *fingerprint_ids(ids, salt)]), session)


def refuse_duplicates(
    fingerprints: Bytes, who: str, rows: npt.NDArray[np.integer[Any]] | None = None
) -> None:
    """Check that all fingerprints of a party are different.

    Args:
        fingerprints: the fingerprints of the party's IDs, [n, 16] uint8.
        who: the party's name, for the error message.
        rows: the row number of each fingerprint, [n]; by default 0 to n - 1.

    Raises:
        PsiError: two fingerprints are equal. The error contains row numbers, but no ID.
    """
    words = fingerprints.view("<u8")
    sorted_words = np.sort(words[:, 0])
    if not (sorted_words[1:] == sorted_words[:-1]).any():
        return
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable: equal fingerprints keep their order
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (words[order][1:] != words[order][:-1]).any(axis=1)
    first = order[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
    numbers = np.arange(len(fingerprints)) if rows is None else rows
    pairs = sorted(zip(numbers[order[~fresh]], numbers[first[~fresh]], strict=True))
    if not pairs:
        return
    shown = ", ".join(f"{a} and {b}" for b, a in pairs[:SHOWN_PAIRS])
    more = f" and {len(pairs) - SHOWN_PAIRS} more pairs" if len(pairs) > SHOWN_PAIRS else ""
    raise PsiError(
        f"{who}: duplicate IDs in rows {shown}{more} (counted from 0)",
        hint="two raw forms with one normal form count as duplicates; keep one row per ID",
    )
