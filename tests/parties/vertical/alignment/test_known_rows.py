"""Going on from a kept version: the same common rows as by the intersection of all rows."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import numpy as np
import psi_process
import pytest

from parties.common.errors import PolicyError
from parties.common.progress import ProgressReporter
from parties.session import handshake
from parties.session.handshake import CheckpointOffer
from parties.session.memory_port import MemoryPort
from parties.session.reconnect import report_and_close
from parties.session.setup import NEWEST
from parties.vertical.alignment.align import Alignment, align_active, align_passive
from parties.vertical.alignment.known_rows import held_rows, version_party
from parties.vertical.alignment.psi_input import PsiInput
from parties.vertical.engine.networks import KeptPart
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2
from protocol.errors import ProtocolError

SKIPPED, ALL = "only other rows cross", "all rows cross"
Ids = Mapping[str, Sequence[bytes]]  # of each party


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("parties")
    psi_process.certify(made, 3)
    return made


def version_of(ids: Sequence[bytes], parties: Sequence[str]) -> KeptPart:
    """A version with these rows."""
    none: dict[str, Any] = {"anew": "", "digest": "", "widths": {}, "statistics": None}
    found = frozenset(ids)
    return KeptPart(bytes(16), 1, tuple(parties), ids=found, trained=found, parameters={}, **none)


def going_on(
    folder: Path, held: Ids, versions: Mapping[str, KeptPart | None], **changes: Any
) -> dict[str, VerticalParty]:
    """Parties that hold these IDs and go on from these versions."""
    plan = psi_process.agreement(len(held), **{"psi": {"minimum": 1}, **changes})
    parties = {}
    for name, ids in held.items():
        party = psi_process.take_part(folder, name, len(held), ids)
        base, watch = versions[name], ProgressReporter(name, lambda event: None)
        options = {"agreement": plan, "base": base, "continues": NEWEST, "progress": watch}
        parties[name] = replace(party, **options)
    return parties


def align(parties: Mapping[str, VerticalParty]) -> dict[str, Alignment]:
    """Align all parties over memory lines."""
    port, ended = MemoryPort(), Event()

    def follow(name: str) -> Alignment:
        us = parties[name]
        channel = handshake.join_hub(us, lambda: port.connect(name), CheckpointOffer(), 20.0)
        with report_and_close(channel):
            opened = channel.receive(20.0).expect(vfl_pb2.StartAlignment)
            found = align_passive(us, channel, opened)
            ended.wait(20.0)  # closing at once could overtake the last message
            return found

    def lead() -> Alignment:
        hub, _ = handshake.accept_spokes(parties[psi_process.HUB], port, 20.0)
        with report_and_close(hub):
            try:
                return align_active(parties[psi_process.HUB], hub)
            finally:
                ended.set()

    with ThreadPoolExecutor(len(parties)) as pool:
        runs = {
            name: pool.submit(lead if name == psi_process.HUB else follow, *names)
            for name, names in ((each, [each] * (each != psi_process.HUB)) for each in parties)
        }
        failures = [each.exception(60) for each in runs.values()]
    for each in filter(None, failures):
        raise each
    return {name: each.result() for name, each in runs.items()}


def found_ids(parties: Mapping[str, VerticalParty], found: Mapping[str, Alignment]) -> list[bytes]:
    """The IDs of the common rows in the common order, which must be that of all parties."""
    lists = [[parties[name].holding.ids[row] for row in found[name].rows] for name in parties]
    assert all(each == lists[0] for each in lists)
    assert len({each.digest for each in found.values()}) == 1
    return lists[0]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The notes of all parties."""
    found: list[str] = []
    monkeypatch.setattr(ProgressReporter, "note", lambda self, text: found.append(text))
    return found


