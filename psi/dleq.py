"""DLEQ proof: shows that the prover evaluated a whole list of points with one committed key.

Notation of RFC 9497, Section 2.2: A = G is the generator, and B = k·G is the commitment. C_i are
the blinded points, D_i the evaluated points and d_i the weights. M = Σ d_i C_i and Z = Σ d_i D_i
are the composites, and (c, s) is the proof that log_A B = log_M Z.

This proof is stricter than the proof of the RFC. In the RFC, the weight d_i depends only on the
pair (C_i, D_i). Therefore a dishonest prover may vary each wrong point separately until the sum of
the weighted errors is zero. The search for such points is a generalised birthday problem (Wagner,
CRYPTO 2002). A prover can find such points in
a list of a few thousand points. In this module, every weight
depends on all pairs, so the errors E_i = D_i − k·C_i are fixed before any weight is known. If not
all errors are zero, each attempt reaches Σ d_i E_i = 0 with probability 1 / L, where L ≈ 2²⁵² is
the group order.
"""

import hashlib
from dataclasses import dataclass
from functools import reduce

from psi.domain import labelled_bytes, labelled_digest, uint64_bytes
from psi.errors import PsiError
from psi.group import (
    POINT_BYTES,
    SCALAR_BYTES,
    UNIFORM_BYTES,
    add_points,
    multiply_generator,
    multiply_point,
    read_points,
    scalar_from_uniform,
    schnorr_response,
    split_bytes,
)
from psi.parallel import CHUNK_POINTS, ParallelMap
from psi.shared_types import Entropy

PROOF_BYTES = 2 * SCALAR_BYTES

# Argument of the function that workers run: seed, number of the first pair, lists of points.
CompositeChunk = tuple[bytes, int, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class DleqStatement:
    """The statement to prove: D_i = k·C_i for all i, where B = k·G."""

    context: bytes  # separates the proof by session, member and sizes
    commitment: bytes  # B
    blinded: bytes  # C, 32 bytes each
    evaluated: bytes  # D, 32 bytes each


def prove_dleq(
    statement: DleqStatement, key: bytes, entropy: Entropy, parallel_map: ParallelMap
) -> bytes:
    """The proof (c, s) of ``statement``, 64 bytes; ``key`` is k, the logarithm of B."""
    (m,) = _composites(statement, (statement.blinded,), parallel_map)
    z = multiply_point(key, m)
    nonce = scalar_from_uniform(entropy(UNIFORM_BYTES))
    c = _challenge(statement, m, z, multiply_generator(nonce), multiply_point(nonce, m))
    return c + schnorr_response(nonce, c, key)


def verify_dleq(
    statement: DleqStatement, proof: bytes, who: str, parallel_map: ParallelMap
) -> None:
    """Check the ``proof`` of the member ``who``; the caller must check the points D_i before.

    Raises:
        PsiError: the commitment is not a point, or the proof has a wrong length or is invalid.
    """
    read_points(statement.commitment, 1, f"{who}: commitment")
    if len(proof) != PROOF_BYTES:
        raise PsiError(f"{who}: the proof has {len(proof)} bytes, expected {PROOF_BYTES}")
    c, s = split_bytes(proof)
    m, z = _composites(statement, (statement.blinded, statement.evaluated), parallel_map)
    try:
        # t₂ = s·A + c·B and t₃ = s·M + c·Z
        t2 = add_points(multiply_generator(s), multiply_point(c, statement.commitment))
        t3 = add_points(multiply_point(s, m), multiply_point(c, z))
    except (PsiError, RuntimeError):  # a zero scalar, or a composite that is the identity
        raise _invalid_proof(who) from None
    # The second condition excludes a second encoding of s.
    if (
        _challenge(statement, m, z, t2, t3) != c
        or scalar_from_uniform(s + bytes(SCALAR_BYTES)) != s
    ):
        raise _invalid_proof(who)


def _invalid_proof(who: str) -> PsiError:
    return PsiError(
        f"{who}: invalid proof that one key evaluated all blinded IDs",
        hint=f"{who} is faulty or dishonest, or the sessions or sizes differ",
    )


def _composites(
    statement: DleqStatement, lists: tuple[bytes, ...], parallel_map: ParallelMap
) -> tuple[bytes, ...]:
    """Σ d_i P_i for every list of points P."""
    seed = labelled_digest(
        "dleq-seed",
        statement.context,
        statement.commitment,
        statement.blinded,
        statement.evaluated,
    )
    size = CHUNK_POINTS * POINT_BYTES
    work = [
        (seed, at // POINT_BYTES, tuple(points[at : at + size] for points in lists))
        for at in range(0, len(statement.blinded), size)
    ]
    sums = parallel_map(_weighted_sums, work)
    return tuple(reduce(add_points, parts) for parts in zip(*sums, strict=True))


def _weighted_sums(work: CompositeChunk) -> tuple[bytes, ...]:
    seed, first, lists = work
    start = hashlib.sha512(labelled_bytes("dleq-weight", seed))
    weights = [_weight(start, first + place) for place in range(len(lists[0]) // POINT_BYTES)]
    return tuple(
        reduce(add_points, map(multiply_point, weights, split_bytes(points))) for points in lists
    )


def _weight(start: "hashlib._Hash", place: int) -> bytes:
    state = start.copy()
    state.update(uint64_bytes(place))
    return scalar_from_uniform(state.digest())


def _challenge(statement: DleqStatement, m: bytes, z: bytes, t2: bytes, t3: bytes) -> bytes:
    parts = (statement.context, statement.commitment, m, z, t2, t3)
    return scalar_from_uniform(hashlib.sha512(labelled_bytes("dleq-challenge", *parts)).digest())
