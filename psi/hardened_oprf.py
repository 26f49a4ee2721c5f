"""2HashDH, the OPRF of the hardened mode: the leader gets one output for each blinded ID.

Jarecki, Kiayias and Krawczyk (ASIACRYPT 2014) and RFC 9497, on ristretto255. Notation: H is the
random oracle into the group, r a fresh scalar for each ID, k the member's key. The leader sends the
blinded ID C = r·H(x), a uniform point for every x. The member returns the evaluated ID D = k·C. The
leader computes r⁻¹·D = k·H(x), and F_k(x) is a hash of x and k·H(x). F_k(x) can be computed only
with the key k or with an evaluated ID D of x.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from psi.domain import labelled_bytes
from psi.errors import PsiError
from psi.group import (
    POINT_BYTES,
    UNIFORM_BYTES,
    hash_to_point,
    invert_scalars,
    multiply_point,
    read_points,
    scalar_from_uniform,
    split_bytes,
)
from psi.parallel import CHUNK_POINTS, ParallelMap, chunks
from psi.parameters import TAG_BYTES, PsiParameters
from psi.shared_types import Bytes, Entropy

# Arguments of the functions that workers run:
BlindingChunk = tuple[bytes, Sequence[bytes], bytes]  # session, IDs, 64 uniform bytes for each
EvaluationChunk = tuple[bytes, Sequence[bytes], bytes]  # session, IDs, key
ProductChunk = tuple[bytes, bytes, str, int]  # scalars or one scalar, points, name, first point


def blind_ids(
    ids: Sequence[bytes], session: bytes, entropy: Entropy, parallel_map: ParallelMap
) -> tuple[bytes, bytes]:
    """The blinded IDs C and the scalars r⁻¹ of ``ids``: n times 32 bytes each, concatenated."""
    work = [(session, part, entropy(UNIFORM_BYTES * len(part))) for _, part in chunks(ids)]
    results = list(parallel_map(_blind_chunk, work))
    return b"".join(points for points, _ in results), b"".join(back for _, back in results)


def multiply_points(
    scalars: bytes, points: bytes, what: str, first: int, parallel_map: ParallelMap
) -> bytes:
    """Multiply each point by its own scalar, or all points by one scalar.

    ``what`` names the sender and the list of points in errors; ``first`` is the number of the
    first point in that list.

    Raises:
        PsiError: a point is not canonically encoded, or is the identity.
    """
    size = CHUNK_POINTS * POINT_BYTES
    parts = split_bytes(points, size)
    factors = split_bytes(scalars, size) if len(scalars) == len(points) else [scalars] * len(parts)
    work = [
        (some, part, what, first + number * CHUNK_POINTS)
        for number, (some, part) in enumerate(zip(factors, parts, strict=True))
    ]
    return b"".join(parallel_map(_multiply_chunk, work))


def evaluate_ids(
    ids: Sequence[bytes], session: bytes, key: bytes, parallel_map: ParallelMap
) -> bytes:
    """k·H(x) of the member's own ``ids``, without blinding: n times 32 bytes, concatenated."""
    work = [(session, part, key) for _, part in chunks(ids)]
    return b"".join(parallel_map(_evaluate_chunk, work))


def hash_outputs(
    parameters: PsiParameters, ids: Sequence[bytes], points: bytes
) -> tuple[Bytes, Bytes]:
    """The output F_k of each ID as two arrays: pads [n, ℓ] and tags [n, 12] uint8.

    ``points`` are k·H(x) of the n ``ids``, 32 bytes each.
    """
    size = parameters.check_bytes + TAG_BYTES
    start = hashlib.blake2b(parameters.context("hardened-output"), digest_size=size)

    def output(point: bytes, identity: bytes) -> bytes:
        state = start.copy()
        state.update(point)  # of fixed length: the boundary to the ID is unambiguous
        state.update(identity)
        return state.digest()

    digests = b"".join(map(output, split_bytes(points), ids))
    out = np.frombuffer(digests, np.uint8).reshape(-1, size)
    return out[:, : parameters.check_bytes], out[:, parameters.check_bytes :]


def points_array(points: bytes) -> Bytes:
    """Turn concatenated points into an array that can be sent: [n, 32] uint8."""
    return np.frombuffer(points, np.uint8).reshape(-1, POINT_BYTES)


def _blind_chunk(work: BlindingChunk) -> tuple[bytes, bytes]:
    session, ids, uniform = work
    scalars = [scalar_from_uniform(some) for some in split_bytes(uniform, UNIFORM_BYTES)]
    points = map(multiply_point, scalars, _hash_to_points(session, ids))
    return b"".join(points), b"".join(invert_scalars(scalars))


def _evaluate_chunk(work: EvaluationChunk) -> bytes:
    session, ids, key = work
    return b"".join(multiply_point(key, point) for point in _hash_to_points(session, ids))


def _hash_to_points(session: bytes, ids: Sequence[bytes]) -> list[bytes]:
    """H(x) of the whole ID x: a collision of the 16 bytes h(x) is no collision of H(x)."""
    prefix = labelled_bytes("hardened-point", session)
    return [hash_to_point(prefix + identity) for identity in ids]


def _multiply_chunk(work: ProductChunk) -> bytes:
    scalars, data, what, first = work
    points = split_bytes(data)
    factors = split_bytes(scalars) if len(scalars) == len(data) else [scalars] * len(points)
    try:
        # The library refuses the same points as `read_points`; a check before the
        # multiplications would cost a tenth more time.
        return b"".join(map(multiply_point, factors, points))
    except PsiError:
        read_points(data, len(points), what, first)  # raises an error with the point's number
        raise