@pytest.fixture
def crossing(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The IDs that parties brought to the intersections: those of all comparisons, too."""
    found: list[list[bytes]] = []
    begin = PsiInput.begin

    def recorded(self: PsiInput, buckets: int, completed: int) -> None:
        found.append(list(self.ids))
        begin(self, buckets, completed)

    monkeypatch.setattr(PsiInput, "begin", recorded)
    return found


class Case:
    """A random federation: rows of a version, of which some are lost, and other rows."""

    def __init__(self, seed: int, *, loses: bool) -> None:
        random = Random(seed)
        names = psi_process.names(random.choice([2, 3]))
        universe = [b"person-%d" % number for number in range(80)]
        random.shuffle(universe)
        version = universe[: random.randint(1, 40)]
        self.forgotten = version[: random.randint(0, len(version) - 1)]
        self.version = version[len(self.forgotten) :]
        share = random.choice([0.0, 0.3, 0.9])
        new = random.choice([*names, None])  # only this party has new rows, or every party may
        self.held: dict[str, list[bytes]] = {}
        for name in names:
            others = [
                each
                for each in universe[len(version) :]
                if random.random() < share and new in (None, name)
            ]
            self.held[name] = [*self.version, *others]
            random.shuffle(self.held[name])
        if loses:
            for name in random.sample(names, random.randint(1, len(names))):
                gone = random.sample(self.version, random.randint(1, len(self.version)))
                kept = [each for each in self.held[name] if each not in gone]
                self.held[name] = [*kept, b"only at " + name.encode()]

    @property
    def common(self) -> set[bytes]:
        """The plain intersection."""
        return set.intersection(*map(set, self.held.values()))

    def versions(self) -> dict[str, KeptPart]:
        """Every party's part of the version."""
        return dict.fromkeys(self.held, version_of(self.version, list(self.held)))


def compare_with_all_rows(folder: Path, case: Case, **changes: Any) -> None:
    """The alignment that goes on, against a plain intersection and an alignment of all rows."""
    parties = going_on(folder, case.held, case.versions(), **changes)
    found = found_ids(parties, found_rows := align(parties))
    assert set(found) == case.common
    whole = {name: replace(each, continues="", base=None) for name, each in parties.items()}
    for name, each in align(whole).items():
        assert np.array_equal(each.rows, found_rows[name].rows)


@pytest.mark.parametrize("security", ["semi_honest", "hardened"])
@pytest.mark.parametrize("seed", range(6))
def test_new_rows_alone_give_the_same_rows_in_the_same_order(
    folder: Path, notes: list[str], crossing: list[list[bytes]], seed: int, security: str
) -> None:
    case = Case(seed, loses=False)
    compare_with_all_rows(folder, case, psi={"minimum": 1, "security": security})
    assert len(notes) == len(case.held)
    assert all(SKIPPED in each for each in notes)
    first, parties = min(case.version), len(case.held)
    assert all(not set(each) & {*case.version} - {first} for each in crossing[: 2 * parties])
    assert not set.union(*map(set, crossing)) & {*case.forgotten}


@pytest.mark.parametrize("security", ["semi_honest", "hardened"])
@pytest.mark.parametrize("seed", range(10, 14))
def test_lost_rows_let_all_rows_cross(
    folder: Path, notes: list[str], seed: int, security: str
) -> None:
    case = Case(seed, loses=True)
    while not case.common:
        case = Case(seed := seed + 100, loses=True)
    compare_with_all_rows(folder, case, psi={"minimum": 1, "security": security})
    assert all(ALL in each for each in notes)


def test_buckets_change_nothing_in_the_result(
    folder: Path, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psi.buckets.MIN_BUCKET_IDS", 20)
    monkeypatch.setattr("psi.buckets.MAX_UNCUT_IDS", 40)
    people = [b"person-%d" % number for number in range(200)]
    held = {name: people[number : 150 + number] for number, name in enumerate(["hub", "p1"])}
    versions = dict.fromkeys(held, version_of(people[5:50], list(held)))
    parties = going_on(folder, held, versions)
    assert set(found_ids(parties, align(parties))) == set(people[1:150])
    assert all(SKIPPED in each for each in notes)
    assert not list(folder.rglob("psi"))


def test_rows_that_were_not_common_become_common(folder: Path, notes: list[str]) -> None:
    """One party had them when the version was trained; now the other party has them, too."""
    held = {"hub": [b"a", b"b", b"late"], "p1": [b"late", b"b", b"a", b"own"]}
    parties = going_on(folder, held, dict.fromkeys(held, version_of([b"a", b"b"], list(held))))
    assert set(found_ids(parties, align(parties))) == {b"a", b"b", b"late"}
    assert all(SKIPPED in each for each in notes)


def test_parties_with_other_versions_intersect_all_rows(folder: Path, notes: list[str]) -> None:
    """One party's version still lists a row that the other one erased."""
    held = {"hub": [b"a", b"b", b"c"], "p1": [b"c", b"b", b"a"]}
    versions = {"hub": version_of([b"a", b"b"], ["hub", "p1"])}
    parties = going_on(folder, held, versions | {"p1": version_of([b"a", b"b", b"c"], ["hub"])})
    assert set(found_ids(parties, align(parties))) == {b"a", b"b", b"c"}
    assert all(ALL in each for each in notes)


def test_with_a_new_party_all_rows_cross(folder: Path, notes: list[str]) -> None:
    held = {"hub": [b"a", b"b", b"c"], "p1": [b"c", b"b", b"a"], "p2": [b"b", b"c", b"a"]}
    old = version_of([b"a", b"b"], ["hub", "p1"])
    parties = going_on(folder, held, {"hub": old, "p1": old, "p2": None})
    assert set(found_ids(parties, align(parties))) == {b"a", b"b", b"c"}
    assert sorted(set(notes))[1] == "all rows cross the intersection: this party has no version"
    assert len(notes) == 4  # one of them: p2 is new


def test_comparison_does_not_show_who_lacks_rows(folder: Path) -> None:
    """A party that lacks a row brings random bytes, so it is like one that lacks another row."""
    rows = [b"a", b"b"]
    held = {"hub": rows, "p1": rows[:1], "p2": rows}
    versions = dict.fromkeys(held, version_of(rows, list(held)))
    parties = going_on(folder, held, versions)
    copies = {name: version_party(each, held_rows(each)) for name, each in parties.items()}
    same = {name: copy.holding.ids for name, copy in copies.items()}
    assert same["hub"] == same["p2"] != same["p1"]
    assert same["p1"][0] == same["hub"][0]
    again = version_party(parties["p1"], held_rows(parties["p1"]))
    assert again.holding.ids[1] != same["p1"][1]
    compared = align({name: replace(each, continues="") for name, each in copies.items()})
    assert [len(each) for each in compared.values()] == [1, 1, 1]


def test_declared_sizes_hide_the_numbers_of_new_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [b"person-%d" % number for number in range(30)]
    held = {"hub": rows, "p1": rows[:22]}
    versions = dict.fromkeys(held, version_of(rows[:20], list(held)))
    parties, claimed = going_on(folder, held, versions), set[tuple[str, int]]()
    for name, each in parties.items():
        entries = each.agreement.parties
        declared = {
            peer: entries[peer].model_copy(update={"declared_rows": count})
            for peer, count in (("hub", 90), ("p1", 40))
        }
        agreement = each.agreement.model_copy(update={"parties": declared})
        parties[name] = replace(each, agreement=agreement)
    check = PsiInput.check_claim

    def recorded(self: PsiInput, name: str, count: int) -> int:
        claimed.add((name, count))
        return check(self, name, count)

    monkeypatch.setattr(PsiInput, "check_claim", recorded)
    assert len(found_ids(parties, align(parties))) == 22
    # Two IDs in the comparison, then the declared rows without 19 of the version's 20.
    assert claimed == {("hub", 2), ("p1", 2), ("hub", 90 - 19), ("p1", 40 - 19)}


def test_another_number_of_ids_in_the_comparison_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More IDs would be guesses."""
    held = {"hub": [b"a", b"b"], "p1": [b"b", b"a"]}
    parties = going_on(folder, held, dict.fromkeys(held, version_of([b"a", b"b"], list(held))))
    init = PsiInput.__init__

    def more(self: PsiInput, party: VerticalParty, *known: Any) -> None:
        init(self, party, *known)
        self.size += party.name == "hub"

    monkeypatch.setattr(PsiInput, "__init__", more)
    with pytest.raises((PolicyError, ProtocolError), match="hub queries 3 rows"):
        align(parties)


def test_party_that_lets_other_rows_cross_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parties disagree about which rows of the version are known."""
    held = {"hub": [b"a", b"b", b"c", b"d"], "p1": [b"d", b"c", b"b", b"a"]}
    version = version_of([b"a", b"b", b"c"], list(held))
    parties = going_on(folder, held, dict.fromkeys(held, version))
    init = PsiInput.__init__

    def fewer(self: PsiInput, party: VerticalParty, known: Any = None) -> None:
        if known is not None and party.name == "p1":
            known = known & np.array([each != b"b" for each in party.holding.ids])
        init(self, party, known)

    monkeypatch.setattr(PsiInput, "__init__", fewer)
    with pytest.raises(ProtocolError, match="computed another alignment"):
        align(parties)
