"""Journals of two parties from older backups, while the third party has their later events."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from kept_trio import KeptTrio, train_trio
from test_columns_leave import FEW, drop, receipts, views
from three_parties import PARTIES

from parties.requests.events import EventKind
from parties.requests.lifecycle import RequestState

RESTORED = [("hub", "left"), ("hub", "right"), ("left", "right"), ("hub",), ("left",)]


def journals(trio: KeptTrio, name: str) -> list[Path]:
    """The files of a party's journal."""
    return sorted((trio.folder / "runs" / "trio" / name).glob("requests.sqlite*"))


def restore_journals(trio: KeptTrio, backup: Path, names: Sequence[str]) -> None:
    """Replace the journals of some parties by those of a backup, which may have none."""
    for name in names:
        for path in journals(trio, name):
            path.unlink()
        for path in (backup / name).glob("requests.sqlite*"):
            shutil.copy(path, trio.folder / "runs" / "trio" / name)


def save_journals(trio: KeptTrio, backup: Path) -> None:
    """Copy the journals of all parties."""
    for name in PARTIES:
        (backup / name).mkdir(parents=True)
        for path in journals(trio, name):
            shutil.copy(path, backup / name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties with a kept model, which tests copy."""
    return train_trio(tmp_path_factory.mktemp("trained"), **FEW)


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", dict(trained.plan))


@pytest.mark.parametrize("restored", RESTORED)
def test_owner_of_columns_gets_its_request_back_before_it_makes_one(
    trio: KeptTrio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored: tuple[str, ...]
) -> None:
    drop(trio, monkeypatch, left="z")
    save_journals(trio, tmp_path / "backup")
    trio.carry_out()
    before = receipts(trio)
    restore_journals(trio, tmp_path / "backup", restored)
    trio.carry_out()
    assert [each.state for each in views(trio)] == [RequestState.CERTIFIED]
    assert receipts(trio) == before
    heads = []
    for name in PARTIES:
        with closing(trio.desk(name)) as desk:
            heads.append(desk.journal.heads())
    assert heads == [heads[0]] * 3


@pytest.mark.parametrize("restored", RESTORED)
def test_parties_get_their_approvals_back_before_they_approve(
    trio: KeptTrio, tmp_path: Path, restored: tuple[str, ...]
) -> None:
    """The backups know the request, and not that the parties approved it."""
    trio.policies = dict.fromkeys(PARTIES, "roles")
    request = trio.request("left", [3, 5])
    trio.carry_out()
    save_journals(trio, tmp_path / "backup")
    trio.policies = {}
    trio.carry_out()
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    restore_journals(trio, tmp_path / "backup", restored)
    trio.carry_out()
    with closing(trio.desk("right")) as desk:
        events = desk.journal.events(request)
    approvals = [each.origin for each in events if each.kind is EventKind.APPROVED]
    assert sorted(approvals) == sorted(PARTIES)
