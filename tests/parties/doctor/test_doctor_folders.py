"""``vfl doctor``: checks of ports, folders, disks and the temporary folder."""

import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from party_folder import PartyFolder, expect_failure

from parties.doctor import folders
from tests.conftest import HUB


def test_a_port_that_is_taken_is_refused(party_folder: PartyFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        expect_failure(
            party_folder, HUB, 7, "check that the party is not running already", at=address
        )


def test_an_address_of_another_machine_is_refused(party_folder: PartyFolder) -> None:
    expect_failure(party_folder, HUB, 7, "that the address is of this machine", at="192.0.2.1:7700")


def test_a_port_that_only_this_machine_reaches_is_seen(party_folder: PartyFolder) -> None:
    assert party_folder.findings(HUB, at="localhost:0")["port"]["state"] == "warning"


def test_a_folder_that_cannot_be_written_to_is_refused(party_folder: PartyFolder) -> None:
    (party_folder.folder / "runs").write_text("a file")
    expect_failure(party_folder, HUB, 7, "cannot be written to or locked")


@pytest.mark.parametrize(("free", "state"), [(1 << 20, "fail"), (1 << 30, "warning")])
def test_a_disk_that_is_nearly_full_is_seen(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    usage = shutil.disk_usage(party_folder.folder)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    assert party_folder.findings(HUB)["state folder"]["state"] == state


def test_a_file_system_of_another_machine_is_seen(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_REMOTE", (folders._file_system(party_folder.folder),))
    assert "lies on" in party_folder.findings(HUB)["state folder"]["message"]


def test_the_nearest_mount_is_the_one_that_counts() -> None:
    assert folders._file_system(Path("/proc/self")) == "proc"


def test_a_state_folder_that_others_may_look_into_is_seen(party_folder: PartyFolder) -> None:
    state = party_folder.folder / "runs" / "trial" / HUB
    state.mkdir(parents=True)
    state.chmod(0o755)
    assert "chmod o=" in party_folder.findings(HUB)["state folder"]["hint"]


def test_a_report_that_would_be_replaced_is_seen(party_folder: PartyFolder) -> None:
    (party_folder.folder / "runs" / "trial").mkdir(parents=True)
    (party_folder.folder / "runs" / "trial" / "metrics.json").touch()
    assert "earlier run" in party_folder.findings(HUB)["out folder"]["message"]


def test_a_temporary_folder_without_exec_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noexec:
        f_flag = folders.os.ST_NOEXEC

    monkeypatch.setattr(folders.os, "statvfs", lambda folder: Noexec)
    found = list(folders.check_temporary_folder())
    assert [each.code for each in found] == [7]
    assert "TMPDIR" in found[0].hint


def test_no_temporary_folder_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert [each.code for each in folders.check_temporary_folder()] == [7]
