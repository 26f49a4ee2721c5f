"""``vfl doctor``: checks of ports, folders, disks and the temporary folder."""

import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from party_folder import PartyFolder, expect_failure

from parties.doctor import folders
from tests.conftest import HUB


def test_used_port_is_refused(party_folder: PartyFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        expect_failure(
            party_folder, HUB, 7, "check that the party is not running already", at=address
        )


def test_an_address_of_another_machine_is_refused(party_folder: PartyFolder) -> None:
    expect_failure(party_folder, HUB, 7, "that this machine has the address", at="192.0.2.1:7700")


def test_port_on_loopback_only_gives_a_warning(party_folder: PartyFolder) -> None:
    assert party_folder.findings(HUB, at="localhost:0")["port"]["state"] == "warning"


def test_read_only_folder_is_refused(party_folder: PartyFolder) -> None:
    (party_folder.folder / "runs").write_text("a file")
    expect_failure(party_folder, HUB, 7, "cannot be written to or locked")


@pytest.mark.parametrize(("free", "state"), [(1 << 20, "fail"), (1 << 30, "warning")])
def test_nearly_full_disk_gives_a_warning(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    usage = shutil.disk_usage(party_folder.folder)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    assert party_folder.findings(HUB)["state folder"]["state"] == state


def test_network_file_system_gives_a_warning(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_REMOTE", (folders._file_system(party_folder.folder),))
    assert "lies on" in party_folder.findings(HUB)["state folder"]["message"]


def test_innermost_mount_is_used() -> None:
    assert folders._file_system(Path("/proc/self")) == "proc"


def test_state_folder_readable_by_others_gives_a_warning(party_folder: PartyFolder) -> None:
    state = party_folder.folder / "runs" / "trial" / HUB
    state.mkdir(parents=True)
    state.chmod(0o755)
    assert "chmod o=" in party_folder.findings(HUB)["state folder"]["hint"]


def test_report_that_would_be_replaced_gives_a_warning(party_folder: PartyFolder) -> None:
    (party_folder.folder / "runs" / "trial").mkdir(parents=True)
    (party_folder.folder / "runs" / "trial" / "metrics.json").touch()
    assert "earlier run" in party_folder.findings(HUB)["out folder"]["message"]


def test_a_temporary_folder_without_exec_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noexec:
        f_flag = folders.os.ST_NOEXEC

    monkeypatch.setattr(folders.os, "statvfs", lambda folder: Noexec)
    findings = list(folders.check_temporary_folder())
    assert [each.code for each in findings] == [7]
    assert "TMPDIR" in findings[0].hint


def test_missing_temporary_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert [each.code for each in folders.check_temporary_folder()] == [7]
