"""Shared randomness: what every party must draw alike without a message, from the seed alone.

Keystreams are AES-CTR and orders are sorted keystream words, so that the same agreement gives the
same split and the same batches whatever the versions of NumPy and torch.
"""

from collections.abc import Sequence
from hashlib import sha256
from hmac import digest as hmac

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Index = NDArray[np.int64]
Words = NDArray[np.uint64]


def key(seed: int, *purpose: str | int) -> bytes:
    """32 bytes that only this seed and purpose give."""
    words = [_encoded(word) for word in (seed, *purpose)]
    framed = b"".join(len(word).to_bytes(4, "big") + word for word in words)
    return sha256(b"vfl/schedule/v1\n" + framed).digest()


def torch_seed(seed: int, *purpose: str | int) -> int:
    """A seed for torch's generators."""
    return int.from_bytes(key(seed, *purpose)[:8], "big") >> 1


def permutation(key: bytes, count: int) -> Index:
    """A random order of ``count`` things."""
    return _ascending(words(key, count))


def words(key: bytes, count: int) -> NDArray[np.uint64]:
    """``count`` uniform words of 64 bits."""
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), "<u8")


def normals(key: bytes, count: int) -> NDArray[np.float64]:
    """``count`` draws from the standard normal distribution, by Box and Muller."""
    half = (count + 1) // 2
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(encryptor.update(bytes(16 * half)), "<u8").reshape(2, half)
    # 53 bits each; the first in (0, 1], since its logarithm is taken.
    first, second = (words[0] >> 11) + 1.0, (words[1] >> 11) + 0.0
    radius, angle = np.sqrt(-2.0 * np.log(first / 2.0**53)), second * (2.0 * np.pi / 2.0**53)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def id_words(key: bytes, ids: Sequence[bytes]) -> Words:
    """64 random bits for every ID: the same at every party that holds the ID."""
    return np.frombuffer(b"".join(hmac(key, each, "sha256")[:8] for each in ids), "<u8")


def in_order(key: bytes, words: Words) -> Index:
    """A random order of things by their words: that of two is the same whatever else there is."""
    blocks = np.zeros((len(words), 2), "<u8")
    blocks[:, 0] = words
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305  each is other
    return _ascending(np.frombuffer(encryptor.update(blocks.tobytes()), "<u8").reshape(-1, 2)[:, 0])


def shares(key: bytes, ids: Sequence[bytes]) -> NDArray[np.float64]:
    """A number in [0, 1) for every ID: the same at every party that holds the ID."""
    words = [hmac(key, identifier, "sha256")[:8] for identifier in ids]
    return np.frombuffer(b"".join(words), ">u8") / 2.0**64


def _ascending(drawn: Words) -> Index:
    """Where the words stand from the lowest to the highest, equal ones as they came.

    The stable sort is many times slower, and differs only where two words are equal.
    """
    order = np.argsort(drawn)
    found = drawn[order]
    return np.argsort(drawn, kind="stable") if bool((found[1:] == found[:-1]).any()) else order


def _encoded(word: str | int) -> bytes:
    return word.encode() if isinstance(word, str) else b"#%d" % word
