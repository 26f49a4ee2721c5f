"""Every refusal of the semi-honest mode: one fault per test, and its name in the test's name."""

from collections.abc import Callable

import numpy as np
import pytest
from psi_run import SESSION, Leader, Member, parties, run_base_ot, run_until_stores

from psi.errors import PsiError, UsedTwice
from psi.group import IDENTITY

IDS = [b"ada", b"bob", b"cyd"]
NON_CANONICAL = bytes([0xED] + [0xFF] * 30 + [0x7F])  # p itself, which stands for 0


def pair(other: list[bytes] = IDS) -> tuple[Leader, Member]:
    leader, members = parties(IDS, {"shop": other})
    return leader, members["shop"]


def offered() -> tuple[Leader, Member, bytes]:
    leader, member = pair()
    return leader, member, member.make_offer({"shop": member.start()})


def stored() -> tuple[Leader, Member, np.ndarray]:
    leader, member = pair()
    run_until_stores(leader, {"shop": member})
    return leader, member, member.make_store()


def finished() -> tuple[Leader, Member, np.ndarray]:
    leader, member, store = stored()
    leader.receive_store("shop", store)
    return leader, member, leader.finish().tags["shop"]


def with_point(message: bytes, point: bytes, at: int = 0) -> bytes:
    return message[:at] + point + message[at + 32 :]


# Sets, names, sessions


def test_empty_own_set() -> None:
    with pytest.raises(PsiError, match="leader: the set has 0 IDs"):
        Leader([], sizes={"shop": 1}, session=SESSION)
    member = Member([], name="shop", members=["shop"], session=SESSION, leader_size=1)
    with pytest.raises(PsiError, match="shop: the set has 0 IDs"):
        member.make_offer({"shop": member.start()})


@pytest.mark.parametrize("size", [0, -1, 1 << 60])
def test_declared_size_out_of_range(size: int) -> None:
    with pytest.raises(PsiError, match="shop: the set has"):
        Leader(IDS, sizes={"shop": size}, session=SESSION)
    member = Member(IDS, name="shop", members=["shop"], session=SESSION, leader_size=size)
    with pytest.raises(PsiError, match="leader: the set has"):
        member.make_offer({"shop": member.start()})


def test_leader_without_members() -> None:
    with pytest.raises(PsiError, match="the list of members is empty"):
        Leader(IDS, sizes={}, session=SESSION)


def test_short_session() -> None:
    with pytest.raises(PsiError, match="session id has 5 bytes"):
        Leader(IDS, sizes={"shop": 1}, session=b"short")


def test_empty_name() -> None:
    with pytest.raises(PsiError, match="empty name"):
        Leader(IDS, sizes={"": 1}, session=SESSION)


@pytest.mark.parametrize("members", [["bank"], ["shop", "shop"], []])
def test_illegal_member_names(members: list[str]) -> None:
    with pytest.raises(PsiError, match="contains a name twice"):
        Member(IDS, name="shop", members=members, session=SESSION, leader_size=1)


# Public shares


def refused_shares(change: Callable[[dict[str, bytes]], object], match: str) -> None:
    _, members = parties(IDS, {"shop": IDS, "bank": IDS})
    shares = {name: member.start() for name, member in members.items()}
    change(shares)
    with pytest.raises(PsiError, match=match):
        members["shop"].make_offer(shares)


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


# The offer


@pytest.mark.parametrize(
    "change", [lambda m: m[:-1], lambda m: m + b"x", lambda m: m[:-32], lambda m: m + m[:32],
               lambda m: b""],
    ids=["truncated", "over-long", "point missing", "point too many", "empty"],
)  # fmt: skip
def test_offer_of_wrong_length(change: Callable[[bytes], bytes]) -> None:
    leader, _, offer = offered()
    with pytest.raises(PsiError, match=r"shop: offer: the points have .* bytes, expected"):
        leader.answer_offer("shop", change(offer))


@pytest.mark.parametrize("at", [0, 32, 64 * 5])
def test_offer_with_non_canonical_point(at: int) -> None:
    leader, _, offer = offered()
    with pytest.raises(PsiError, match=f"shop: offer, point {at // 32}: the point is not "):
        leader.answer_offer("shop", with_point(offer, NON_CANONICAL, at))


def test_offer_with_identity_point() -> None:
    leader, _, offer = offered()
    with pytest.raises(PsiError, match="shop: offer, point 1: the point is the identity"):
        leader.answer_offer("shop", with_point(offer, IDENTITY, 32))


def test_offer_of_unknown_member() -> None:
    leader, _, offer = offered()
    with pytest.raises(PsiError, match="'spy' is not a member"):
        leader.answer_offer("spy", offer)


# The answer


@pytest.mark.parametrize("change", [lambda m: m[:-1], lambda m: m + b"x", lambda m: b""])
def test_answer_of_wrong_length(change: Callable[[bytes], bytes]) -> None:
    leader, member, offer = offered()
    with pytest.raises(PsiError, match="leader: the answer has"):
        member.receive_answer(change(leader.answer_offer("shop", offer)))


@pytest.mark.parametrize("point", [NON_CANONICAL, IDENTITY], ids=["non-canonical", "identity"])
def test_answer_with_bad_point(point: bytes) -> None:
    leader, member, offer = offered()
    with pytest.raises(PsiError, match="leader: answer, point 0"):
        member.receive_answer(with_point(leader.answer_offer("shop", offer), point, 16))


