"""AES over whole arrays: a keyed permutation of blocks and a keystream."""

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from psi.shared_types import Bytes

BLOCK = 16
KEY_BYTES = 16


def encrypted(key: bytes, blocks: Bytes) -> Bytes:
    """AES-128 of every row of ``blocks`` by itself: [n, 16] uint8 → [n, 16] uint8."""
    # ECB is what is wanted: the rows are distinct, and AES serves as a pseudorandom function of one
    # block, not as a mode that hides a text.
    cipher = Cipher(algorithms.AES128(key), modes.ECB())  # noqa: S305
    out = np.empty(blocks.size + BLOCK, np.uint8)
    cipher.encryptor().update_into(blocks.data, out.data)
    return out[: blocks.size].reshape(blocks.shape)


def keystream(key: bytes, size: int) -> Bytes:
    """The first ``size`` bytes of AES-128-CTR from counter 0; ``key`` is used for this alone."""
    out = np.empty(size + BLOCK, np.uint8)
    encryptor = Cipher(algorithms.AES128(key), modes.CTR(bytes(BLOCK))).encryptor()
    encryptor.update_into(np.zeros(size, np.uint8).data, out.data)
    return out[:size]


def scaled(words: npt.NDArray[np.uint32], limit: int) -> npt.NDArray[np.int64]:
    """Map uniform 32-bit words to [0, limit): ⌊word · limit / 2³²⌋.

    No value has more than ⌈2³² / limit⌉ of the 2³² words.
    """
    wide = words.astype(np.uint64)
    wide *= np.uint64(limit)
    wide >>= np.uint64(32)
    return wide.view(np.int64)
