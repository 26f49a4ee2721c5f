"""Keys of a masked sum: a client's secrets and public keys, and the keys of pairs of clients."""

from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Entropy = Callable[[int], bytes]
SECRET_BYTES, KEY_BYTES = 32, 16  # bytes


@dataclass(frozen=True, slots=True)
class MaskPublicKeys:
    """A client's X25519 public keys for one sum, 32 bytes each; the client signs both keys."""

    masking: bytes  # the key from which the pairwise masks are derived
    sealing: bytes  # the key from which the keys that encrypt the shares are derived


def public_key_of(secret: bytes) -> bytes:
    """Return the X25519 public key for the private key ``secret``, which has 32 bytes."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def pair_key(secret: bytes, theirs: bytes, purpose: bytes) -> bytes:
    """Return the key of 16 bytes that both clients of a pair derive.

    Raises:
        ValueError: ``theirs`` is not a secure public key, but a point of small order.
    """
    private = X25519PrivateKey.from_private_bytes(secret)
    shared = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    first, second = sorted((public_key_of(secret), theirs))
    info = b"vfl/masking/v1\n" + purpose + first + second
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(shared)
