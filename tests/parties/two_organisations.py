"""From two tables to a trained federation, by the commands that two persons type."""

import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bank_tables import write_tables
from typed_commands import TypedCommands, finish

from parties.session.simulation import reserved_port


@dataclass(frozen=True)
class Federated:
    """What a federation needed, and what it reached."""

    commands: int  # the most that one organisation typed
    seconds: float  # from the first command to the report
    told: tuple[float, float, float]  # vfl init at the bank: GB of memory, MB sent, minutes
    metrics: dict[str, Any]  # the record of the active party
    report: Path


class TwoOrganisations:
    """A bank and a call centre, each with a folder, a table and commands that are typed there."""

    def __init__(self, home: Path, people: int) -> None:
        self.bank, self.centre = home / "bank", home / "centre"
        self._commands = TypedCommands()
        for path, folder in zip(write_tables(home, people), (self.bank, self.centre), strict=True):
            folder.mkdir()
            shutil.move(path, folder)

    def federate(self) -> Federated:
        """Write the agreement, pair, check the data and train, with defaults throughout."""
        started = time.monotonic()
        with reserved_port() as port:
            hub = ("--hub", f"localhost:{port}")
            active = ("--role", "active", "bank.csv", "--label", "abschluss", "--partner", "calls")
            told = _told(self._commands.run(self.bank, "vfl", "init", *active, *hub))
            shutil.copy(self.bank / "agreement.toml", self.centre)  # sent by mail
            self._commands.run(
                self.centre, "vfl", "init", "--join", "agreement.toml", "calls.csv", *hub
            )
            self._pair()
            common = ("--config", "agreement.toml", "--party")
            process = self._commands.start(
                self.bank, "vfl-party", "--role", "active", *common, "bank"
            )
            assert process.stdout is not None
            assert any("waiting for the others" in line for line in process.stdout)
            self._commands.run(
                self.centre, "vfl", "doctor", "agreement.toml", "--party", "calls", "--data-full"
            )
            self._commands.run(self.centre, "vfl-party", "--role", "passive", *common, "calls")
            finish(process)
        (path,) = (self.bank / "runs").glob("*/metrics.json")
        return Federated(
            commands=self._commands.most,
            seconds=time.monotonic() - started,
            told=told,
            metrics=json.loads(path.read_text()),
            report=path.with_name("report.html"),
        )

    def _pair(self) -> None:
        """A person at the bank tells the code to the call centre."""
        pair = ("vfl", "pair", "agreement.toml", "--party")
        waits = self._commands.start(self.bank, *pair, "bank")
        assert waits.stdout is not None
        line = next(line for line in waits.stdout if line.startswith("code for calls: "))
        self._commands.run(self.centre, *pair, "calls", "--code", line.rpartition(" ")[2].strip())
        finish(waits)


def _told(output: str) -> tuple[float, float, float]:
    """The sizes of a run that ``vfl init`` printed."""
    form = r"at most (\S+) GB of memory, (\S+) MB between the parties, about (\S+) minutes"
    (found,) = re.findall(form, " ".join(output.split()))
    memory, sent, minutes = map(float, found)
    return memory, sent, minutes
