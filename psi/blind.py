"""2HashDH: an OPRF whose leader asks for its own IDs, each blinded, and pays a point for each.

Jarecki, Kiayias and Krawczyk (ASIACRYPT 2014) and RFC 9497, on ristretto255. Letters: H is the
random oracle into the group, r a fresh scalar for every ID, k the member's key. The leader says
C = r·H(x), which is uniform whatever x is; the member answers D = k·C; then r⁻¹·D = k·H(x), and
F_k(x) is a hash of x and k·H(x). Nobody computes F_k(x) without k or an answer for x.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from psi.domain import framed
from psi.errors import PsiError
from psi.group import (
    POINT_BYTES,
    UNIFORM_BYTES,
    hashed_point,
    inverted,
    multiplied,
    random_scalar,
    read_points,
    split,
)
from psi.shared_types import Bytes, Entropy
from psi.spread import PIECE, Spread, pieces
from psi.terms import TAG_BYTES, Terms

Blinding = tuple[bytes, Sequence[bytes], bytes]  # session, IDs, 64 uniform bytes for each
Product = tuple[bytes, bytes, str, int]  # scalars or one scalar, points, whose, place of the first


def blinded(
    ids: Sequence[bytes], session: bytes, entropy: Entropy, spread: Spread
) -> tuple[bytes, bytes]:
    """C and r⁻¹ of every ID: 32 bytes each, one behind the other."""
    work = [(session, part, entropy(UNIFORM_BYTES * len(part))) for _, part in pieces(ids)]
    found = list(spread(_blinded, work))
    return b"".join(points for points, _ in found), b"".join(back for _, back in found)


def products(scalars: bytes, points: bytes, whose: str, first: int, spread: Spread) -> bytes:
    """The product of every point with its own scalar, or with the only one.

    ``whose`` and ``first`` say in errors whose points these are and where they begin.

    Raises:
        PsiError: a point is no canonical encoding, or the identity.
    """
    size = PIECE * POINT_BYTES
    parts = split(points, size)
    factors = split(scalars, size) if len(scalars) == len(points) else [scalars] * len(parts)
    work = [
        (some, part, whose, first + number * PIECE)
        for number, (some, part) in enumerate(zip(factors, parts, strict=True))
    ]
    return b"".join(spread(_products, work))


def keyed(ids: Sequence[bytes], session: bytes, key: bytes, spread: Spread) -> bytes:
    """k·H(x) of every own ID, without blinding: 32 bytes each, one behind the other."""
    return b"".join(spread(_keyed, [(session, part, key) for _, part in pieces(ids)]))


def outputs(terms: Terms, ids: Sequence[bytes], points: bytes) -> tuple[Bytes, Bytes]:
    """F_k of every ID, cut in two: pads [n, ℓ] and tags [n, 12] uint8; ``points`` are k·H(x)."""
    size = terms.check_bytes + TAG_BYTES
    start = hashlib.blake2b(terms.context("hardened-output"), digest_size=size)

    def one(point: bytes, identity: bytes) -> bytes:
        state = start.copy()
        state.update(point)  # of fixed length, so the boundary is known
        state.update(identity)
        return state.digest()

    whole = b"".join(map(one, split(points), ids))
    out = np.frombuffer(whole, np.uint8).reshape(-1, size)
    return out[:, : terms.check_bytes], out[:, terms.check_bytes :]


def as_array(points: bytes) -> Bytes:
    """Points as they travel: [n, 32] uint8."""
    return np.frombuffer(points, np.uint8).reshape(-1, POINT_BYTES)


def _blinded(work: Blinding) -> tuple[bytes, bytes]:
    session, ids, uniform = work
    scalars = [random_scalar(some) for some in split(uniform, UNIFORM_BYTES)]
    points = map(multiplied, scalars, _hashed(session, ids))
    return b"".join(points), b"".join(inverted(scalars))


def _keyed(work: tuple[bytes, Sequence[bytes], bytes]) -> bytes:
    session, ids, key = work
    return b"".join(multiplied(key, point) for point in _hashed(session, ids))


def _hashed(session: bytes, ids: Sequence[bytes]) -> list[bytes]:
    """H(x) of every ID: the whole ID, so that collisions of h(x) are no collisions here."""
    prefix = framed("hardened-point", session)
    return [hashed_point(prefix + identity) for identity in ids]


def _products(work: Product) -> bytes:
    scalars, data, whose, first = work
    points = split(data)
    factors = split(scalars) if len(scalars) == len(data) else [scalars] * len(points)
    try:
        # The library refuses what `read_points` refuses; looking first would cost a tenth more.
        return b"".join(map(multiplied, factors, points))
    except PsiError:
        read_points(data, len(points), whose, first)
        raise
