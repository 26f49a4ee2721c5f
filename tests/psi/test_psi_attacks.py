"""The known attacks of psi/README.md on the semi-honest mode, carried out."""

from dataclasses import replace

import numpy as np
import pytest
from psi_run import SESSION, Leader, parties, residual, run_base_ot, run_matrix, run_until_stores

from psi.aes import aes_keystream
from psi.column_kernels import NUMPY_KERNELS
from psi.ids import session_hashes
from psi.okvs import decode_store, store_layout
from psi.oprf import RowBits, column_positions, column_seed
from psi.zero_share import zero_shares


def people(*numbers: int) -> list[bytes]:
    return [f"person {number}".encode() for number in numbers]


def guessed(leader: Leader, member: str, store: np.ndarray, guesses: list[bytes]) -> np.ndarray:
    """The residual [n, ℓ] of ``guesses`` for a leader that kept its keys: 0 confirms a guess.

    The leader uses its own matrix A for the member's C; the two are equal where D is zero.
    """
    pair = leader._pairs[member]
    parameters, hashes = pair.parameters, session_hashes(guesses, SESSION)
    row_bits = RowBits(len(guesses), parameters.width)
    where = column_positions(leader._position_key, SESSION, hashes, parameters.rows)
    for j, keys in enumerate(pair._kept):  # type: ignore[attr-defined]
        seed = column_seed(keys[0], parameters, j)
        row_bits.read(aes_keystream(seed, parameters.rows // 8), next(where))
    pads, _ = row_bits.outputs(parameters)
    return decode_store(store_layout(parameters), store, hashes) ^ pads


def attacked(member_ids: dict[str, list[bytes]], guesses: list[bytes]) -> list[np.ndarray]:
    """Run a leader with one ID; the residuals of ``guesses`` in the store of every member."""
    leader, members = parties(people(0), member_ids)
    run_and_keep_keys(leader, members)
    return [guessed(leader, name, members[name].make_store(), guesses) for name in members]


def run_and_keep_keys(leader: Leader, members: dict) -> None:
    """Run until the end of the matrix; the leader keeps the keys of the base OT."""
    run_base_ot(leader, members)
    for pair in leader._pairs.values():
        evaluate = pair.evaluate
        pair.evaluate = lambda p=pair, e=evaluate: (setattr(p, "_kept", p._keys), e())
    run_matrix(leader, members)


def hits(residual: np.ndarray) -> list[int]:
    return np.flatnonzero(~residual.any(axis=1)).tolist()


@pytest.fixture
def zero_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dishonest leader: D is zero everywhere."""
    bad = replace(NUMPY_KERNELS, pack_zeros=lambda _, rows: np.zeros(rows // 8, np.uint8))
    monkeypatch.setattr("psi.leader.select_kernels", lambda _: bad)


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
    run_until_stores(leader, members)
    residuals = residual(leader, "shop", members["shop"].make_store())
    theirs = zero_shares(members["bank"].bucket._secrets.pair_keys, session_hashes(ids, SESSION), 8)
    assert hits(residuals) == []
    assert hits(residuals ^ theirs) == list(range(10, 30))


def test_leader_and_one_of_three_members_together_see_no_pair() -> None:
    ids = people(*range(30))
    leader, members = parties(
        ids, {"shop": ids, "bank": people(500), "lab": people(*range(20, 30))}
    )
    run_until_stores(leader, members)
    theirs = zero_shares(members["bank"].bucket._secrets.pair_keys, session_hashes(ids, SESSION), 8)
    stores = {name: members[name].make_store() for name in members}
    residuals = {name: residual(leader, name, stores[name]) for name in members}
    assert hits(residuals["shop"] ^ theirs) == hits(residuals["lab"] ^ theirs) == []
    assert hits(residuals["shop"] ^ residuals["lab"] ^ theirs) == list(range(20, 30))
