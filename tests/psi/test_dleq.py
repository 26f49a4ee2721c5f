"""The DLEQ proof that one key evaluated all points: a known proof, and every invalid proof."""

import hashlib
from dataclasses import replace

import pytest
from psi_run import fixed_entropy

from psi.dleq import DleqStatement, _composites, prove_dleq, verify_dleq
from psi.errors import PsiError
from psi.group import (
    IDENTITY,
    add_points,
    invert_scalars,
    multiply_generator,
    multiply_point,
    scalar_from_uniform,
    schnorr_response,
    split_bytes,
    subtract_points,
)
from psi.parallel import CHUNK_POINTS, serial_map

ORDER = 2**252 + 27742317777372353535851937790883648493
FAILS = "shop: invalid proof that one key evaluated all blinded IDs"

# Of `claim` with the entropy of `known`; checked by `test_known_proof_by_hand`.
PROOF = (
    "84131e0209e39b5c8234e34254a27d3c44dfced6349b3fb36fa6d02fb872e303"
    "2ad2277014165409bcb8b6aa52d0798bbe7bea1675c6ec524a3704682f28010e"
)
SEED = "known"


def scalar(name: str) -> bytes:
    return scalar_from_uniform(hashlib.sha512(name.encode()).digest())


def number(some: bytes) -> int:
    return int.from_bytes(some, "little")


def claim(count: int = 3) -> tuple[DleqStatement, bytes]:
    """A true statement about ``count`` pairs, and its key."""
    key = scalar("key")
    points = [multiply_generator(scalar(f"asked {i}")) for i in range(count)]
    answers = b"".join(multiply_point(key, point) for point in points)
    return DleqStatement(b"context", multiply_generator(key), b"".join(points), answers), key


def proved(statement: DleqStatement, key: bytes) -> bytes:
    return prove_dleq(statement, key, fixed_entropy(SEED), serial_map)


def refused(statement: DleqStatement, proof: bytes, match: str = FAILS) -> None:
    with pytest.raises(PsiError, match=match):
        verify_dleq(statement, proof, "shop", serial_map)


def with_evaluated(statement: DleqStatement, place: int, point: bytes) -> DleqStatement:
    evaluated = split_bytes(statement.evaluated)
    evaluated[place] = point
    return replace(statement, evaluated=b"".join(evaluated))


# Valid proofs


def test_known_proof() -> None:
    statement, key = claim()
    assert proved(statement, key).hex() == PROOF
    verify_dleq(statement, bytes.fromhex(PROOF), "shop", serial_map)


def test_known_proof_by_hand() -> None:
    """s = r - c·k for the nonce r of the known entropy; so t₂ = s·A + c·B = r·A."""
    statement, key = claim()
    c, s = split_bytes(bytes.fromhex(PROOF))
    nonce = scalar_from_uniform(fixed_entropy(SEED)(64))
    assert (number(nonce) - number(c) * number(key)) % ORDER == number(s)
    t2 = add_points(multiply_generator(s), multiply_point(c, statement.commitment))
    assert t2 == multiply_generator(nonce)


@pytest.mark.parametrize("count", [1, 2, CHUNK_POINTS, CHUNK_POINTS + 1])
def test_a_true_claim_of_any_length_holds(count: int) -> None:
    statement, key = claim(count)
    verify_dleq(statement, proved(statement, key), "shop", serial_map)


def test_inverted_scalars_multiply_to_one() -> None:
    scalars = [scalar(name) for name in "abc"]
    for count in (1, 2, 3):
        inverses = invert_scalars(scalars[:count])
        assert len(inverses) == count
        for one, back in zip(scalars, inverses, strict=False):
            assert number(one) * number(back) % ORDER == 1


def test_a_response_is_nonce_less_challenge_times_secret() -> None:
    nonce, challenge, secret = (scalar(name) for name in "abc")
    expected = (number(nonce) - number(challenge) * number(secret)) % ORDER
    assert number(schnorr_response(nonce, challenge, secret)) == expected


# Invalid proofs


