"""ristretto255 with every argument checked: the only door to the group library.

The group has prime order, one encoding per element and no cofactor. `rbcl` wraps libsodium and
releases the GIL; group operations come from there, never from us (ruling 14).
"""

import hashlib

import rbcl  # type: ignore[import-untyped]

from psi.errors import PsiError

POINT_BYTES = 32
UNIFORM_BYTES = 64
IDENTITY = bytes(POINT_BYTES)


def _sized(value: bytes, size: int, what: str) -> bytes:
    if len(value) != size:
        raise PsiError(f"{what} has {len(value)} bytes, legal is {size}")
    return value


def random_scalar(uniform: bytes) -> bytes:
    """64 uniform bytes modulo the group order: 32 bytes, bias below 2⁻²⁵⁰."""
    scalar = rbcl.crypto_core_ristretto255_scalar_reduce(_sized(uniform, UNIFORM_BYTES, "a scalar"))
    return bytes(scalar)


def random_point(uniform: bytes) -> bytes:
    """64 uniform bytes to a group element whose logarithm nobody knows (RFC 9496, 4.3.4)."""
    point = rbcl.crypto_core_ristretto255_from_hash(_sized(uniform, UNIFORM_BYTES, "a hash"))
    return bytes(point)


def hashed_point(text: bytes) -> bytes:
    """The random oracle into the group: SHA-512, then `random_point`."""
    return random_point(hashlib.sha512(text).digest())


def generated(scalar: bytes) -> bytes:
    """scalar · G."""
    return bytes(rbcl.crypto_scalarmult_ristretto255_base(_sized(scalar, 32, "a scalar")))


def multiplied(scalar: bytes, point: bytes) -> bytes:
    """scalar · point.

    Raises:
        PsiError: the result is the identity, or ``point`` is no canonical encoding.
    """
    _sized(scalar, 32, "a scalar")
    try:
        return bytes(rbcl.crypto_scalarmult_ristretto255(scalar, checked(point)))
    except RuntimeError:
        raise PsiError("a scalar multiplication gave the identity") from None


def added(left: bytes, right: bytes) -> bytes:
    """left + right, of two checked points."""
    return bytes(rbcl.crypto_core_ristretto255_add(left, right))


def subtracted(left: bytes, right: bytes) -> bytes:
    """left − right, of two checked points."""
    return bytes(rbcl.crypto_core_ristretto255_sub(left, right))


def checked(point: bytes) -> bytes:
    """Return ``point`` if it is the canonical encoding of an element other than the identity.

    Raises:
        PsiError: it is not.
    """
    if _sized(point, POINT_BYTES, "a point") == IDENTITY:
        raise PsiError("the identity point is not allowed")
    if rbcl.crypto_core_ristretto255_is_valid_point(point) != 1:
        raise PsiError("not the canonical encoding of a point")
    return point


def read_points(data: bytes, count: int, who: str, step: str) -> list[bytes]:
    """Cut ``data`` into ``count`` checked points; ``who`` sent them at ``step``.

    Raises:
        PsiError: wrong length, a non-canonical encoding or the identity.
    """
    if len(data) != count * POINT_BYTES:
        raise PsiError(
            f"{who}: {step} has {len(data)} bytes of points, legal are {count * POINT_BYTES}",
            hint="both sides must declare the same set sizes",
        )
    points = [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]
    for position, point in enumerate(points):
        try:
            checked(point)
        except PsiError as error:
            raise PsiError(f"{who}: {step}, point {position}: {error}") from None
    return points
