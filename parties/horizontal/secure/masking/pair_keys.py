"""Keys of a sum: a client's own, what it says of them, and what two clients derive from them."""

from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Entropy = Callable[[int], bytes]
SECRET, KEY = 32, 16  # bytes


@dataclass(frozen=True, slots=True)
class Publics:
    """What a client says of its keys, signed by its identity: 32 bytes each."""

    masking: bytes  # masks follow from it
    sealing: bytes  # shares are sealed under keys that follow from it


def public(secret: bytes) -> bytes:
    """The public part of a secret of 32 bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def pair_key(secret: bytes, theirs: bytes, purpose: bytes) -> bytes:
    """The key of 16 bytes that both ends of a pair derive.

    Raises:
        ValueError: ``theirs`` is a point of small order.
    """
    private = X25519PrivateKey.from_private_bytes(secret)
    shared = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    first, second = sorted((public(secret), theirs))
    info = b"vfl/masking/v1\n" + purpose + first + second
    return HKDF(SHA256(), KEY, salt=None, info=info).derive(shared)
