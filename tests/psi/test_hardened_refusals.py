"""Every refusal of the hardened mode, by the name of what is refused: one fault per test."""

from collections.abc import Callable

import numpy as np
import pytest
from hardened_run import asked, parties, proved
from psi_run import SESSION

from psi.errors import PsiError, UsedTwice
from psi.group import IDENTITY
from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.ids import hashed
from psi.terms import Terms

IDS = [b"ada", b"bob", b"cyd"]
HASHES = hashed(IDS, SESSION)
NON_CANONICAL = bytes([0xED] + [0xFF] * 30 + [0x7F])  # p itself, which stands for 0
NEGATIVE = bytes([0xEC] + [0xFF] * 30 + [0x7F])  # p - 1, an odd representative
BAD = {"non-canonical": NON_CANONICAL, "negative": NEGATIVE, "identity": IDENTITY}
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "too many": lambda b: np.vstack([b, b[:1]]),
    "none": lambda b: b[:0],
    "narrow": lambda b: b[:, :-1],
    "wide": lambda b: np.hstack([b, b]),
    "flat": lambda b: b.ravel(),
    "other type": lambda b: b.astype(np.int64),
}


def terms(size: int) -> Terms:
    """What a shop of ``size`` IDs declares."""
    return Terms(session=SESSION, member="shop", leader_size=1, member_size=size)


def pair(member_ids: list[bytes] = IDS, **other) -> tuple[HardenedLeader, HardenedMember]:
    leader, members = parties(IDS, {"shop": member_ids}, **other)
    return leader, members["shop"]


def started() -> tuple[HardenedMember, np.ndarray]:
    """A member that waits for the leader's only block."""
    leader, member = pair()
    member.start()
    (block,) = leader.ask()
    return member, block


def answering(**other) -> tuple[HardenedLeader, HardenedMember, np.ndarray]:
    """A leader that waits for the member's only block."""
    leader, member = pair(**other)
    (block,) = member.answer(asked(leader, {"shop": member}))
    return leader, member, block


def stored() -> tuple[HardenedLeader, HardenedMember, np.ndarray]:
    leader, member = pair()
    proved(leader, {"shop": member})
    return leader, member, member.store()


def with_point(block: np.ndarray, point: bytes, row: int = 1) -> np.ndarray:
    changed = block.copy()
    changed[row] = np.frombuffer(point, np.uint8)
    return changed


# Sets and names


def test_more_ids_than_declared() -> None:
    with pytest.raises(PsiError, match="leader: a bucket of 3 IDs, 1 were declared"):
        HardenedLeader(IDS, HASHES, terms=[terms(3)])
    with pytest.raises(PsiError, match="shop: a bucket of 3 IDs, 2 were declared"):
        HardenedMember(IDS, HASHES, terms=terms(2), members=["shop"])


def test_leader_without_members() -> None:
    with pytest.raises(PsiError, match="no member"):
        HardenedLeader(IDS, HASHES, terms=[])


@pytest.mark.parametrize("members", [["bank"], ["shop", "shop"], []])
def test_member_names_that_cannot_be(members: list[str]) -> None:
    with pytest.raises(PsiError, match="different names"):
        HardenedMember(IDS, HASHES, terms=terms(3), members=members)


# Asks


@pytest.mark.parametrize("name", SHAPES)
def test_asks_of_a_wrong_shape(name: str) -> None:
    member, block = started()
    with pytest.raises(PsiError, match=r"leader: asks: a block of points is .* legal is uint8"):
        member.asked(SHAPES[name](block))


def test_ask_after_the_last_that_was_declared() -> None:
    member, block = started()
    member.asked(block)
    with pytest.raises(PsiError, match="asks: a block of points is") as caught:
        member.asked(block[:1])
    assert "3 points were declared for this session" in caught.value.hint


def test_asks_after_the_answers() -> None:
    _, member, block = answering()
    with pytest.raises(UsedTwice, match="shop: answer was called a second time"):
        member.asked(block)


def test_answers_before_the_last_ask() -> None:
    member, block = started()
    member.asked(block[:2])
    with pytest.raises(PsiError, match="leader: asks ended after 2 points, legal are 3"):
        member.answer({"shop": member._shares.public})


@pytest.mark.parametrize("name", BAD)
def test_ask_that_is_no_point(name: str) -> None:
    member, block = started()
    with pytest.raises(PsiError, match="leader: asks, point 1: "):
        member.asked(with_point(block, BAD[name]))


