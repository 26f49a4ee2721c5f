"""Fixed-point numbers modulo 2^64; in sums of such numbers, masks cancel exactly."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
MAX_FIXED_POINT = 2.0**62  # bound on a sum, so that its sign is known


class FixedPointOverflow(ValueError):
    """A number exceeds the range that one member of a sum may use."""


def encode_fixed_point(
    values: Floats, bits: int, members: int, most: float = MAX_FIXED_POINT
) -> Words:
    """Encode values, ``[n]``, as whole multiples of 2^-``bits`` modulo 2^64, ``[n]``.

    Each encoded value must be smaller than ``most / members`` in absolute value; then a sum over
    ``members`` clients is smaller than ``most``.

    Raises:
        FixedPointOverflow: a value is too large, or not finite.
    """
    scaled = np.rint(values * 2.0**bits)
    bound = most / members
    if not bool((np.abs(scaled) < bound).all()):
        raise FixedPointOverflow(
            f"a value is not finite, or its absolute value exceeds {bound / 2.0**bits:.3g}"
        )
    return scaled.astype(np.int64).view(np.uint64)


def decode_fixed_point(words: Words, bits: int) -> Floats:
    """Decode fixed-point numbers, ``[n]``, and return their values, ``[n]``."""
    found: Floats = words.view(np.int64).astype(np.float64) / 2.0**bits
    return found


def mask_keystream(key: bytes, count: int) -> Words:
    """Return ``count`` pseudorandom words, ``[count]``, derived from a key of 16 bytes.

    Each key is used for one sum only.
    """
    encryptor = Cipher(algorithms.AES128(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), np.uint64)
