"""Every refusal of the hardened mode: one fault per test, and its name in the test's name."""

from collections.abc import Callable

import numpy as np
import pytest
from hardened_run import parties, run_until_evaluation, run_until_stores
from psi_run import SESSION

from psi.errors import PsiError, UsedTwice
from psi.group import IDENTITY
from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.ids import session_hashes
from psi.parameters import PsiParameters

IDS = [b"ada", b"bob", b"cyd"]
HASHES = session_hashes(IDS, SESSION)
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


def parameters(size: int) -> PsiParameters:
    """The parameters of a shop that declares ``size`` IDs."""
    return PsiParameters(session=SESSION, member="shop", leader_size=1, member_size=size)


def pair(member_ids: list[bytes] = IDS, **other) -> tuple[HardenedLeader, HardenedMember]:
    leader, members = parties(IDS, {"shop": member_ids}, **other)
    return leader, members["shop"]


def started() -> tuple[HardenedMember, np.ndarray]:
    """A member before the leader's only block of blinded IDs, and this block."""
    leader, member = pair()
    member.start()
    (block,) = leader.blind()
    return member, block


def answering(**other) -> tuple[HardenedLeader, HardenedMember, np.ndarray]:
    """A leader before the member's only block of evaluated IDs, and this block."""
    leader, member = pair(**other)
    (block,) = member.evaluate(run_until_evaluation(leader, {"shop": member}))
    return leader, member, block


def stored() -> tuple[HardenedLeader, HardenedMember, np.ndarray]:
    leader, member = pair()
    run_until_stores(leader, {"shop": member})
    return leader, member, member.make_store()


def with_point(block: np.ndarray, point: bytes, row: int = 1) -> np.ndarray:
    changed = block.copy()
    changed[row] = np.frombuffer(point, np.uint8)
    return changed


# Sets and names


def test_more_ids_than_declared() -> None:
    with pytest.raises(PsiError, match="leader: a bucket holds 3 IDs, but at most 1 were declared"):
        HardenedLeader(IDS, HASHES, parameters=[parameters(3)])
    with pytest.raises(PsiError, match="shop: a bucket holds 3 IDs, but at most 2 were declared"):
        HardenedMember(IDS, HASHES, parameters=parameters(2), members=["shop"])


def test_leader_without_members() -> None:
    with pytest.raises(PsiError, match="the list of members is empty"):
        HardenedLeader(IDS, HASHES, parameters=[])


@pytest.mark.parametrize("members", [["bank"], ["shop", "shop"], []])
def test_illegal_member_names(members: list[str]) -> None:
    with pytest.raises(PsiError, match="contains a name twice"):
        HardenedMember(IDS, HASHES, parameters=parameters(3), members=members)


# Blinded IDs


@pytest.mark.parametrize("name", SHAPES)
def test_blinded_ids_of_a_wrong_shape(name: str) -> None:
    member, block = started()
    with pytest.raises(PsiError, match=r"leader: blinded IDs: a block of .* expected type uint8"):
        member.receive_blinded(SHAPES[name](block))


def test_more_blinded_ids_than_declared() -> None:
    member, block = started()
    member.receive_blinded(block)
    with pytest.raises(PsiError, match="blinded IDs: a block of points is") as caught:
        member.receive_blinded(block[:1])
    assert "3 points were declared for this session" in caught.value.hint


def test_blinded_ids_after_the_evaluation() -> None:
    _, member, block = answering()
    with pytest.raises(UsedTwice, match="shop: the step evaluate was called a second time"):
        member.receive_blinded(block)


def test_evaluation_before_the_last_blinded_id() -> None:
    member, block = started()
    member.receive_blinded(block[:2])
    with pytest.raises(PsiError, match="leader: blinded IDs ended after 2 points, expected 3"):
        member.evaluate({"shop": member._key_exchange.public})


@pytest.mark.parametrize("name", BAD)
def test_blinded_id_that_is_no_point(name: str) -> None:
    member, block = started()
    with pytest.raises(PsiError, match="leader: blinded IDs, point 1: "):
        member.receive_blinded(with_point(block, BAD[name]))


def test_bad_point_in_a_later_block_is_counted_from_the_first() -> None:
    member, block = started()
    member.receive_blinded(block[:2])
    with pytest.raises(PsiError, match="leader: blinded IDs, point 2: the point is the identity"):
        member.receive_blinded(with_point(block[2:], IDENTITY, 0))


