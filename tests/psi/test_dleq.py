"""The proof that one key gave all answers: known answers, and every way in which it fails."""

import hashlib
from dataclasses import replace

import pytest
from psi_run import stream

from psi.dleq import Statement, _composites, prove, verify
from psi.errors import PsiError
from psi.group import (
    IDENTITY,
    added,
    generated,
    inverted,
    multiplied,
    random_scalar,
    response,
    split,
    subtracted,
)
from psi.spread import PIECE, alone

ORDER = 2**252 + 27742317777372353535851937790883648493
FAILS = "shop: the proof that it used one key for all answers does not hold"

# Of `claim` with the entropy of `known`; checked by `test_known_proof_by_hand`.
PROOF = (
    "84131e0209e39b5c8234e34254a27d3c44dfced6349b3fb36fa6d02fb872e303"
    "2ad2277014165409bcb8b6aa52d0798bbe7bea1675c6ec524a3704682f28010e"
)
SEED = "known"


def scalar(name: str) -> bytes:
    return random_scalar(hashlib.sha512(name.encode()).digest())


def number(some: bytes) -> int:
    return int.from_bytes(some, "little")


def claim(count: int = 3) -> tuple[Statement, bytes]:
    """A true statement about ``count`` pairs, and its key."""
    key = scalar("key")
    points = [generated(scalar(f"asked {i}")) for i in range(count)]
    answers = [multiplied(key, point) for point in points]
    return Statement(b"context", generated(key), b"".join(points), b"".join(answers)), key


def proved(statement: Statement, key: bytes) -> bytes:
    return prove(statement, key, stream(SEED), alone)


def refused(statement: Statement, proof: bytes, match: str = FAILS) -> None:
    with pytest.raises(PsiError, match=match):
        verify(statement, proof, "shop", alone)


def with_answer(statement: Statement, place: int, point: bytes) -> Statement:
    answers = split(statement.answered)
    answers[place] = point
    return replace(statement, answered=b"".join(answers))


# What holds


def test_known_proof() -> None:
    statement, key = claim()
    assert proved(statement, key).hex() == PROOF
    verify(statement, bytes.fromhex(PROOF), "shop", alone)


def test_known_proof_by_hand() -> None:
    """s = r - c·k for the nonce r of the known entropy; so t₂ = s·A + c·B = r·A."""
    statement, key = claim()
    c, s = split(bytes.fromhex(PROOF))
    nonce = random_scalar(stream(SEED)(64))
    assert (number(nonce) - number(c) * number(key)) % ORDER == number(s)
    assert added(generated(s), multiplied(c, statement.commitment)) == generated(nonce)


@pytest.mark.parametrize("count", [1, 2, PIECE, PIECE + 1])
def test_a_true_claim_of_any_length_holds(count: int) -> None:
    statement, key = claim(count)
    verify(statement, proved(statement, key), "shop", alone)


def test_inverted_scalars_multiply_to_one() -> None:
    scalars = [scalar(name) for name in "abc"]
    for count in (1, 2, 3):
        found = inverted(scalars[:count])
        assert len(found) == count
        for one, back in zip(scalars, found, strict=False):
            assert number(one) * number(back) % ORDER == 1


def test_a_response_is_nonce_less_challenge_times_secret() -> None:
    nonce, challenge, secret = (scalar(name) for name in "abc")
    expected = (number(nonce) - number(challenge) * number(secret)) % ORDER
    assert number(response(nonce, challenge, secret)) == expected


# What does not


def test_another_key_for_one_answer() -> None:
    statement, key = claim(PIECE + 1)
    for place in (0, 1, PIECE):
        other = multiplied(scalar("other key"), split(statement.asked)[place])
        spoilt = with_answer(statement, place, other)
        refused(spoilt, proved(spoilt, key))


def test_errors_that_cancel_each_other() -> None:
    """The sum of all answers is right; their weighted sum is not."""
    statement, key = claim()
    answers, error = split(statement.answered), generated(scalar("error"))
    spoilt = with_answer(statement, 0, added(answers[0], error))
    spoilt = with_answer(spoilt, 1, subtracted(answers[1], error))
    refused(spoilt, proved(spoilt, key))


def test_two_answers_exchanged() -> None:
    statement, key = claim()
    answers = split(statement.answered)
    spoilt = with_answer(with_answer(statement, 0, answers[1]), 1, answers[0])
    refused(spoilt, proved(spoilt, key))


def test_a_weight_depends_on_every_answer() -> None:
    """A prover that could vary one answer and keep the other weights would search for 0."""
    statement, _ = claim()
    spoilt = with_answer(statement, 2, generated(scalar("anything")))
    assert first_weight(statement) == first_weight(statement)
    assert first_weight(statement) != first_weight(spoilt)


def first_weight(statement: Statement) -> bytes:
    """d_0 · (C_0 - C_1): what the composite changes by when C_1 stands for C_0."""
    _, second, *rest = split(statement.asked)
    lists = (statement.asked, b"".join([second, second, *rest]))
    return subtracted(*_composites(statement, lists, alone))


def test_replaced_commitment() -> None:
    statement, key = claim()
    proof = proved(statement, key)
    refused(replace(statement, commitment=generated(scalar("other key"))), proof)


def test_commitment_to_another_key_than_used() -> None:
    statement, key = claim()
    spoilt = replace(statement, commitment=generated(scalar("other key")))
    refused(spoilt, proved(spoilt, key))
    refused(spoilt, proved(spoilt, scalar("other key")))


def test_proof_of_another_context() -> None:
    statement, key = claim()
    refused(replace(statement, context=b"another"), proved(statement, key))


def test_proof_for_other_asks() -> None:
    statement, key = claim()
    moved = b"".join(reversed(split(statement.asked)))
    refused(replace(statement, asked=moved), proved(statement, key))


@pytest.mark.parametrize("byte", [0, 31, 32, 63])
def test_changed_proof(byte: int) -> None:
    statement, key = claim()
    proof = bytearray(proved(statement, key))
    proof[byte] ^= 1
    refused(statement, bytes(proof))


def test_second_encoding_of_a_proof() -> None:
    statement, key = claim()
    c, s = split(proved(statement, key))
    for same in ((number(s) + ORDER).to_bytes(32, "little"), s[:31] + bytes([s[31] | 0x80])):
        refused(statement, c + same)


@pytest.mark.parametrize("proof", [bytes(64), bytes(32) + b"\1" + bytes(31)])
def test_proof_of_zeros(proof: bytes) -> None:
    refused(claim()[0], proof)


@pytest.mark.parametrize("size", [0, 63, 65])
def test_proof_of_a_wrong_length(size: int) -> None:
    refused(claim()[0], bytes(size), f"shop: proof has {size} bytes, legal are 64")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_commitment_of_a_wrong_length(size: int) -> None:
    spoilt = replace(claim()[0], commitment=bytes(size))
    refused(spoilt, bytes(64), f"shop: commitment has {size} bytes")


def test_identity_as_commitment() -> None:
    spoilt = replace(claim()[0], commitment=IDENTITY)
    refused(spoilt, bytes(64), "shop: commitment, point 0: the identity")


def test_non_canonical_commitment() -> None:
    spoilt = replace(claim()[0], commitment=b"\xff" * 32)
    refused(spoilt, bytes(64), "shop: commitment, point 0: not the canonical")
