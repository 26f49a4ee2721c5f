"""Zero sharing: values of the members that cancel on a row that all of them hold.

Kolesnikov, Matania, Pinkas, Rosulek and Trieu (KMPRT, CCS 2017), unconditional zero-sharing: every
two members share a key K_ij, and z_i(x) = ⊕_{j≠i} F(K_ij, x), so ⊕_i z_i(x) = 0.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from psi.aes import KEY_BYTES, encrypted
from psi.domain import framed
from psi.errors import PsiError
from psi.shared_types import Bytes

SHARE_BYTES = 32


def pair_key(
    private: X25519PrivateKey, shares: Mapping[str, bytes], session: bytes, names: tuple[str, str]
) -> bytes:
    """K_ij between ``names`` = (own, other), from both public shares: 16 bytes, equal on both.

    Raises:
        PsiError: the other's share has no Diffie-Hellman result (a point of small order).
    """
    try:
        secret = private.exchange(X25519PublicKey.from_public_bytes(shares[names[1]]))
    except ValueError:
        raise PsiError(f"{names[1]}: its public share is a point of small order") from None
    parts = [part for name in sorted(names) for part in (name.encode(), shares[name])]
    return HKDF(SHA256(), KEY_BYTES, salt=session, info=framed("zero-share", *parts)).derive(secret)


def zero_shares(keys: Iterable[bytes], hashes: Bytes, size: int) -> Bytes:
    """z_i(x) for every row x: [n, size] uint8, with F = AES of h(x) under each pair key."""
    total = np.zeros((len(hashes), size), np.uint8)
    for key in keys:
        total ^= encrypted(key, hashes)[:, :size]
    return total
