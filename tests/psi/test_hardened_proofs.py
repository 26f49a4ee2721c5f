"""A member that answers with more than one key, or proves something else: it is always named."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hardened_run import asked, parties
from test_hardened_refusals import IDS, answering, with_point

from psi.errors import PsiError
from psi.group import generated
from psi.hardened_leader import HardenedLeader


@pytest.mark.parametrize(
    "change",
    [
        lambda b: with_point(b, bytes(b[0])),
        lambda b: with_point(b, generated(b"\1" + bytes(31))),
        lambda b: b[::-1],
    ],
    ids=["another answer", "a point of its own", "exchanged"],
)
def test_wrong_key_for_one_answer(change: Callable[[np.ndarray], np.ndarray]) -> None:
    leader, member, block = answering()
    leader.answered("shop", change(block))
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", *member.prove())


def test_wrong_key_and_a_proof_made_for_it() -> None:
    """The member proves its wrong answers, so that only the weights can tell."""
    leader, member, block = answering()
    member._answers = [with_point(block, bytes(block[0])).tobytes()]
    leader.answered("shop", np.frombuffer(member._answers[0], np.uint8).reshape(-1, 32))
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", *member.prove())


def test_replaced_commitment() -> None:
    leader, member, block = answering()
    leader.answered("shop", block)
    _, proof = member.prove()
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", generated(b"\2" + bytes(31)), proof)


def proof_of(**other) -> tuple[HardenedLeader, tuple[bytes, bytes]]:
    """A leader that has its answers, and the claim that the same member makes in another run."""
    leader, _, block = answering()
    leader.answered("shop", block)
    _, elsewhere, _ = answering(**other)
    return leader, elsewhere.prove()


def test_the_claim_of_the_same_run_holds() -> None:
    leader, claim = proof_of()
    leader.prove("shop", *claim)


@pytest.mark.parametrize(
    "other",
    [{"session": b"another session!"}, {"seed": "another key"}],
    ids=lambda o: next(iter(o)),
)
def test_proof_of_another_session(other: dict) -> None:
    leader, claim = proof_of(**other)
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", *claim)


def test_proof_and_answers_of_another_session_key_that_was_kept() -> None:
    """Answers replayed with their proof: the asks and the context are others."""
    leader, _, _ = answering()
    _, elsewhere, block = answering(session=b"another session!")
    leader.answered("shop", block)
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", *elsewhere.prove())


def test_proof_of_another_member() -> None:
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS})
    shares = asked(leader, members)
    answers = {name: list(member.answer(shares)) for name, member in members.items()}
    for name in members:
        leader.answered(name, answers["bank"][0])
    claim = members["bank"].prove()
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", *claim)
    leader.prove("bank", *claim)


def test_proof_under_other_declared_sizes() -> None:
    leader, members = parties(IDS, {"shop": IDS})
    (block,) = members["shop"].answer(asked(leader, members))
    leader.answered("shop", block)
    members["shop"]._terms = replace(members["shop"]._terms, member_size=4)
    with pytest.raises(PsiError, match="shop: the proof that it used one key"):
        leader.prove("shop", *members["shop"].prove())
