"""Domain separation: the unambiguous byte strings that every hash and derived key starts with.

A byte string is a label, and then each part after its length. Two different lists of label and
parts never give the same byte string.
"""

import hashlib
from collections.abc import Iterable


def length_prefixed(parts: Iterable[bytes]) -> bytes:
    """Join ``parts``, each after its length as four bytes, most significant first."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def labelled_bytes(label: str, *parts: bytes) -> bytes:
    """The unambiguous byte string of ``label`` and ``parts``."""
    return f"vfl/psi/{label}/v1\n".encode() + length_prefixed(parts)


def labelled_digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of ``labelled_bytes(label, *parts)``: 32 bytes."""
    return hashlib.sha256(labelled_bytes(label, *parts)).digest()


def uint64_bytes(value: int) -> bytes:
    """``value`` as eight bytes, most significant first."""
    return value.to_bytes(8, "big")
