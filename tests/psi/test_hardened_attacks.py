"""A leader that cheats in the hardened mode: it learns of the IDs it paid for, and of no other."""

import numpy as np
import pytest
from hardened_run import parties
from psi_run import SESSION

from psi.blind import outputs
from psi.domain import framed
from psi.errors import PsiError, UsedTwice
from psi.group import added, generated, hashed_point, multiplied, subtracted
from psi.hardened_member import HardenedMember
from psi.ids import hashed
from psi.okvs import decode, layout

CAP = 3  # what the leader declared
HELD = [b"person %d" % number for number in range(5, 50)]  # by every member
GUESSES = [b"person %d" % number for number in range(100)]
SECRET = b"\7" + bytes(31)


def point(identity: bytes) -> bytes:
    """H(x), which anybody can compute."""
    return hashed_point(framed("hardened-point", SESSION) + identity)


def run(members: dict[str, HardenedMember], asks: list[bytes]) -> dict[str, list[bytes]]:
    """Ask every member what this leader likes; its answers."""
    shares = {name: member.start() for name, member in members.items()}
    for member in members.values():
        member.asked(np.frombuffer(b"".join(asks), np.uint8).reshape(-1, 32))
    return {
        name: [bytes(row) for block in member.answer(shares) for row in block]
        for name, member in members.items()
    }


def residual(member: HardenedMember, known: list[bytes]) -> np.ndarray:
    """What the leader computes for all guesses, ``known`` being its best k·H(x) for each."""
    member.prove()
    store = member.store()
    pads, _ = outputs(member._terms, GUESSES, b"".join(known))
    return decode(layout(member._terms), store, hashed(GUESSES, SESSION)) ^ pads


def hits(left: np.ndarray) -> list[int]:
    return np.flatnonzero(~left.any(axis=1)).tolist()


def attacked(asks: list[bytes], best: dict[int, int], **held: list[bytes]) -> list[np.ndarray]:
    """Residuals of all members; ``best`` says which answer is tried for which guess, else 0."""
    _, members = parties([b"a", b"b", b"c"], held or {"shop": HELD})
    answers = run(members, asks)
    return [
        residual(member, [answers[name][best.get(guess, 0)] for guess in range(len(GUESSES))])
        for name, member in members.items()
    ]


def test_guesses_that_were_paid_for_are_confirmed_and_no_others() -> None:
    """Three asks, spent on guesses instead of own rows: three of the hundred can be tested."""
    spent = {3: 0, 10: 1, 20: 2}
    (left,) = attacked([point(GUESSES[guess]) for guess in spent], spent)
    assert hits(left) == [10, 20]


def test_one_ask_more_than_declared_is_refused() -> None:
    _, members = parties([b"a", b"b", b"c"], {"shop": HELD})
    with pytest.raises(PsiError, match="asks: a block of points"):
        run(members, [point(guess) for guess in GUESSES[: CAP + 1]])


def test_a_second_list_of_asks_is_refused() -> None:
    _, members = parties([b"a", b"b", b"c"], {"shop": HELD})
    asks = [point(guess) for guess in GUESSES[:CAP]]
    run(members, asks)
    with pytest.raises(UsedTwice):
        members["shop"].asked(np.frombuffer(b"".join(asks), np.uint8).reshape(-1, 32))


def test_the_generator_as_ask_opens_nothing() -> None:
    """k·G, which the commitment tells anyway, is no k·H(x): nobody knows the logarithm of H(x)."""
    (left,) = attacked([generated(SECRET)] * CAP, {})
    assert hits(left) == []


def test_a_sum_of_two_ids_answers_for_neither() -> None:
    both = added(point(GUESSES[10]), point(GUESSES[20]))
    (left,) = attacked([both, multiplied(SECRET, both), point(GUESSES[3])], {10: 0, 20: 1})
    assert hits(left) == []


def test_a_sum_costs_as_many_asks_as_ids() -> None:
    """From the sum and one of two the other follows: two answers for two IDs."""
    _, members = parties([b"a", b"b", b"c"], {"shop": HELD})
    both = added(point(GUESSES[10]), point(GUESSES[20]))
    answers = run(members, [both, point(GUESSES[10]), point(GUESSES[3])])["shop"]
    known = [answers[2]] * len(GUESSES)
    known[10], known[20] = answers[1], subtracted(answers[0], answers[1])
    assert hits(residual(members["shop"], known)) == [10, 20]


def test_with_three_parties_a_guess_is_confirmed_only_if_all_members_hold_it() -> None:
    spent = {10: 0, 20: 1, 45: 2}
    asks = [point(GUESSES[guess]) for guess in spent]
    first, second = attacked(asks, spent, shop=HELD[:20], bank=HELD[10:])
    assert hits(first) == hits(second) == []
    assert hits(first ^ second) == [20]


def test_answers_of_another_session_open_nothing() -> None:
    """The key is fresh in every session, so asks cannot be saved up."""
    answers = []
    for seed in ("one", "two"):
        _, members = parties([b"a", b"b", b"c"], {"shop": HELD}, seed=seed)
        answers.append(run(members, [point(GUESSES[g]) for g in (10, 11, 12)])["shop"])
    known = [answers[0][guess % 3] for guess in range(len(GUESSES))]
    assert hits(residual(members["shop"], known)) == []
