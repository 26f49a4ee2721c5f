"""Attacks of a dishonest member: several keys, or an invalid proof. The error names the member."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hardened_run import parties, run_until_evaluation
from test_hardened_refusals import IDS, answering, with_point

from psi.errors import PsiError
from psi.group import multiply_generator
from psi.hardened_leader import HardenedLeader


@pytest.mark.parametrize(
    "change",
    [
        lambda b: with_point(b, bytes(b[0])),
        lambda b: with_point(b, multiply_generator(b"\1" + bytes(31))),
        lambda b: b[::-1],
    ],
    ids=["another evaluated ID", "a point of its own", "exchanged"],
)
def test_wrong_key_for_one_id(change: Callable[[np.ndarray], np.ndarray]) -> None:
    leader, member, block = answering()
    leader.receive_evaluated("shop", change(block))
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", *member.prove())


def test_wrong_key_and_a_proof_made_for_it() -> None:
    """The member proves its wrong points: only the weights reveal the error."""
    leader, member, block = answering()
    member._evaluated = [with_point(block, bytes(block[0])).tobytes()]
    leader.receive_evaluated("shop", np.frombuffer(member._evaluated[0], np.uint8).reshape(-1, 32))
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", *member.prove())


def test_replaced_commitment() -> None:
    leader, member, block = answering()
    leader.receive_evaluated("shop", block)
    _, proof = member.prove()
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", multiply_generator(b"\2" + bytes(31)), proof)


def proof_of(**other) -> tuple[HardenedLeader, tuple[bytes, bytes]]:
    """A leader with all evaluated IDs, and the claim of the same member in another run."""
    leader, _, block = answering()
    leader.receive_evaluated("shop", block)
    _, elsewhere, _ = answering(**other)
    return leader, elsewhere.prove()


def test_the_claim_of_the_same_run_holds() -> None:
    leader, claim = proof_of()
    leader.verify_proof("shop", *claim)


@pytest.mark.parametrize(
    "other",
    [{"session": b"another session!"}, {"seed": "another key"}],
    ids=lambda o: next(iter(o)),
)
def test_proof_of_another_session(other: dict) -> None:
    leader, claim = proof_of(**other)
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", *claim)


def test_proof_and_evaluated_ids_of_another_session() -> None:
    """Evaluated IDs replayed with their proof: the blinded IDs and the context differ."""
    leader, _, _ = answering()
    _, elsewhere, block = answering(session=b"another session!")
    leader.receive_evaluated("shop", block)
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", *elsewhere.prove())


def test_proof_of_another_member() -> None:
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS})
    shares = run_until_evaluation(leader, members)
    evaluated = {name: list(member.evaluate(shares)) for name, member in members.items()}
    for name in members:
        leader.receive_evaluated(name, evaluated["bank"][0])
    claim = members["bank"].prove()
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", *claim)
    leader.verify_proof("bank", *claim)


def test_proof_under_other_declared_sizes() -> None:
    leader, members = parties(IDS, {"shop": IDS})
    (block,) = members["shop"].evaluate(run_until_evaluation(leader, members))
    leader.receive_evaluated("shop", block)
    members["shop"]._parameters = replace(members["shop"]._parameters, member_size=4)
    with pytest.raises(PsiError, match="shop: invalid proof that one key"):
        leader.verify_proof("shop", *members["shop"].prove())