# Public shares


def refused_shares(change: Callable[[dict[str, bytes]], object], match: str) -> None:
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS})
    shares = run_until_evaluation(leader, members)
    change(shares)
    with pytest.raises(PsiError, match=match):
        members["shop"].evaluate(shares)


def test_missing_share() -> None:
    refused_shares(lambda shares: shares.pop("bank"), "got 1 public key shares")


def test_share_of_an_unknown_member() -> None:
    refused_shares(lambda shares: shares.update(spy=bytes(32)), "got 3 public key shares")


def test_truncated_share() -> None:
    refused_shares(
        lambda shares: shares.update(bank=bytes(31)), "bank: the public key share has 31"
    )


def test_changed_own_share() -> None:
    refused_shares(
        lambda shares: shares.update(shop=bytes(32)),
        "public key share of shop that differs from the share",
    )


def test_repeated_share() -> None:
    refused_shares(lambda shares: shares.update(bank=shares["shop"]), "the same public key share")


def test_share_of_small_order() -> None:
    refused_shares(lambda shares: shares.update(bank=bytes(32)), "bank: .* small order")


# Evaluated IDs and their proof


@pytest.mark.parametrize("name", SHAPES)
def test_evaluated_ids_of_a_wrong_shape(name: str) -> None:
    leader, _, block = answering()
    with pytest.raises(PsiError, match="shop: evaluated IDs: a block of points is"):
        leader.receive_evaluated("shop", SHAPES[name](block))


@pytest.mark.parametrize("name", BAD)
def test_evaluated_id_that_is_no_point(name: str) -> None:
    leader, _, block = answering()
    with pytest.raises(PsiError, match="shop: evaluated IDs, point 1: "):
        leader.receive_evaluated("shop", with_point(block, BAD[name]))


def test_too_few_evaluated_ids() -> None:
    leader, member, block = answering()
    leader.receive_evaluated("shop", block[:2])
    with pytest.raises(PsiError, match="shop: evaluated IDs ended after 2 points, expected 3"):
        leader.verify_proof("shop", *member.prove())


def test_evaluated_ids_before_the_last_blinded_id() -> None:
    _, _, block = answering()
    late, _ = pair()
    with pytest.raises(PsiError, match="leader: the step receive_evaluated was called too early"):
        late.receive_evaluated("shop", block)


@pytest.mark.parametrize("step", ["receive_evaluated", "verify_proof", "receive_store"])
def test_unknown_member(step: str) -> None:
    leader, _, block = answering()
    arguments = (block[0].tobytes(), bytes(64)) if step == "verify_proof" else (block,)
    with pytest.raises(PsiError, match="'spy' is not a member of this run"):
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
    with pytest.raises(PsiError, match="shop: the store is"):
        leader.receive_store("shop", change(store))


# Order of steps


def test_member_used_twice() -> None:
    _, member, store = stored()
    for step in (
        member.start,
        lambda: member.receive_blinded(store),
        lambda: member.evaluate({}),
        member.prove,
        member.make_store,
    ):
        with pytest.raises(UsedTwice, match=r"shop: .* a second time"):
            step()


def test_leader_used_twice() -> None:
    leader, _, store = stored()
    leader.receive_store("shop", store)
    leader.finish()
    for step in (
        leader.blind,
        lambda: leader.receive_evaluated("shop", store),
        lambda: leader.verify_proof("shop", b"", b""),
        lambda: leader.receive_store("shop", store),
        leader.finish,
    ):
        with pytest.raises(UsedTwice, match=r"leader.* a second time"):
            step()


def test_steps_out_of_order() -> None:
    leader, member = pair()
    block = np.zeros((1, 32), np.uint8)
    for early in (
        leader.finish,
        lambda: leader.receive_evaluated("shop", block),
        lambda: leader.receive_store("shop", block),
        lambda: member.receive_blinded(block),
        lambda: member.evaluate({}),
        member.prove,
        member.make_store,
    ):
        with pytest.raises(PsiError, match="too early"):
            early()


def test_a_refused_proof_cannot_be_tried_again() -> None:
    leader, member, block = answering()
    leader.receive_evaluated("shop", block)
    commitment, proof = member.prove()
    with pytest.raises(PsiError):
        leader.verify_proof("shop", commitment, bytes(64))
    with pytest.raises(UsedTwice):
        leader.verify_proof("shop", commitment, proof)
