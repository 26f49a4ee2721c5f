"""Vectors as whole numbers modulo 2^64, in which masks cancel exactly."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
MOST = 2.0**62  # of a sum, so that its sign is known


class Overflow(ValueError):
    """A number is too large for its place in the sum."""


def encoded(values: Floats, bits: int, members: int, most: float = MOST) -> Words:
    """Round to multiples of 2^-``bits``; the sum of so many members' vectors still fits ``most``.

    Raises:
        Overflow: a value is too large, or not finite.
    """
    scaled = np.rint(values * 2.0**bits)
    bound = most / members
    if not bool((np.abs(scaled) < bound).all()):
        raise Overflow(f"a value is not finite or beyond {bound / 2.0**bits:.3g}")
    return scaled.astype(np.int64).view(np.uint64)


def decoded(words: Words, bits: int) -> Floats:
    """The numbers that ``words`` stand for."""
    found: Floats = words.view(np.int64).astype(np.float64) / 2.0**bits
    return found


def keystream(key: bytes, count: int) -> Words:
    """``count`` words that only ``key``, of 16 bytes, gives; each key is used for one sum only."""
    encryptor = Cipher(algorithms.AES128(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), np.uint64)