# The matrix


@pytest.mark.parametrize(
    "change",
    [lambda b: b[:, :-1], lambda b: np.hstack([b, b]), lambda b: b[0], lambda b: b[:0],
     lambda b: b.astype(np.int64), lambda b: np.vstack([b, b])],
    ids=["truncated", "over-long", "flat", "empty", "other type", "too many columns"],
)  # fmt: skip
def test_block_of_wrong_shape(change: Callable[[np.ndarray], np.ndarray]) -> None:
    leader, member = pair()
    run_base_ot(leader, {"shop": member})
    block = next(leader.matrix_blocks())["shop"]
    with pytest.raises(PsiError, match="leader: a block of the matrix is"):
        member.receive_block(change(block))


def test_block_after_the_last_column() -> None:
    leader, member = pair()
    run_until_stores(leader, {"shop": member})
    with pytest.raises(PsiError, match="expected type uint8"):
        member.receive_block(np.zeros((1, 1024), np.uint8))


def test_matrix_with_missing_columns() -> None:
    leader, member = pair()
    run_base_ot(leader, {"shop": member})
    member.receive_block(next(leader.matrix_blocks())["shop"][:5])
    with pytest.raises(PsiError, match="ended after 5 columns"):
        member.make_store()


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


def test_store_of_unknown_member() -> None:
    leader, _, store = stored()
    with pytest.raises(PsiError, match="'spy' is not a member"):
        leader.receive_store("spy", store)


def test_store_without_solution_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, member = pair()
    run_until_stores(leader, {"shop": member})
    monkeypatch.setattr("psi.okvs.solve_gf2", lambda *_: None)
    with pytest.raises(PsiError, match="no solution"):
        member.make_store()
    with pytest.raises(UsedTwice):
        member.make_store()


# The tags


def test_repeated_tag() -> None:
    _, member, tags = finished()
    with pytest.raises(PsiError, match="ascending order, or a tag is repeated"):
        member.finish(np.vstack([tags[:1], tags]))


def test_tags_out_of_order() -> None:
    _, member, tags = finished()
    with pytest.raises(PsiError, match="ascending"):
        member.finish(tags[::-1])


def test_tag_not_held() -> None:
    _, member, tags = finished()
    tags[-1] = 0xFF
    with pytest.raises(PsiError, match="no row of shop matches 1 of the"):
        member.finish(tags)


def test_two_own_rows_with_one_tag() -> None:
    _, member, tags = finished()
    member.bucket.tags = member.bucket.tags[[0, 0, 1]]
    with pytest.raises(PsiError, match="two rows of shop have the same tag"):
        member.finish(tags[:0])


@pytest.mark.parametrize(
    "change", [lambda t: t[:, :11], lambda t: t.ravel(), lambda t: t.astype(np.int64)],
    ids=["truncated", "flat", "other type"],
)  # fmt: skip
def test_tags_of_wrong_shape(change: Callable[[np.ndarray], np.ndarray]) -> None:
    _, member, tags = finished()
    with pytest.raises(PsiError, match="leader: the tags for shop are"):
        member.finish(change(tags))


# Order of steps


def test_member_used_twice() -> None:
    _, member, tags = finished()
    member.finish(tags)
    for step in (
        member.start,
        lambda: member.make_offer({}),
        lambda: member.receive_answer(b""),
        lambda: member.receive_block(tags),
        member.make_store,
    ):
        with pytest.raises(UsedTwice, match="a second time"):
            step()


def test_leader_used_twice() -> None:
    leader, _, _ = finished()
    for step in (
        lambda: leader.answer_offer("shop", b""),
        leader.matrix_blocks,
        lambda: leader.receive_store("shop", np.empty((0, 8), np.uint8)),
        leader.finish,
    ):
        with pytest.raises(UsedTwice, match="a second time"):
            step()


def test_a_refused_message_cannot_be_sent_again() -> None:
    leader, _, offer = offered()
    with pytest.raises(PsiError):
        leader.answer_offer("shop", b"")
    with pytest.raises(UsedTwice):
        leader.answer_offer("shop", offer)


def test_steps_out_of_order() -> None:
    leader, member = pair()
    for early in (
        lambda: leader.bucket,  # opens it
        lambda: member.make_offer({}),
        lambda: member.bucket,
    ):
        with pytest.raises(PsiError, match="too early"):
            early()


def test_store_before_the_end_of_the_matrix() -> None:
    leader, member = pair()
    run_base_ot(leader, {"shop": member})
    next(leader.matrix_blocks())
    with pytest.raises(PsiError, match="too early") as caught:
        leader.receive_store("shop", np.empty((0, 8), np.uint8))
    assert "the next step is the last block of the matrix" in str(caught.value)


def test_finish_without_every_store() -> None:
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS})
    run_until_stores(leader, members)
    leader.receive_store("shop", members["shop"].make_store())
    with pytest.raises(PsiError, match="leader, with bank: the step finish was called too early"):
        leader.finish()
    leader.receive_store("bank", members["bank"].make_store())
    assert leader.finish().rows.tolist() == [0, 1, 2]