def test_bad_point_in_a_later_block_is_counted_from_the_first() -> None:
    member, block = started()
    member.asked(block[:2])
    with pytest.raises(PsiError, match="leader: asks, point 2: the identity"):
        member.asked(with_point(block[2:], IDENTITY, 0))


# Public shares


def refused_shares(change: Callable[[dict[str, bytes]], object], match: str) -> None:
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS})
    shares = asked(leader, members)
    change(shares)
    with pytest.raises(PsiError, match=match):
        members["shop"].answer(shares)


def test_missing_share() -> None:
    refused_shares(lambda shares: shares.pop("bank"), "got 1 public shares")


def test_share_of_an_unknown_member() -> None:
    refused_shares(lambda shares: shares.update(spy=bytes(32)), "got 3 public shares")


def test_truncated_share() -> None:
    refused_shares(lambda shares: shares.update(bank=bytes(31)), "bank: public share has 31")


def test_changed_own_share() -> None:
    refused_shares(lambda shares: shares.update(shop=bytes(32)), "came back changed")


def test_repeated_share() -> None:
    refused_shares(lambda shares: shares.update(bank=shares["shop"]), "the same public share")


def test_share_of_small_order() -> None:
    refused_shares(lambda shares: shares.update(bank=bytes(32)), "bank: .* small order")


# Answers and their proof


@pytest.mark.parametrize("name", SHAPES)
def test_answers_of_a_wrong_shape(name: str) -> None:
    leader, _, block = answering()
    with pytest.raises(PsiError, match="shop: answers: a block of points is"):
        leader.answered("shop", SHAPES[name](block))


@pytest.mark.parametrize("name", BAD)
def test_answer_that_is_no_point(name: str) -> None:
    leader, _, block = answering()
    with pytest.raises(PsiError, match="shop: answers, point 1: "):
        leader.answered("shop", with_point(block, BAD[name]))


def test_answers_too_few() -> None:
    leader, member, block = answering()
    leader.answered("shop", block[:2])
    with pytest.raises(PsiError, match="shop: answers ended after 2 points, legal are 3"):
        leader.prove("shop", *member.prove())


def test_answers_before_all_was_asked() -> None:
    _, _, block = answering()
    late, _ = pair()
    with pytest.raises(PsiError, match="leader: answered was called too early"):
        late.answered("shop", block)


@pytest.mark.parametrize("step", ["answered", "prove", "store"])
def test_unknown_member(step: str) -> None:
    leader, _, block = answering()
    arguments = (block[0].tobytes(), bytes(64)) if step == "prove" else (block,)
    with pytest.raises(PsiError, match="'spy' is no member of this run"):
        getattr(leader, step)("spy", *arguments)


# The store


@pytest.mark.parametrize(
    "change",
    [lambda s: s[:-1], lambda s: np.vstack([s, s]), lambda s: s[:, :4], lambda s: s.ravel(),
     lambda s: s.view(np.uint32)],
    ids=["truncated", "over-long", "narrow", "flat", "other type"],
)  # fmt: skip
def test_store_of_wrong_size(change: Callable[[np.ndarray], np.ndarray]) -> None:
    leader, _, store = stored()
    with pytest.raises(PsiError, match="shop: store is"):
        leader.store("shop", change(store))


# Turns


def test_member_used_twice() -> None:
    _, member, store = stored()
    for step in (
        member.start,
        lambda: member.asked(store),
        lambda: member.answer({}),
        member.prove,
        member.store,
    ):
        with pytest.raises(UsedTwice, match=r"shop: .* a second time"):
            step()


def test_leader_used_twice() -> None:
    leader, _, store = stored()
    leader.store("shop", store)
    leader.finish()
    for step in (
        leader.ask,
        lambda: leader.answered("shop", store),
        lambda: leader.prove("shop", b"", b""),
        lambda: leader.store("shop", store),
        leader.finish,
    ):
        with pytest.raises(UsedTwice, match=r"leader.* a second time"):
            step()


def test_steps_out_of_order() -> None:
    leader, member = pair()
    block = np.zeros((1, 32), np.uint8)
    for early in (
        leader.finish,
        lambda: leader.answered("shop", block),
        lambda: leader.store("shop", block),
        lambda: member.asked(block),
        lambda: member.answer({}),
        member.prove,
        member.store,
    ):
        with pytest.raises(PsiError, match="too early"):
            early()


def test_a_refused_proof_cannot_be_tried_again() -> None:
    leader, member, block = answering()
    leader.answered("shop", block)
    commitment, proof = member.prove()
    with pytest.raises(PsiError):
        leader.prove("shop", commitment, bytes(64))
    with pytest.raises(UsedTwice):
        leader.prove("shop", commitment, proof)
