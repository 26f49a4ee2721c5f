"""CKKS by TenSEAL: contexts, ciphertexts, and the checks that TenSEAL does not make.

TenSEAL accepts empty bytes as a ciphertext. With a wrong key, TenSEAL's decryption returns noise
and raises no error. TenSEAL also serialises secret keys by default. This module fixes the
encryption parameters as constants, and refuses a peer's context that has other parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from struct import Struct
from typing import Any

import numpy as np
import tenseal
from numpy.typing import NDArray

DEGREE = 8192  # of the polynomials; with 120 bits of modulus far beyond 128 bits of security
SLOTS = DEGREE // 2
MODULI = (60, 60)  # bits: one for the numbers, one that only keys use; there is no room to multiply
SCALE = 2.0**22  # of the number 1; the noise of a sum of 200 ciphertexts was below 0.03
MAX_SUM = 2.0**37  # of a number in a sum: the modulus divided by the scale, with a sign
ROUNDING_TOLERANCE = 0.25  # largest distance from a whole number
MAX_CIPHERTEXT_BYTES = 2 * DEGREE * 8 + 4096  # bytes of a ciphertext
MAX_CONTEXT_BYTES = (
    4 * DEGREE * 8 + 4096
)  # of a context with its public key: two polynomials, two primes
_FAULTS = (ValueError, RuntimeError, TypeError, IndexError, OverflowError, MemoryError)
_LENGTH = Struct("<I")

Numbers = NDArray[np.int64]


class CkksError(ValueError):
    """A key or a ciphertext of a sum is invalid, or a step of the sum is not allowed."""


@dataclass(frozen=True, slots=True)
class CkksKeys:
    """A new key pair; each key is stored in a serialised TenSEAL context."""

    public: bytes
    secret: bytes = field(repr=False)


def make_keys() -> CkksKeys:
    """Return a new key pair."""
    context = _fresh()
    return CkksKeys(_serialise(context, public=True), _serialise(context, secret=True))


def load_public_context(data: bytes) -> Any:
    """Load a public TenSEAL context, which can make and add ciphertexts.

    Raises:
        CkksError: the bytes are not a context, the context has a secret key, or the parameters of
            the context are not the agreed parameters.
    """
    context = _read(data)
    if context.has_secret_key():
        raise CkksError("the CKKS context contains a secret key, but must be public")
    if not context.has_public_key():
        raise CkksError("the CKKS context contains no public key")
    return context


def load_secret_context(data: bytes) -> Any:
    """Load a TenSEAL context with a secret key, for decryption.

    Raises:
        CkksError: the bytes are not a context, the context has no secret key, or the parameters of
            the context are not the agreed parameters.
    """
    context = _read(data)
    if not context.has_secret_key():
        raise CkksError("the CKKS context contains no secret key")
    return context


def encrypt(context: Any, rows: Numbers) -> bytes:
    """Encrypt whole numbers, ``[count, SLOTS]``; return ciphertexts with their lengths.

    The length of each ciphertext precedes the ciphertext.
    """
    found = (tenseal.ckks_vector(context, row.astype(np.float64).tolist(), SCALE) for row in rows)
    return join_ciphertexts([each.serialize() for each in found])


def join_ciphertexts(ciphers: Sequence[bytes]) -> bytes:
    """Join ciphertexts to one byte string, in which the length precedes each ciphertext."""
    return b"".join(_LENGTH.pack(len(each)) + each for each in ciphers)


def load_ciphertexts(context: Any, data: bytes, count: int) -> list[Any]:
    """Load ``count`` ciphertexts.

    Raises:
        CkksError: the number of ciphertexts is wrong, or a ciphertext is truncated, is empty, or
            does not have the agreed parameters.
    """
    found = [_cipher(context, each) for each in _split(data)]
    if len(found) != count:
        raise CkksError(f"got {len(found)} ciphertexts, expected {count}")
    return found


def decrypt(context: Any, data: bytes, count: int) -> Numbers:
    """Decrypt ``count`` ciphertexts to whole numbers, ``[count, SLOTS]``.

    Raises:
        CkksError: the ciphertexts belong to another key, or were changed.
    """
    found = load_ciphertexts(context, data, count)
    try:
        rows = np.array([each.decrypt() for each in found])
    except _FAULTS as error:
        raise CkksError(f"the ciphertexts cannot be decrypted: {error}") from error
    whole = np.rint(rows)
    if not bool((np.abs(whole) <= MAX_SUM).all()):
        raise CkksError(
            "a decrypted number is out of range: the key is wrong, or the sum was changed"
        )
    if not bool((np.abs(rows - whole) <= ROUNDING_TOLERANCE).all()):
        raise CkksError(
            "a decrypted number is not a whole number: the key is wrong, or the sum was changed"
        )
    numbers: Numbers = whole.astype(np.int64)
    return numbers


def max_ciphertext_bytes(count: int) -> int:
    """Return the maximum size of ``count`` ciphertexts in bytes."""
    return count * (MAX_CIPHERTEXT_BYTES + _LENGTH.size)


def _split(data: bytes) -> Iterator[bytes]:
    places = [0]
    while places[-1] < len(data):
        if len(data) - places[-1] < _LENGTH.size:
            raise CkksError("a ciphertext is truncated")
        (size,) = _LENGTH.unpack_from(data, places[-1])
        if not 0 < size <= MAX_CIPHERTEXT_BYTES:
            raise CkksError(f"a ciphertext has {size} bytes, expected 1 to {MAX_CIPHERTEXT_BYTES}")
        places.append(places[-1] + _LENGTH.size + size)
    if places[-1] != len(data):
        raise CkksError("a ciphertext is truncated")
    for start, end in pairwise(places):
        yield data[start + _LENGTH.size : end]


def _cipher(context: Any, data: bytes) -> Any:
    try:
        found = tenseal.ckks_vector_from(context, data)
        parts = found.ciphertext()
    except _FAULTS as error:
        raise CkksError(
            f"the bytes are not a ciphertext with the agreed parameters: {error}"
        ) from error
    if found.size() != SLOTS or len(parts) != 1:
        raise CkksError(f"a ciphertext has {found.size()} numbers, expected {SLOTS}")
    only = parts[0]
    shape = (only.size(), only.coeff_modulus_size(), only.poly_modulus_degree(), only.scale)
    if shape != (2, 1, DEGREE, SCALE) or only.is_transparent():
        raise CkksError(
            f"a ciphertext has the parameters {shape}, expected {(2, 1, DEGREE, SCALE)}"
        )
    return found


def _read(data: bytes) -> Any:
    if not 0 < len(data) <= MAX_CONTEXT_BYTES:
        raise CkksError(
            f"the CKKS context has {len(data)} bytes, expected 1 to {MAX_CONTEXT_BYTES}"
        )
    try:
        context = tenseal.context_from(data, n_threads=1)
        theirs = _serialise(context)
    except _FAULTS as error:
        raise CkksError(f"the bytes are not a CKKS context: {error}") from error
    if theirs != _agreed() or context.has_galois_keys() or context.has_relin_keys():
        raise CkksError("the CKKS context does not have the agreed parameters")
    return context


@cache
def _agreed() -> bytes:
    """The parameters as a serialised context without keys."""
    return _serialise(_fresh())


def _fresh() -> Any:
    return tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=list(MODULI), n_threads=1
    )


def _serialise(context: Any, *, public: bool = False, secret: bool = False) -> bytes:
    found: bytes = context.serialize(
        save_public_key=public,
        save_secret_key=secret,
        save_galois_keys=False,
        save_relin_keys=False,
    )
    return found
