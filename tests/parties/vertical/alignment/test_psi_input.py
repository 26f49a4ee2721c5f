"""Input of the intersection: peers see only the declared size, and buckets keep their meaning."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psi_process
import pytest
from three_parties import agreement
from whole_run import run

from parties.common.errors import PolicyError
from parties.vertical.alignment.psi_input import PsiInput, check_claimed_rows
from parties.vertical.alignment.row_order import order_secret
from psi.alignment import inverse_permutation, order_words
from psi.errors import PsiError
from psi.id_list import IdList
from psi.ids import bind_to_session, fingerprint_ids, session_hashes

SESSION = b"a session of tests"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("brought")
    psi_process.certify(made, 2)
    return made


def psi_input(folder: Path, ids: list[bytes]) -> PsiInput:
    return PsiInput(psi_process.take_part(folder, "p1", 2, ids))


def people(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_buckets_hold_all_rows_and_their_hashes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    input_ = psi_input(folder, people(3000))
    input_.begin(4, 0)
    input_.hash_ids()
    places = [np.arange(len(input_.hashes(b, SESSION)), dtype=np.uint32) for b in range(4)]
    rows = input_.rows(places)
    assert sorted(rows.tolist()) == list(range(3000))
    monkeypatch.setattr("parties.vertical.alignment.psi_input.RANKS_AT_ONCE", 700)
    order = np.random.default_rng(1).permutation(3000)
    prints = np.concatenate(list(input_.fingerprints(places, inverse_permutation(order))))
    secret = order_secret(input_._party.agreement)
    expected = session_hashes(people(3000), SESSION, secret)
    assert np.array_equal(bind_to_session(prints, SESSION), expected[rows[order]])
    words = input_.order_words(places, 0)
    (whole,) = fingerprint_ids(people(3000), secret)
    assert np.array_equal(words, order_words(whole, secret, 0)[rows])
    input_.remove()


def test_small_sets_leave_no_file(folder: Path) -> None:
    input_ = psi_input(folder, people(30))
    input_.begin(1, 0)
    input_.hash_ids()
    input_.write_result(0, np.zeros((3, 12), np.uint8))
    assert not (folder / "p1" / "psi").exists()
    assert input_.read_result(0, 12).shape == (3, 12)


def test_completed_buckets_are_valid_for_the_same_rows_only(folder: Path) -> None:
    input_ = psi_input(folder, people(30))
    input_.begin(3, 0)
    input_.write_result(0, np.zeros((1, 12), np.uint8))
    assert psi_input(folder, people(30)).completed == 1
    assert psi_input(folder, people(31)).completed == 0
    assert psi_input(folder, people(30)[::-1]).completed == 0
    input_.remove()
    assert psi_input(folder, people(30)).completed == 0


def test_completed_buckets_are_valid_for_the_same_known_rows_only(folder: Path) -> None:
    party = psi_process.take_part(folder, "p1", 2, people(30))
    known = np.arange(30) < 10
    input_ = PsiInput(party, known)
    input_.begin(3, 0)
    input_.write_result(0, np.zeros((1, 12), np.uint8))
    assert PsiInput(party, known).completed == 1
    assert PsiInput(party, known[::-1]).completed == 0
    assert PsiInput(party).completed == 0
    input_.remove()


def test_known_rows_are_in_the_bucket_after_the_last(folder: Path) -> None:
    party = psi_process.take_part(folder, "p1", 2, people(300))
    known = np.arange(300) % 3 == 0
    input_ = PsiInput(party, known)
    input_.begin(4, 0)
    input_.hash_ids()
    assert (input_.size, input_.skipped, list(input_.ids)) == (
        200,
        100,
        [each for row, each in enumerate(people(300)) if row % 3],
    )
    places = [np.arange(len(input_.hashes(b, SESSION)), dtype=np.uint32) for b in range(4)]
    assert sorted(input_.rows(places).tolist()) == np.flatnonzero(~known).tolist()
    rows = input_.rows([*places, input_.known_places])
    assert sorted(rows.tolist()) == list(range(300))
    assert sorted(rows[200:].tolist()) == np.flatnonzero(known).tolist()
    input_.remove()


def test_known_and_new_rows_with_one_id_are_refused(folder: Path) -> None:
    party = psi_process.take_part(folder, "p1", 2, [*people(20), b"7"])
    input_ = PsiInput(party, np.isin(np.arange(21), [7, 20]))
    input_.begin(1, 0)
    with pytest.raises(PsiError, match="p1: duplicate IDs in rows 7 and 20"):
        input_.hash_ids()


@pytest.mark.parametrize("buckets", [1, 5])
def test_duplicates_are_refused_by_row(folder: Path, buckets: int) -> None:
    input_ = psi_input(folder, [*people(2000), b"17"])
    input_.begin(buckets, 0)
    with pytest.raises(PsiError, match=r"p1: duplicate IDs in rows 17 and 2000 \("):
        input_.hash_ids()
    input_.remove()


# Declared sizes


def declaring(**rows: int) -> dict[str, Any]:
    plan = agreement()["parties"]
    return {"parties": {name: {**each, **_declared(rows, name)} for name, each in plan.items()}}


def _declared(rows: dict[str, int], name: str) -> dict[str, int]:
    return {"declared_rows": rows[name]} if name in rows else {}


@contextmanager
def claimed_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, int]]]:
    """The number of rows that each peer claimed."""
    claimed: set[tuple[str, int]] = set()

    def recorded_check(party, peer, rows):
        claimed.add((peer, rows))
        return check_claimed_rows(party, peer, rows)

    monkeypatch.setattr("parties.vertical.alignment.psi_input.check_claimed_rows", recorded_check)
    yield claimed


def test_peers_learn_the_declared_sizes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plain", "padded"):
        (tmp_path / name).mkdir()
    plain = run(tmp_path / "plain")
    with claimed_rows(monkeypatch) as claimed:
        padded = run(tmp_path / "padded", **declaring(hub=700, left=5000, right=900))
    assert claimed == {("hub", 700), ("left", 5000), ("right", 900)}
    assert padded["run"]["common_rows"] == plain["run"]["common_rows"]


def test_more_rows_than_declared_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="hub has more rows than its declared_rows = 100"):
        run(tmp_path, **declaring(hub=100))


def test_peer_with_another_size_than_declared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.vertical.alignment.psi_input._declared", lambda party, rows: rows)
    with pytest.raises(PolicyError, match="left has 230 rows, but its declared_rows is 400"):
        run(tmp_path, **declaring(left=400))


def test_any_sequence_of_ids_is_accepted(folder: Path) -> None:
    ids = IdList.of(people(5))
    assert psi_input(folder, ids).ids is ids  # type: ignore[arg-type]
