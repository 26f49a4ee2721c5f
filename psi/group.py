"""Operations in the group ristretto255. Only this module imports the group library `rbcl`.

The group has prime order, one encoding for each element and no cofactor. The library `rbcl` calls
libsodium for all group operations. The functions of `rbcl` refuse arguments of a wrong length.
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


def scalar_from_uniform(uniform: bytes) -> bytes:
    """Reduce 64 uniform bytes modulo the group order to a 32-byte scalar with bias below 2⁻²⁵⁰."""
    return bytes(rbcl.crypto_core_ristretto255_scalar_reduce(uniform))


def point_from_uniform(uniform: bytes) -> bytes:
    """Map 64 uniform bytes to a point of unknown discrete logarithm (RFC 9496, 4.3.4)."""
    return bytes(rbcl.crypto_core_ristretto255_from_hash(uniform))


def hash_to_point(text: bytes) -> bytes:
    """The random oracle into the group: SHA-512 of ``text``, mapped to a point."""
    return point_from_uniform(hashlib.sha512(text).digest())


def multiply_generator(scalar: bytes) -> bytes:
    """The product scalar · G of the generator G."""
    return bytes(rbcl.crypto_scalarmult_ristretto255_base(scalar))


def multiply_point(scalar: bytes, point: bytes) -> bytes:
    """The product scalar · point.

    Raises:
        PsiError: ``point`` is not canonically encoded, or the product is the identity.
    """
    try:
        return bytes(rbcl.crypto_scalarmult_ristretto255(scalar, point))
    except RuntimeError:
        raise PsiError(
            "scalar multiplication: the point is not canonically encoded, "
            "or the product is the identity"
        ) from None


def invert_scalars(scalars: Sequence[bytes]) -> list[bytes]:
    """The inverses of the non-zero ``scalars``; at least one scalar is required."""
    # Montgomery's trick: one inversion in all and three products for each scalar, which takes a
    # fifth of the time.
    products = list(accumulate(scalars, rbcl.crypto_core_ristretto255_scalar_mul))
    rest = rbcl.crypto_core_ristretto255_scalar_invert(products[-1])
    backwards = []
    for scalar, before in zip(scalars[:0:-1], products[-2::-1], strict=True):
        backwards.append(rbcl.crypto_core_ristretto255_scalar_mul(rest, before))
        rest = rbcl.crypto_core_ristretto255_scalar_mul(rest, scalar)
    return [rest, *reversed(backwards)]


def schnorr_response(nonce: bytes, challenge: bytes, secret: bytes) -> bytes:
    """The response of a Schnorr proof: nonce − challenge · secret."""
    product = rbcl.crypto_core_ristretto255_scalar_mul(challenge, secret)
    return bytes(rbcl.crypto_core_ristretto255_scalar_sub(nonce, product))


def add_points(left: bytes, right: bytes) -> bytes:
    """The sum left + right. Both points must come from `read_points` or from this module."""
    return bytes(rbcl.crypto_core_ristretto255_add(left, right))


def subtract_points(left: bytes, right: bytes) -> bytes:
    """The difference left − right. Both points must come from `read_points` or from this module."""
    return bytes(rbcl.crypto_core_ristretto255_sub(left, right))


def split_bytes(data: bytes, size: int = POINT_BYTES) -> list[bytes]:
    """Cut ``data`` into pieces of ``size`` bytes; the default is the size of a point or scalar."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def read_points(data: bytes, count: int, what: str, first: int = 0) -> list[bytes]:
    """Cut ``data`` into ``count`` points and check each of them.

    An error message begins with ``what``, the name of the sender and of the step. It counts points
    from ``first``.

    Raises:
        PsiError: ``data`` has a wrong length, or a point is not canonically encoded or is the
            identity.
    """
    if len(data) != count * POINT_BYTES:
        raise PsiError(
            f"{what}: the points have {len(data)} bytes, expected {count * POINT_BYTES}",
            hint="both sides must declare the same set sizes",
        )
    points = split_bytes(data)
    for position, point in enumerate(points, first):
        _refuse_bad_point(point, f"{what}, point {position}")
    return points


def _refuse_bad_point(point: bytes, what: str) -> None:
    if point == IDENTITY:
        raise PsiError(f"{what}: the point is the identity, which is not allowed")
    if not rbcl.crypto_core_ristretto255_is_valid_point(point):
        raise PsiError(f"{what}: the point is not the canonical encoding of a ristretto255 element")
