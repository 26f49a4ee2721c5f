"""AES-128 on whole arrays: encryption of single blocks, and a keystream."""

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from psi.shared_types import Bytes

AES_BLOCK_BYTES = 16
KEY_BYTES = 16


def encrypt_blocks(key: bytes, blocks: Bytes) -> Bytes:
    """Encrypt each row of ``blocks`` [n, 16] as one AES-128 block; the result is [n, 16] uint8."""
    # ECB is intended: the rows are distinct, and AES serves as a pseudorandom function of one
    # block, not as a mode of encryption for a text.
    cipher = Cipher(algorithms.AES128(key), modes.ECB())  # noqa: S305
    out = np.empty(blocks.size + AES_BLOCK_BYTES, np.uint8)
    cipher.encryptor().update_into(blocks.data, out.data)
    return out[: blocks.size].reshape(blocks.shape)


def aes_keystream(key: bytes, size: int) -> Bytes:
    """The first ``size`` bytes of the AES-128-CTR keystream from counter 0: [size] uint8.

    Every ``key`` must be used for one keystream only.
    """
    out = np.empty(size + AES_BLOCK_BYTES, np.uint8)
    encryptor = Cipher(algorithms.AES128(key), modes.CTR(bytes(AES_BLOCK_BYTES))).encryptor()
    encryptor.update_into(np.zeros(size, np.uint8).data, out.data)
    return out[:size]


def scale_words(words: npt.NDArray[np.uint32], limit: int) -> npt.NDArray[np.int64]:
    """Map each uniform 32-bit word, in an array of any shape, to ⌊word · limit / 2³²⌋ < limit.

    At most ⌈2³² / limit⌉ of the 2³² words are mapped to the same value.
    """
    wide = words.astype(np.uint64)
    wide *= np.uint64(limit)
    wide >>= np.uint64(32)
    return wide.view(np.int64)
