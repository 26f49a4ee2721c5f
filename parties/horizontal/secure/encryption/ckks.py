"""CKKS by TenSEAL: contexts, ciphertexts, and every check that TenSEAL leaves to its callers.

It takes empty bytes for a ciphertext, decrypts with another key to noise without a word, and puts
secret keys wherever it is not told otherwise. Parameters are those below and never a peer's.
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
SCALE = 2.0**22  # of one; the noise of 200 ciphertexts together was below 0.03
MOST = 2.0**37  # of a number in a sum: the modulus over the scale, and its sign
AWAY = 0.25  # from a whole number: further is no rounding error
LARGEST = 2 * DEGREE * 8 + 4096  # bytes of a ciphertext
LARGEST_KEY = 4 * DEGREE * 8 + 4096  # of a context with its public key: two polynomials, two primes
_FAULTS = (ValueError, RuntimeError, TypeError, IndexError, OverflowError, MemoryError)
_LENGTH = Struct("<I")

Numbers = NDArray[np.int64]


class CkksError(ValueError):
    """What came is no key or ciphertext of this sum."""


@dataclass(frozen=True, slots=True)
class Keys:
    """A new key, as contexts."""

    public: bytes
    secret: bytes = field(repr=False)


def make_keys() -> Keys:
    """A key that nobody has yet."""
    context = _fresh()
    return Keys(_said(context, public=True), _said(context, secret=True))


def read_public(data: bytes) -> Any:
    """The context to encrypt and add in.

    Raises:
        CkksError: it has a secret key, other parameters, or is no context.
    """
    context = _read(data)
    if context.has_secret_key():
        raise CkksError("a context with a secret key where none may be")
    if not context.has_public_key():
        raise CkksError("a context without a public key")
    return context


def read_secret(data: bytes) -> Any:
    """The context to open a sum in.

    Raises:
        CkksError: it has no secret key, other parameters, or is no context.
    """
    context = _read(data)
    if not context.has_secret_key():
        raise CkksError("a context without a secret key where one must be")
    return context


def encrypt(context: Any, rows: Numbers) -> bytes:
    """Ciphertexts of whole numbers, ``[count, SLOTS]``, each behind its length."""
    found = (tenseal.ckks_vector(context, row.astype(np.float64).tolist(), SCALE) for row in rows)
    return joined([each.serialize() for each in found])


def joined(ciphers: Sequence[bytes]) -> bytes:
    """Ciphertexts as one text."""
    return b"".join(_LENGTH.pack(len(each)) + each for each in ciphers)


def read_ciphers(context: Any, data: bytes, count: int) -> list[Any]:
    """So many ciphertexts.

    Raises:
        CkksError: they are more or fewer, truncated, empty, or of other parameters.
    """
    found = [_cipher(context, each) for each in _split(data)]
    if len(found) != count:
        raise CkksError(f"{len(found)} ciphertexts; there must be {count}")
    return found


def decrypt(context: Any, data: bytes, count: int) -> Numbers:
    """The whole numbers in ciphertexts, ``[count, SLOTS]``.

    Raises:
        CkksError: they are of another key, or were changed.
    """
    found = read_ciphers(context, data, count)
    try:
        rows = np.array([each.decrypt() for each in found])
    except _FAULTS as error:
        raise CkksError(f"ciphertexts that do not decrypt: {error}") from error
    whole = np.rint(rows)
    if not bool((np.abs(whole) <= MOST).all()):
        raise CkksError("a number of the sum is beyond its range: another key, or it was changed")
    if not bool((np.abs(rows - whole) <= AWAY).all()):
        raise CkksError("a number of the sum is no whole number: another key, or it was changed")
    numbers: Numbers = whole.astype(np.int64)
    return numbers


def longest(count: int) -> int:
    """Bytes that so many ciphertexts may take."""
    return count * (LARGEST + _LENGTH.size)


def _split(data: bytes) -> Iterator[bytes]:
    places = [0]
    while places[-1] < len(data):
        if len(data) - places[-1] < _LENGTH.size:
            raise CkksError("a truncated ciphertext")
        (size,) = _LENGTH.unpack_from(data, places[-1])
        if not 0 < size <= LARGEST:
            raise CkksError(f"a ciphertext of {size} bytes; legal: 1 to {LARGEST}")
        places.append(places[-1] + _LENGTH.size + size)
    if places[-1] != len(data):
        raise CkksError("a truncated ciphertext")
    for start, end in pairwise(places):
        yield data[start + _LENGTH.size : end]


def _cipher(context: Any, data: bytes) -> Any:
    try:
        found = tenseal.ckks_vector_from(context, data)
        parts = found.ciphertext()
    except _FAULTS as error:
        raise CkksError(f"no ciphertext of the agreed parameters: {error}") from error
    if found.size() != SLOTS or len(parts) != 1:
        raise CkksError(f"a ciphertext of {found.size()} numbers; it must be {SLOTS}")
    only = parts[0]
    shape = (only.size(), only.coeff_modulus_size(), only.poly_modulus_degree(), only.scale)
    if shape != (2, 1, DEGREE, SCALE) or only.is_transparent():
        raise CkksError(f"a ciphertext of the shape {shape}; it must be {(2, 1, DEGREE, SCALE)}")
    return found


def _read(data: bytes) -> Any:
    if not 0 < len(data) <= LARGEST_KEY:
        raise CkksError(f"a context of {len(data)} bytes; legal: 1 to {LARGEST_KEY}")
    try:
        context = tenseal.context_from(data, n_threads=1)
        theirs = _said(context)
    except _FAULTS as error:
        raise CkksError(f"no context of CKKS: {error}") from error
    if theirs != _agreed() or context.has_galois_keys() or context.has_relin_keys():
        raise CkksError("a context of other parameters than the agreed ones")
    return context


@cache
def _agreed() -> bytes:
    """The parameters, as a context without any key says them."""
    return _said(_fresh())


def _fresh() -> Any:
    return tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=list(MODULI), n_threads=1
    )


def _said(context: Any, *, public: bool = False, secret: bool = False) -> bytes:
    found: bytes = context.serialize(
        save_public_key=public,
        save_secret_key=secret,
        save_galois_keys=False,
        save_relin_keys=False,
    )
    return found
