"""ristretto255: the only door to the group library.

The group has prime order, one encoding per element and no cofactor. `rbcl` wraps libsodium and
refuses arguments of a wrong length; group operations come from there, never from us.
"""

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import rbcl

from psi.errors import PsiError

POINT_BYTES = 32
SCALAR_BYTES = 32
UNIFORM_BYTES = 64
IDENTITY = bytes(POINT_BYTES)


def random_scalar(uniform: bytes) -> bytes:
    """64 uniform bytes modulo the group order: 32 bytes, bias below 2⁻²⁵⁰."""
    return bytes(rbcl.crypto_core_ristretto255_scalar_reduce(uniform))


def random_point(uniform: bytes) -> bytes:
    """64 uniform bytes to an element whose logarithm nobody knows (RFC 9496, 4.3.4)."""
    return bytes(rbcl.crypto_core_ristretto255_from_hash(uniform))


def hashed_point(text: bytes) -> bytes:
    """The random oracle into the group: SHA-512, then `random_point`."""
    return random_point(hashlib.sha512(text).digest())


def generated(scalar: bytes) -> bytes:
    """The product scalar · G."""
    return bytes(rbcl.crypto_scalarmult_ristretto255_base(scalar))


def multiplied(scalar: bytes, point: bytes) -> bytes:
    """The product scalar · point.

    Raises:
        PsiError: ``point`` is no canonical encoding, or the result is the identity.
    """
    try:
        return bytes(rbcl.crypto_scalarmult_ristretto255(scalar, point))
    except RuntimeError:
        raise PsiError("a scalar multiplication left the group or gave the identity") from None


def inverted(scalars: Sequence[bytes]) -> list[bytes]:
    """1 / scalar for each of at least one non-zero scalars."""
    # Montgomery's trick: one inversion and three products a scalar, a fifth of the time.
    products = list(accumulate(scalars, rbcl.crypto_core_ristretto255_scalar_mul))
    rest = rbcl.crypto_core_ristretto255_scalar_invert(products[-1])
    backwards = []
    for scalar, before in zip(scalars[:0:-1], products[-2::-1], strict=True):
        backwards.append(rbcl.crypto_core_ristretto255_scalar_mul(rest, before))
        rest = rbcl.crypto_core_ristretto255_scalar_mul(rest, scalar)
    return [rest, *reversed(backwards)]


def response(nonce: bytes, challenge: bytes, secret: bytes) -> bytes:
    """The scalar nonce − challenge · secret, with which a Schnorr proof ends."""
    product = rbcl.crypto_core_ristretto255_scalar_mul(challenge, secret)
    return bytes(rbcl.crypto_core_ristretto255_scalar_sub(nonce, product))


def added(left: bytes, right: bytes) -> bytes:
    """The sum left + right of two points that `read_points` or this file made."""
    return bytes(rbcl.crypto_core_ristretto255_add(left, right))


def subtracted(left: bytes, right: bytes) -> bytes:
    """The difference left − right of two points that `read_points` or this file made."""
    return bytes(rbcl.crypto_core_ristretto255_sub(left, right))


def split(data: bytes, size: int = POINT_BYTES) -> list[bytes]:
    """Cut ``data`` into pieces of ``size`` bytes; the default gives points, or scalars."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def read_points(data: bytes, count: int, what: str, first: int = 0) -> list[bytes]:
    """Cut ``data`` into ``count`` canonical points; ``what`` names sender and step.

    Errors count points from ``first`` on.

    Raises:
        PsiError: wrong length, a non-canonical encoding or the identity.
    """
    if len(data) != count * POINT_BYTES:
        raise PsiError(
            f"{what} has {len(data)} bytes of points, legal are {count * POINT_BYTES}",
            hint="both sides must declare the same set sizes",
        )
    points = split(data)
    for position, point in enumerate(points, first):
        _refuse_bad_point(point, f"{what}, point {position}")
    return points


def _refuse_bad_point(point: bytes, what: str) -> None:
    if point == IDENTITY:
        raise PsiError(f"{what}: the identity is not allowed")
    if not rbcl.crypto_core_ristretto255_is_valid_point(point):
        raise PsiError(f"{what}: not the canonical encoding of a ristretto255 element")
