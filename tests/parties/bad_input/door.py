"""The command line as a person meets it, with canaries planted where secrets could leak from."""

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
from handshake_parties import Meeting, meeting, party
from typer import Typer
from typer.testing import CliRunner

# What commands import when they need it, so that a command's time below is its own work.
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
LONGEST = 2.0  # seconds of a command's own work
torch.use_deterministic_algorithms(mode=True)  # what every party does; it imports 800 modules

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
class Said:
    """What a command said, and how it ended."""

    code: int
    text: str

    def refuses(self, code: int, *words: str) -> str:
        """It ended with ``code`` and said these words; no trace of the program, no secret."""
        flat = " ".join(self.text.replace("│", " ").split())
        assert self.code == code, self.text
        for word in words:
            assert word in flat, self.text
        assert "Traceback" not in self.text
        for canary in CANARIES:
            assert canary not in self.text
        return flat


def command(program: str, *words: str) -> Said:
    """Run a command in this process, its imports done; its own work must not take long."""
    started = process_time()
    result = CliRunner().invoke(
        PROGRAMS[program], list(words), env={"COLUMNS": "200", "VFL_DATA": None}
    )
    assert process_time() - started < LONGEST  # not the time that other processes took
    return Said(result.exit_code, result.output)


def process(
    program: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
    folder: Path | None = None,
) -> Said:
    """Run a command as a process of its own, ``through`` another one; output is no terminal."""
    call = f"from parties.cli.main import {ENTRIES[program]} as run; run()"
    usual = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*through, sys.executable, "-c", call, *words],
        capture_output=True, timeout=60, check=False, cwd=folder or ROOT,
        env=usual if environment is None else {**usual, **environment},
    )  # fmt: skip
    return Said(done.returncode, (done.stdout + done.stderr).decode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class Trial:
    """A config with its data and certificates in one folder."""

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
        """The options that start one party."""
        folders = ["--out", str(self.folder / "runs")]
        if "--certificates" not in more:
            folders += ["--certificates", str(self.keys)]
        return ["--role", role, "--config", str(self.config), "--party", name, *folders, *more]

    def start(self, role: str = "passive", name: str = SPOKE, *more: str) -> Said:
        """One party starts; nobody listens where it dials."""
        return command("vfl-party", *self.words(role, name, *more))

    def reads(self, text: str | bytes) -> Said:
        """A party starts with this text as its config."""
        self.config.write_bytes(text if isinstance(text, bytes) else text.encode())
        return command("vfl-party", *self.words())


def made(folder: Path, keys: Path, rows: int = 40) -> Trial:
    """The trial as it should be."""
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


def edited(old: str, new: str, text: str = AGREEMENT + SETTINGS) -> str:
    assert old in text
    return text.replace(old, new, 1)


def outcomes(hub: VerticalParty, spoke: VerticalParty, at: Meeting) -> tuple[Exception, Exception]:
    """How a greeting fails at both sides."""
    with ThreadPoolExecutor(2) as pool:
        leading = pool.submit(accept_spokes, hub, at.port)
        joining = pool.submit(join_hub, spoke, lambda: at.connect(spoke.name))
        errors = leading.exception(20), joining.exception(20)
    found = [error for error in errors if isinstance(error, Exception)]
    assert len(found) == 2
    return found[0], found[1]


@contextmanager
def greeting(
    transport: str, keys: Path, folder: Path, hub: Any = None, spoke: Any = None
) -> Iterator[tuple[tuple[int | None, str], tuple[int | None, str]]]:
    """Exit code and words at the hub and at the spoke of a greeting that must fail."""
    ours, theirs = party(keys, HUB, [], hub), party(keys, SPOKE, [], spoke)
    with meeting(transport, ours, keys, folder) as at:
        here, there = outcomes(ours, theirs, at)
    yield (exit_code(here), str(here)), (exit_code(there), str(there))