def test_another_key_for_one_point() -> None:
    statement, key = claim(CHUNK_POINTS + 1)
    for place in (0, 1, CHUNK_POINTS):
        other = multiply_point(scalar("other key"), split_bytes(statement.blinded)[place])
        altered = with_evaluated(statement, place, other)
        refused(altered, proved(altered, key))


def test_errors_that_cancel_each_other() -> None:
    """The sum of all evaluated points is right; their weighted sum is not."""
    statement, key = claim()
    answers, error = split_bytes(statement.evaluated), multiply_generator(scalar("error"))
    altered = with_evaluated(statement, 0, add_points(answers[0], error))
    altered = with_evaluated(altered, 1, subtract_points(answers[1], error))
    refused(altered, proved(altered, key))


def test_two_evaluated_points_exchanged() -> None:
    statement, key = claim()
    answers = split_bytes(statement.evaluated)
    altered = with_evaluated(with_evaluated(statement, 0, answers[1]), 1, answers[0])
    refused(altered, proved(altered, key))


def test_a_weight_depends_on_every_evaluated_point() -> None:
    """If one point could change without the other weights, a prover could search for a sum of 0."""
    statement, _ = claim()
    altered = with_evaluated(statement, 2, multiply_generator(scalar("anything")))
    assert first_weight(statement) == first_weight(statement)
    assert first_weight(statement) != first_weight(altered)


def first_weight(statement: DleqStatement) -> bytes:
    """d_0 · (C_0 - C_1): the change of the composite if C_1 replaces C_0."""
    _, second, *rest = split_bytes(statement.blinded)
    lists = (statement.blinded, b"".join([second, second, *rest]))
    return subtract_points(*_composites(statement, lists, serial_map))


def test_replaced_commitment() -> None:
    statement, key = claim()
    proof = proved(statement, key)
    refused(replace(statement, commitment=multiply_generator(scalar("other key"))), proof)


def test_commitment_to_another_key_than_used() -> None:
    statement, key = claim()
    altered = replace(statement, commitment=multiply_generator(scalar("other key")))
    refused(altered, proved(altered, key))
    refused(altered, proved(altered, scalar("other key")))


def test_proof_of_another_context() -> None:
    statement, key = claim()
    refused(replace(statement, context=b"another"), proved(statement, key))


def test_proof_for_other_blinded_points() -> None:
    statement, key = claim()
    moved = b"".join(reversed(split_bytes(statement.blinded)))
    refused(replace(statement, blinded=moved), proved(statement, key))


@pytest.mark.parametrize("byte", [0, 31, 32, 63])
def test_changed_proof(byte: int) -> None:
    statement, key = claim()
    proof = bytearray(proved(statement, key))
    proof[byte] ^= 1
    refused(statement, bytes(proof))


def test_second_encoding_of_a_proof() -> None:
    statement, key = claim()
    c, s = split_bytes(proved(statement, key))
    for same in ((number(s) + ORDER).to_bytes(32, "little"), s[:31] + bytes([s[31] | 0x80])):
        refused(statement, c + same)


@pytest.mark.parametrize("proof", [bytes(64), bytes(32) + b"\1" + bytes(31)])
def test_proof_of_zeros(proof: bytes) -> None:
    refused(claim()[0], proof)


@pytest.mark.parametrize("size", [0, 63, 65])
def test_proof_of_a_wrong_length(size: int) -> None:
    refused(claim()[0], bytes(size), f"shop: the proof has {size} bytes, expected 64")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_commitment_of_a_wrong_length(size: int) -> None:
    altered = replace(claim()[0], commitment=bytes(size))
    refused(altered, bytes(64), f"shop: commitment: the points have {size} bytes")


def test_identity_as_commitment() -> None:
    altered = replace(claim()[0], commitment=IDENTITY)
    refused(altered, bytes(64), "shop: commitment, point 0: the point is the identity")


def test_non_canonical_commitment() -> None:
    altered = replace(claim()[0], commitment=b"\xff" * 32)
    refused(altered, bytes(64), "shop: commitment, point 0: the point is not the canonical")
