"""Runs of the commands on a small config, with canaries in place of secrets."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import torch
from handshake_parties import OpenPort, open_hub_port, party
from typer import Typer
from typer.testing import CliRunner

# Commands import these modules when they need them; here, so that no import is measured below.
import parties.cli.modes
import parties.experiments.tracking
import parties.vertical.active
import parties.vertical.in_process
import parties.vertical.run_party  # noqa: F401
from parties.cli.main import app, party_app, simulate_app
from parties.common.errors import exit_code
from parties.session.handshake import accept_spokes, join_hub
from parties.vertical.engine.party import VerticalParty
from tests.conftest import HUB, SPOKE

ROOT = Path(__file__).parents[3]
PROGRAMS: Mapping[str, Typer] = {"vfl": app, "vfl-party": party_app, "vfl-sim": simulate_app}
ENTRIES = {"vfl": "main", "vfl-party": "party_main", "vfl-sim": "simulate_main"}
CANARIES = tuple(f"canary-{number:02d}-q7Zx" for number in range(20))
LONGEST = 2.0  # seconds of CPU time of one command
torch.use_deterministic_algorithms(mode=True)  # each party does so; it imports 800 modules

AGREEMENT = """
federation = "trial"

[labels]
classes = ["no", "yes"]

[parties.bank]
role = "active"

[parties.shop]
role = "passive"
width = 4

[training]
epochs = 2
batch = 16

[limits]
join_seconds = 0.5
"""
SETTINGS = f"""
[settings.bank.data]
kind = "csv"
path = "bank.csv"
id = {{ columns = ["id"] }}
label = "label"

[settings.shop]
hub = "localhost:1"

[settings.shop.data]
kind = "csv"
path = "shop.csv"
id = {{ columns = ["id"] }}
# {CANARIES[0]}
"""


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    text: str

    def expect(self, code: int, *words: str) -> str:
        """Check exit code and words of the output, and that it has no stack trace and no secret."""
        flat = " ".join(self.text.replace("│", " ").split())
        assert self.code == code, self.text
        for word in words:
            assert word in flat, self.text
        assert "Traceback" not in self.text
        for canary in CANARIES:
            assert canary not in self.text
        return flat


def command(program: str, *words: str) -> CommandResult:
    """Run a command in this process; fail if it takes too much CPU time."""
    started = process_time()
    result = CliRunner().invoke(
        PROGRAMS[program], list(words), env={"COLUMNS": "200", "VFL_DATA": None}
    )
    assert process_time() - started < LONGEST  # CPU time of this process alone
    return CommandResult(result.exit_code, result.output)


def process(
    program: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
    folder: Path | None = None,
) -> CommandResult:
    """Run a command as a process, started by the command ``through``; output is no terminal."""
    call = f"from parties.cli.main import {ENTRIES[program]} as run; run()"
    usual = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*through, sys.executable, "-c", call, *words],
        capture_output=True, timeout=60, check=False, cwd=folder or ROOT,
        env=usual if environment is None else {**usual, **environment},
    )  # fmt: skip
    return CommandResult(
        done.returncode, (done.stdout + done.stderr).decode("utf-8", "backslashreplace")
    )


@dataclass(frozen=True)
class Trial:
    """A config, data and certificates in one folder."""

    folder: Path
    keys: Path

    @property
    def config(self) -> Path:
        return self.folder / "trial.toml"

    def write(self, text: str = AGREEMENT + SETTINGS, name: str = "trial.toml") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def words(self, role: str = "passive", name: str = SPOKE, *more: str) -> list[str]:
        """Return the options that start one party."""
        folders = ["--out", str(self.folder / "runs")]
        if "--certificates" not in more:
            folders += ["--certificates", str(self.keys)]
        return ["--role", role, "--config", str(self.config), "--party", name, *folders, *more]

    def start(self, role: str = "passive", name: str = SPOKE, *more: str) -> CommandResult:
        """Start one party; no process listens at the hub's address."""
        return command("vfl-party", *self.words(role, name, *more))

    def reads(self, text: str | bytes) -> CommandResult:
        """Start the passive party with this text as its config."""
        self.config.write_bytes(text if isinstance(text, bytes) else text.encode())
        return command("vfl-party", *self.words())


def make_trial(folder: Path, keys: Path, rows: int = 40) -> Trial:
    """Make a trial without any fault."""
    trial = Trial(folder, keys)
    trial.write()
    labels = ("no", "yes")
    for name in (HUB, SPOKE):
        lines = ["id,age" + (",label" if name == HUB else "")]
        for row in range(rows):
            label = f",{labels[row % 2]}" if name == HUB else ""
            lines.append(f"{CANARIES[1]}-{row},{row}{label}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return trial


def edited_config(old: str, new: str, text: str = AGREEMENT + SETTINGS) -> str:
    assert old in text
    return text.replace(old, new, 1)


def handshake_errors(
    hub: VerticalParty, spoke: VerticalParty, at: OpenPort
) -> tuple[Exception, Exception]:
    """Return the errors of hub and spoke in a handshake that must fail."""
    with ThreadPoolExecutor(2) as pool:
        accepting = pool.submit(accept_spokes, hub, at.port)
        joining = pool.submit(join_hub, spoke, lambda: at.connect(spoke.name))
        errors = accepting.exception(20), joining.exception(20)
    raised = [error for error in errors if isinstance(error, Exception)]
    assert len(raised) == 2
    return raised[0], raised[1]


@contextmanager
def failed_handshake(
    transport: str, keys: Path, folder: Path, hub: Any = None, spoke: Any = None
) -> Iterator[tuple[tuple[int | None, str], tuple[int | None, str]]]:
    """Yield exit code and message of hub and spoke in a handshake that must fail."""
    ours, theirs = party(keys, HUB, [], hub), party(keys, SPOKE, [], spoke)
    with open_hub_port(transport, ours, keys, folder) as at:
        here, there = handshake_errors(ours, theirs, at)
    yield (exit_code(here), str(here)), (exit_code(there), str(there))
