"""Attacks of a dishonest leader in the hardened mode: it can test as many IDs as it declared."""

import numpy as np
import pytest
from hardened_run import parties
from psi_run import SESSION

from psi.domain import labelled_bytes
from psi.errors import PsiError, UsedTwice
from psi.group import add_points, hash_to_point, multiply_generator, multiply_point, subtract_points
from psi.hardened_member import HardenedMember
from psi.hardened_oprf import hash_outputs
from psi.ids import session_hashes
from psi.okvs import decode_store, store_layout

CAP = 3  # the number of IDs that the leader declared
HELD = [b"person %d" % number for number in range(5, 50)]  # by every member
GUESSES = [b"person %d" % number for number in range(100)]
SECRET = b"\7" + bytes(31)


def point(identity: bytes) -> bytes:
    """H(x), which any party can compute."""
    return hash_to_point(labelled_bytes("hardened-point", SESSION) + identity)


def run(members: dict[str, HardenedMember], points: list[bytes]) -> dict[str, list[bytes]]:
    """Send ``points`` as blinded IDs to every member; the evaluated points of each member."""
    shares = {name: member.start() for name, member in members.items()}
    for member in members.values():
        member.receive_blinded(np.frombuffer(b"".join(points), np.uint8).reshape(-1, 32))
    return {
        name: [bytes(row) for block in member.evaluate(shares) for row in block]
        for name, member in members.items()
    }


def residual(member: HardenedMember, known: list[bytes]) -> np.ndarray:
    """The leader's residual [n, ℓ] of all guesses; ``known`` are its candidates for k·H(x)."""
    member.prove()
    store = member.make_store()
    pads, _ = hash_outputs(member._parameters, GUESSES, b"".join(known))
    layout = store_layout(member._parameters)
    return decode_store(layout, store, session_hashes(GUESSES, SESSION)) ^ pads


def hits(left: np.ndarray) -> list[int]:
    return np.flatnonzero(~left.any(axis=1)).tolist()


def attacked(points: list[bytes], best: dict[int, int], **held: list[bytes]) -> list[np.ndarray]:
    """The residuals of all members; ``best`` maps a guess to its evaluated point, by default 0."""
    _, members = parties([b"a", b"b", b"c"], held or {"shop": HELD})
    evaluated = run(members, points)
    return [
        residual(member, [evaluated[name][best.get(guess, 0)] for guess in range(len(GUESSES))])
        for name, member in members.items()
    ]


def test_as_many_guesses_as_declared_are_confirmed_and_no_others() -> None:
    """Three blinded IDs, used for guesses instead of own rows: three of a hundred can be tested."""
    tested = {3: 0, 10: 1, 20: 2}
    (left,) = attacked([point(GUESSES[guess]) for guess in tested], tested)
    assert hits(left) == [10, 20]


def test_one_blinded_id_more_than_declared_is_refused() -> None:
    _, members = parties([b"a", b"b", b"c"], {"shop": HELD})
    with pytest.raises(PsiError, match="blinded IDs: a block of points"):
        run(members, [point(guess) for guess in GUESSES[: CAP + 1]])


def test_a_second_list_of_blinded_ids_is_refused() -> None:
    _, members = parties([b"a", b"b", b"c"], {"shop": HELD})
    points = [point(guess) for guess in GUESSES[:CAP]]
    run(members, points)
    with pytest.raises(UsedTwice):
        members["shop"].receive_blinded(np.frombuffer(b"".join(points), np.uint8).reshape(-1, 32))


def test_the_generator_as_blinded_id_confirms_nothing() -> None:
    """k·G, which is the public commitment, gives no k·H(x): the logarithm of H(x) is unknown."""
    (left,) = attacked([multiply_generator(SECRET)] * CAP, {})
    assert hits(left) == []


def test_a_sum_of_two_ids_confirms_neither() -> None:
    both = add_points(point(GUESSES[10]), point(GUESSES[20]))
    (left,) = attacked([both, multiply_point(SECRET, both), point(GUESSES[3])], {10: 0, 20: 1})
    assert hits(left) == []


def test_a_sum_needs_as_many_blinded_ids_as_ids() -> None:
    """The sum and one of two points give the other: two evaluated points for two IDs."""
    _, members = parties([b"a", b"b", b"c"], {"shop": HELD})
    both = add_points(point(GUESSES[10]), point(GUESSES[20]))
    answers = run(members, [both, point(GUESSES[10]), point(GUESSES[3])])["shop"]
    known = [answers[2]] * len(GUESSES)
    known[10], known[20] = answers[1], subtract_points(answers[0], answers[1])
    assert hits(residual(members["shop"], known)) == [10, 20]


def test_with_three_parties_a_guess_is_confirmed_only_if_all_members_hold_it() -> None:
    tested = {10: 0, 20: 1, 45: 2}
    points = [point(GUESSES[guess]) for guess in tested]
    first, second = attacked(points, tested, shop=HELD[:20], bank=HELD[10:])
    assert hits(first) == hits(second) == []
    assert hits(first ^ second) == [20]


def test_evaluated_ids_of_another_session_confirm_nothing() -> None:
    """The key is fresh in every session, so evaluated IDs cannot be collected over sessions."""
    answers = []
    for seed in ("one", "two"):
        _, members = parties([b"a", b"b", b"c"], {"shop": HELD}, seed=seed)
        answers.append(run(members, [point(GUESSES[g]) for g in (10, 11, 12)])["shop"])
    known = [answers[0][guess % 3] for guess in range(len(GUESSES))]
    assert hits(residual(members["shop"], known)) == []
