"""Real processes that are killed with SIGKILL in the middle of a run, and started again."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic, sleep
from typing import Any

from parties.session.simulation import PartyProcess, reserved_port
from protocol.keyring import issue_certificate, make_authority

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "configs" / "vertical" / "digits.toml"
PARTIES = {"office": "active", "left": "passive", "right": "passive"}
SHORT = (
    "training.epochs=8", "training.patience=8", "unlearning.retrains=2",
    "unlearning.fedora.iterations=10", "unlearning.fedora.retain_share=0.25",
    "limits.checkpoint_seconds=0.2", 'unlearning.compare=["fine-tune", "relabel"]',
)  # fmt: skip
PATIENCE = 240.0  # seconds for a whole run, also on a loaded machine


@dataclass
class Running:
    """One party's process, and the phase that it reported last."""

    process: PartyProcess
    phases: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Read the process's events until it ends."""
        with self.process.stdout as events:
            for line in events:
                self._take(json.loads(line) if line.startswith("{") else {"event": ""})

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "progress" and event["phase"] not in self.phases[-1:]:
            self.phases.append(event["phase"])
        elif event["event"] in ("note", "warning", "error"):
            self.notes.append(event.get("text") or event["message"])


class Runs:
    """Runs of the digits federation with one set of keys."""

    def __init__(self, folder: Path, settings: Sequence[str] = SHORT) -> None:
        self._keys, self._settings = folder / "certs", settings
        make_authority(self._keys, "digits")
        for name in PARTIES:
            issue_certificate(self._keys, "digits", name)

    def start(self, name: str, out: Path, port: int, *changes: str) -> Running:
        """Start one party's process."""
        command = ["--role", PARTIES[name], "--party", name]
        command += ["--config", str(DIGITS), "--out", str(out), "--format", "json"]
        command += ["--certificates", str(self._keys), "--hub", f"127.0.0.1:{port}"]
        for change in (*self._settings, *changes):
            command += ["--set", change]
        running = Running(PartyProcess(command, ROOT))
        Thread(target=running.listen, daemon=True).start()
        return running

    @contextmanager
    def all(self, out: Path, *changes: str) -> Iterator[tuple[dict[str, Running], int]]:
        """Start all parties; kill those that still run at the end."""
        with reserved_port() as port:
            running = {name: self.start(name, out, port, *changes) for name in PARTIES}
            try:
                yield running, port
            finally:
                for each in running.values():
                    each.process.kill()
                    each.process.wait()

    def run_uninterrupted(self, out: Path) -> dict[str, str]:
        """Run without a kill; return the digests."""
        with self.all(out) as (running, _):
            finish(running)
        return digests(out)

    def killed(self, out: Path, victim: str, phase: str, random: Random) -> list[str]:
        """Kill ``victim`` at a random moment of ``phase`` and start it again; return its notes."""
        with self.all(out) as (running, port):
            wait_for(running["office"], phase)
            sleep(random.uniform(0.0, 0.6))
            running[victim].process.send_signal(signal.SIGKILL)
            running[victim].process.wait()
            running[victim] = self.start(victim, out, port)
            finish(running)
        return running[victim].notes


def wait_for(running: Running, phase: str) -> None:
    """Wait until the party reports ``phase``."""
    deadline = monotonic() + PATIENCE
    while not any(each.startswith(phase) for each in running.phases):
        assert running.process.poll() is None, running.notes
        assert monotonic() < deadline, f"never came to {phase}: {running.phases}"
        sleep(0.01)


def wait_for_note(running: Running, *texts: str, after: int = 0) -> None:
    """Wait until a note after the first ``after`` notes contains one of the texts."""
    deadline = monotonic() + PATIENCE
    while not any(text in note for note in running.notes[after:] for text in texts):
        assert monotonic() < deadline, (texts, running.notes)
        sleep(0.01)


def finish(running: dict[str, Running]) -> None:
    """Wait until all processes end; check that each exit code is 0."""
    for name, each in running.items():
        code = each.process.wait(PATIENCE)
        assert code == 0, (name, {n: (r.process.poll(), r.notes) for n, r in running.items()})


def digests(out: Path) -> dict[str, str]:
    """Return the digests of the final models and row maps of all parties."""
    files = sorted((out / "digits").glob("*/*.safetensors"))
    return {f"{f.parent.name}/{f.name}": sha256(f.read_bytes()).hexdigest() for f in files}
