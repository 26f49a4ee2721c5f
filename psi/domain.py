"""Domain separation: unambiguous byte strings at the start of the input of every hash function.

A byte string consists of a label, followed by the parts. The length of each part precedes the part,
so different labels or parts never give the same byte string.
"""

import hashlib
from collections.abc import Iterable


def length_prefixed(parts: Iterable[bytes]) -> bytes:
    """Join ``parts``, each preceded by the length of the part as four big-endian bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def labelled_bytes(label: str, *parts: bytes) -> bytes:
    """The unambiguous byte string of ``label`` and ``parts``."""
    return f"vfl/psi/{label}/v1\n".encode() + length_prefixed(parts)


def labelled_digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of ``labelled_bytes(label, *parts)``: 32 bytes."""
    return hashlib.sha256(labelled_bytes(label, *parts)).digest()


def uint64_bytes(value: int) -> bytes:
    """``value`` as eight big-endian bytes."""
    return value.to_bytes(8, "big")
