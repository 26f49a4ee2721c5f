"""From two tables to a trained federation, by the commands that a person types."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from parties.session.simulation import reserved_port

sys.path.append(str(Path(__file__).parents[1] / "cli"))
from bank_tables import write_tables

ROOT = Path(__file__).parents[3]
MOST_COMMANDS = 6  # that a party types
PARTY = "from parties.cli.main import party_main; party_main()"
PEOPLE = 3000


class _Organisations:
    """Two folders, and the commands that were typed in each of them."""

    def __init__(self, home: Path) -> None:
        self.bank, self.centre = home / "bank", home / "centre"
        self.typed: Counter[Path] = Counter()

    def start(self, at: Path, *words: object) -> subprocess.Popen[str]:
        """Start one command in the folder of an organisation."""
        self.typed[at] += 1
        program = ["-c", PARTY] if words[0] == "vfl-party" else ["-m", "parties.cli"]
        return subprocess.Popen(
            [sys.executable, *program, *map(str, words[1:])],
            cwd=at, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, at: Path, *words: object) -> str:
        """Run one command, which must succeed, and return its output."""
        process = self.start(at, *words)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        return output


@pytest.fixture
def organisations(tmp_path: Path) -> _Organisations:
    found = _Organisations(tmp_path)
    for folder in (found.bank, found.centre):
        folder.mkdir()
    for path, folder in zip(
        write_tables(tmp_path, PEOPLE), (found.bank, found.centre), strict=True
    ):
        shutil.move(path, folder)
    return found


@pytest.mark.slow
def test_six_commands_a_party_lead_from_tables_to_a_model(organisations: _Organisations) -> None:
    bank, centre, run = organisations.bank, organisations.centre, organisations.run
    started = time.monotonic()
    with reserved_port() as port:
        hub = ("--hub", f"localhost:{port}")
        active = ("--role", "active", "bank.csv", "--label", "abschluss", "--partner", "calls")
        run(bank, "vfl", "init", *active, *hub)
        shutil.copy(bank / "agreement.toml", centre)
        run(centre, "vfl", "init", "--join", "agreement.toml", "calls.csv", *hub)
        _pair(organisations)
        common = ("--config", "agreement.toml", "--party")
        hub_process = organisations.start(bank, "vfl-party", "--role", "active", *common, "bank")
        _wait_until_it_listens(hub_process)
        run(centre, "vfl", "doctor", "agreement.toml", "--party", "calls", "--data-full")
        run(centre, "vfl-party", "--role", "passive", *common, "calls")
        output, _ = hub_process.communicate(timeout=300)
    assert hub_process.returncode == 0, output
    assert max(organisations.typed.values()) <= MOST_COMMANDS
    metrics = json.loads((bank / "runs" / "bank" / "metrics.json").read_text())
    rows = metrics["run"]["rows"]
    assert time.monotonic() - started < 600
    assert 0.75 * PEOPLE < _common(rows) < 0.87 * PEOPLE  # 0.9 * 0.9 of the people


def _wait_until_it_listens(hub: subprocess.Popen[str]) -> None:
    assert hub.stdout is not None
    assert any("waiting for the others" in line for line in hub.stdout)


def _common(rows: object) -> int:
    assert isinstance(rows, dict)
    return int(sum(rows.values()))


def _pair(organisations: _Organisations) -> None:
    """Pair both organisations: a person at the bank tells the code to the call centre."""
    bank, centre = organisations.bank, organisations.centre
    waits = organisations.start(bank, "vfl", "pair", "agreement.toml", "--party", "bank")
    assert waits.stdout is not None
    line = next(line for line in waits.stdout if line.startswith("code for calls: "))
    code = line.rpartition(" ")[2].strip()
    organisations.run(centre, "vfl", "pair", "agreement.toml", "--party", "calls", "--code", code)
    output, _ = waits.communicate(timeout=60)
    assert waits.returncode == 0, output
    assert "pins of all parties" in output
