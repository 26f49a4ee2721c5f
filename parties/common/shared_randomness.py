"""Shared pseudo-randomness: all parties derive equal numbers from the agreement's seed.

Random words are read from an AES-CTR keystream. A random order of rows is made by sorting one
random word per row. The same agreement therefore gives the same split and the same sequence of
batches with every version of NumPy and torch.
"""

from collections.abc import Sequence
from hashlib import sha256
from hmac import digest as hmac

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Index = NDArray[np.int64]
Words = NDArray[np.uint64]


def derive_key(seed: int, *purpose: str | int) -> bytes:
    """Return a key of 32 bytes for one seed and one purpose."""
    words = [_encoded(word) for word in (seed, *purpose)]
    framed = b"".join(len(word).to_bytes(4, "big") + word for word in words)
    return sha256(b"vfl/schedule/v1\n" + framed).digest()


def torch_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed of 63 bits for a torch generator."""
    return int.from_bytes(derive_key(seed, *purpose)[:8], "big") >> 1


def permutation(key: bytes, count: int) -> Index:
    """Return a random permutation of 0 to ``count - 1``, ``[count]``."""
    return _ascending(random_words(key, count))


def random_words(key: bytes, count: int) -> NDArray[np.uint64]:
    """Return uniformly random words of 64 bits, ``[count]``."""
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), "<u8")


def normal_draws(key: bytes, count: int) -> NDArray[np.float64]:
    """Return samples from the standard normal distribution, ``[count]``.

    The method is that of Box and Muller, "A Note on the Generation of Random Normal Deviates"
    (1958).
    """
    half = (count + 1) // 2
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(encryptor.update(bytes(16 * half)), "<u8").reshape(2, half)
    # 53 bits each; the first in (0, 1], since its logarithm is taken.
    first, second = (words[0] >> 11) + 1.0, (words[1] >> 11) + 0.0
    radius, angle = np.sqrt(-2.0 * np.log(first / 2.0**53)), second * (2.0 * np.pi / 2.0**53)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def random_id_words(key: bytes, ids: Sequence[bytes]) -> Words:
    """Return 64 pseudo-random bits per ID, ``[ids]``; all parties get the same bits for an ID."""
    return np.frombuffer(b"".join(hmac(key, each, "sha256")[:8] for each in ids), "<u8")


def keyed_order(key: bytes, words: Words) -> Index:
    """Return a pseudo-random order of rows.

    Which of two rows comes first depends only on ``key`` and on the ``words`` of these two rows.

    Args:
        key: 32 bytes.
        words: one random number of 64 bits per row, ``[rows]``.

    Returns:
        Row positions in the new order, ``[rows]``.
    """
    blocks = np.zeros((len(words), 2), "<u8")
    blocks[:, 0] = words
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305  each is other
    return _ascending(np.frombuffer(encryptor.update(blocks.tobytes()), "<u8").reshape(-1, 2)[:, 0])


def id_fractions(key: bytes, ids: Sequence[bytes]) -> NDArray[np.float64]:
    """Return a number in [0, 1) per ID, ``[ids]``; all parties get the same number for an ID."""
    words = [hmac(key, identifier, "sha256")[:8] for identifier in ids]
    return np.frombuffer(b"".join(words), ">u8") / 2.0**64


def _ascending(drawn: Words) -> Index:
    """Return positions that sort ``drawn``, ``[n]``; equal words keep their order.

    The stable sort is many times slower, and differs only if two words are equal.
    """
    order = np.argsort(drawn)
    ordered = drawn[order]
    has_equal = bool((ordered[1:] == ordered[:-1]).any())
    return np.argsort(drawn, kind="stable") if has_equal else order


def _encoded(word: str | int) -> bytes:
    return word.encode() if isinstance(word, str) else b"#%d" % word
