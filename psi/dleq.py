"""DLEQ: a proof that one key, and the committed one, answered a whole list of points.

After RFC 9497, Section 2.2, in its letters: A = G, B = k·G the commitment, C_i what was asked,
D_i what was answered, d_i weights, M = Σ d_i C_i and Z = Σ d_i D_i the composites, (c, s) the
proof that log_A B = log_M Z.

One thing is stricter here. There a weight depends on its own pair (C_i, D_i) only, so a prover may
vary each wrong answer by itself until the weighted errors cancel: a generalised birthday problem
(Wagner, CRYPTO 2002), feasible for lists of thousands. Here every weight depends on all pairs:
errors E_i = D_i − k·C_i, not all zero, are fixed before any weight is known, and Σ d_i E_i = 0 then
has probability 1 / L for each try, L ≈ 2²⁵² being the order of the group.
"""

import hashlib
from dataclasses import dataclass
from functools import reduce

from psi.domain import digest, framed, number
from psi.errors import PsiError
from psi.group import (
    POINT_BYTES,
    SCALAR_BYTES,
    UNIFORM_BYTES,
    added,
    generated,
    multiplied,
    random_scalar,
    read_points,
    response,
    split,
)
from psi.shared_types import Entropy
from psi.spread import PIECE, Spread

PROOF_BYTES = 2 * SCALAR_BYTES

Weighing = tuple[bytes, int, tuple[bytes, ...]]  # seed, place of the first pair, lists of points


@dataclass(frozen=True, slots=True)
class Statement:
    """What is proved: D_i = k·C_i for all i, where B = k·G."""

    context: bytes  # separates the proof by session, member and sizes
    commitment: bytes  # B
    asked: bytes  # C, 32 bytes each
    answered: bytes  # D, 32 bytes each


def prove(statement: Statement, key: bytes, entropy: Entropy, spread: Spread) -> bytes:
    """(c, s): 64 bytes; ``key`` is k, the logarithm of the commitment."""
    (m,) = _composites(statement, (statement.asked,), spread)
    z = multiplied(key, m)
    nonce = random_scalar(entropy(UNIFORM_BYTES))
    c = _challenge(statement, m, z, generated(nonce), multiplied(nonce, m))
    return c + response(nonce, c, key)


def verify(statement: Statement, proof: bytes, who: str, spread: Spread) -> None:
    """Check the ``proof`` of ``who``; its answers D were read as points before.

    Raises:
        PsiError: the commitment is no point, or the proof has a wrong length or does not hold.
    """
    read_points(statement.commitment, 1, f"{who}: commitment")
    if len(proof) != PROOF_BYTES:
        raise PsiError(f"{who}: proof has {len(proof)} bytes, legal are {PROOF_BYTES}")
    c, s = split(proof)
    m, z = _composites(statement, (statement.asked, statement.answered), spread)
    try:
        # t₂ = s·A + c·B and t₃ = s·M + c·Z
        t2 = added(generated(s), multiplied(c, statement.commitment))
        t3 = added(multiplied(s, m), multiplied(c, z))
    except (PsiError, RuntimeError):  # a zero scalar, or a composite that is the identity
        raise _broken(who) from None
    # The second condition leaves one encoding of a proof.
    if _challenge(statement, m, z, t2, t3) != c or random_scalar(s + bytes(SCALAR_BYTES)) != s:
        raise _broken(who)


def _broken(who: str) -> PsiError:
    return PsiError(
        f"{who}: the proof that it used one key for all answers does not hold",
        hint="it is faulty or dishonest, or the sessions or sizes differ",
    )


def _composites(
    statement: Statement, lists: tuple[bytes, ...], spread: Spread
) -> tuple[bytes, ...]:
    """Σ d_i P_i for every list of points P."""
    seed = digest(
        "dleq-seed",
        statement.context,
        statement.commitment,
        statement.asked,
        statement.answered,
    )
    size = PIECE * POINT_BYTES
    work = [
        (seed, at // POINT_BYTES, tuple(points[at : at + size] for points in lists))
        for at in range(0, len(statement.asked), size)
    ]
    sums = spread(_weighted, work)
    return tuple(reduce(added, parts) for parts in zip(*sums, strict=True))


def _weighted(work: Weighing) -> tuple[bytes, ...]:
    seed, first, lists = work
    start = hashlib.sha512(framed("dleq-weight", seed))
    weights = [_weight(start, first + place) for place in range(len(lists[0]) // POINT_BYTES)]
    return tuple(reduce(added, map(multiplied, weights, split(points))) for points in lists)


def _weight(start: "hashlib._Hash", place: int) -> bytes:
    state = start.copy()
    state.update(number(place))
    return random_scalar(state.digest())


def _challenge(statement: Statement, m: bytes, z: bytes, t2: bytes, t3: bytes) -> bytes:
    parts = (statement.context, statement.commitment, m, z, t2, t3)
    return random_scalar(hashlib.sha512(framed("dleq-challenge", *parts)).digest())
