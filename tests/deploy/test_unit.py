"""The systemd unit: it is as docs/deploy.md describes, and systemd can read it."""

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from guide import GUIDE, ROOT

from parties.common.errors import (
    EXIT_CODES,
    UNEXPECTED,
    DataError,
    IdentityError,
    PolicyError,
    StorageError,
)
from protocol.errors import ProtocolError

UNIT = ROOT / "docs" / "vfl-party@.service"
USAGE = 2  # exit code of the command line library


def service() -> dict[str, str]:
    parser = ConfigParser(interpolation=None, delimiters="=", strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("Type", "exec"),
        ("User", "vfl"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("CapabilityBoundingSet", ""),
        ("StateDirectory", "vfl/%i"),
        ("ReadOnlyPaths", "/etc/vfl/%i /srv/vfl/%i"),
        ("MemoryMax", "8G"),
        ("Restart", "on-failure"),
        ("KillSignal", "SIGTERM"),
        ("TimeoutStopSec", "30"),
    ],
)
def test_unit_restricts_the_process(line: str, value: str) -> None:
    assert service()[line] == value


def test_unit_does_not_restart_after_permanent_errors() -> None:
    stays = {int(code) for code in service()["RestartPreventExitStatus"].split()}
    again = {UNEXPECTED, EXIT_CODES[ProtocolError], EXIT_CODES[StorageError]}
    assert stays == {USAGE, *EXIT_CODES.values()} - again
    assert {EXIT_CODES[kind] for kind in (DataError, IdentityError, PolicyError)} <= stays


def test_exit_codes_of_the_guide_equal_those_of_the_unit() -> None:
    rows = re.findall(r"^\| (\d) \| .* \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    down = {int(code) for code, does in rows if does.startswith("stays down")}
    assert {int(code) for code, _ in rows} == {0, UNEXPECTED, USAGE, *EXIT_CODES.values()}
    assert down == {int(code) for code in service()["RestartPreventExitStatus"].split()}


def test_unit_has_an_executable_temporary_folder() -> None:
    """rbcl runs what it unpacks, and /tmp may be mounted noexec."""
    folder = service()["Environment"].removeprefix("TMPDIR=")
    assert folder == f"%C/{service()['CacheDirectory']}"


@pytest.mark.slow
def test_systemd_can_read_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here: apt-get install systemd")
    party = service()["ExecStart"].split()[0]
    copy = tmp_path / "vfl-party@people.service"
    copy.write_text(UNIT.read_text().replace(party, "/bin/true"))
    read = subprocess.run(
        [program, "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert (read.returncode, read.stderr) == (0, "")
    copy.write_text(copy.read_text().replace("Type=exec", "Typo=exec"))
    read = subprocess.run(
        [program, "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert "Typo" in read.stderr
