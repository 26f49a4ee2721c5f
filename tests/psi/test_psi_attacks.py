"""The attacks that psi/README.md admits, carried out: what it says they can do, and no more."""

from dataclasses import replace

import numpy as np
import pytest
from psi_run import SESSION, Leader, absorbed, accepted, parties, residual, streamed

from psi.aes import keystream
from psi.ids import hashed
from psi.loops import PLAIN
from psi.okvs import decode, layout
from psi.oprf import Readings, bucket_seed, positions
from psi.zero_share import zero_shares


def people(*numbers: int) -> list[bytes]:
    return [f"person {number}".encode() for number in numbers]


def guessed(leader: Leader, member: str, store: np.ndarray, guesses: list[bytes]) -> np.ndarray:
    """What a leader that kept its keys computes for any ``guesses``: 0 where it could confirm one.

    It treats its own matrix A as if it were the member's C, which is true where D is zero.
    """
    pairing = leader._pairings[member]
    terms, hashes = pairing.terms, hashed(guesses, SESSION)
    readings = Readings(len(guesses), terms.width)
    where = positions(leader._position_key, SESSION, hashes, terms.rows)
    for j, keys in enumerate(pairing._kept):  # type: ignore[attr-defined]
        seed = bucket_seed(keys[0], terms, j)
        readings.read(keystream(seed, terms.rows // 8), next(where))
    pads, _ = readings.outputs(terms)
    return decode(layout(terms), store, hashes) ^ pads


def attacked(member_ids: dict[str, list[bytes]], guesses: list[bytes]) -> list[np.ndarray]:
    """Run a leader with one ID against ``member_ids`` and guess in every store."""
    leader, members = parties(people(0), member_ids)
    absorbed_and_kept(leader, members)
    return [guessed(leader, name, members[name].store(), guesses) for name in members]


def absorbed_and_kept(leader: Leader, members: dict) -> None:
    """As an honest leader, but without forgetting the keys of the base OT."""
    accepted(leader, members)
    for pairing in leader._pairings.values():
        evaluate = pairing.evaluate
        pairing.evaluate = lambda p=pairing, e=evaluate: (setattr(p, "_kept", p._keys), e())
    streamed(leader, members)


def hits(residual: np.ndarray) -> list[int]:
    return np.flatnonzero(~residual.any(axis=1)).tolist()


@pytest.fixture
def zero_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dishonest leader's attack: D is zero everywhere."""
    bad = replace(PLAIN, zeros_at=lambda _, rows: np.zeros(rows // 8, np.uint8))
    monkeypatch.setattr("psi.leader_bucket.loops", lambda _: bad)


def test_an_honest_matrix_confirms_no_guess() -> None:
    (residual,) = attacked({"shop": people(*range(5, 50))}, people(*range(100)))
    assert hits(residual) == []


@pytest.mark.usefixtures("zero_matrix")
def test_an_all_zero_matrix_confirms_every_guess_with_two_parties() -> None:
    (residual,) = attacked({"shop": people(*range(5, 50))}, people(*range(100)))
    assert hits(residual) == list(range(5, 50))


@pytest.mark.usefixtures("zero_matrix")
def test_an_all_zero_matrix_confirms_only_rows_of_all_members_with_three_parties() -> None:
    first, second = attacked(
        {"shop": people(*range(5, 50)), "bank": people(*range(40, 90))}, people(*range(100))
    )
    assert hits(first) == hits(second) == []
    assert hits(first ^ second) == list(range(40, 50))


def test_leader_and_one_of_two_members_together_see_the_other_pair() -> None:
    ids = people(*range(30))
    leader, members = parties(ids, {"shop": people(*range(10, 60)), "bank": people(500)})
    absorbed(leader, members)
    found = residual(leader, "shop", members["shop"].store())
    theirs = zero_shares(members["bank"].bucket._secrets.pair_keys, hashed(ids, SESSION), 8)
    assert hits(found) == []
    assert hits(found ^ theirs) == list(range(10, 30))


def test_leader_and_one_of_three_members_together_see_no_pair() -> None:
    ids = people(*range(30))
    leader, members = parties(
        ids, {"shop": ids, "bank": people(500), "lab": people(*range(20, 30))}
    )
    absorbed(leader, members)
    theirs = zero_shares(members["bank"].bucket._secrets.pair_keys, hashed(ids, SESSION), 8)
    stores = {name: members[name].store() for name in members}
    found = {name: residual(leader, name, stores[name]) for name in members}
    assert hits(found["shop"] ^ theirs) == hits(found["lab"] ^ theirs) == []
    assert hits(found["shop"] ^ found["lab"] ^ theirs) == list(range(20, 30))
