"""Domain separation: byte strings that mean one thing only.

Every hash and every derived key of this package starts with `framed`: a label, then each part
behind its length. Two different (label, parts) never give the same bytes.
"""

import hashlib
from collections.abc import Iterable


def length_prefixed(parts: Iterable[bytes]) -> bytes:
    """Join ``parts``, each behind its length as four bytes, most significant first."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def framed(label: str, *parts: bytes) -> bytes:
    """The unambiguous byte string of ``label`` and ``parts``."""
    return f"vfl/psi/{label}/v1\n".encode() + length_prefixed(parts)


def digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of ``framed(label, *parts)``: 32 bytes."""
    return hashlib.sha256(framed(label, *parts)).digest()


def number(value: int) -> bytes:
    """``value`` as eight bytes, most significant first."""
    return value.to_bytes(8, "big")
