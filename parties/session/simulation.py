"""Simulation: all parties on this machine, one process each, over loopback with mutual TLS."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic
from typing import Any

from cryptography import x509

from configs.config_file import AnySchema, ConfigFile, read_any
from parties.common.errors import Failed
from parties.common.progress import Event, ProgressListener
from parties.report import METRICS
from parties.session.setup import Begin
from protocol.credentials import fingerprint
from protocol.keyring import issue_certificate, make_authority

GRACE = 5.0  # after a failure of one party, seconds until the other processes are killed
RESUME = "run the same command to resume from the last checkpoint"


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Options of a simulation.

    Attributes:
        config: file with the agreement and the settings of all parties.
        changes: changed settings, in the form of ``--set``.
        out: folder of the runs.
        data: folder in which relative data paths are resolved.
        begin: how to use the checkpoints of an unfinished run.
        schemas: the classes of the config files of all modes.
    """

    config: Path
    changes: tuple[str, ...]
    out: Path
    data: Path | None
    begin: Begin = Begin.AUTO
    _: KW_ONLY
    schemas: Sequence[AnySchema]


@contextmanager
def trial_certificates(
    plan: SimulationPlan,
) -> Iterator[tuple[ConfigFile[Any, Any], tuple[str, ...], Path]]:
    """Make temporary keys and certificates for all parties.

    Yields:
        Three values: the config with each party's key pinned, all changed settings in the form of
        ``--set``, and the folder of the keys.
    """
    config = read_any(plan.config, plan.schemas, plan.changes)
    federation = config.agreement.federation
    with TemporaryDirectory(prefix="vfl-certs-") as folder:
        keys = Path(folder) / "certs"
        make_authority(keys, federation)
        pins = []
        for name in config.agreement.parties:
            issue_certificate(keys, federation, name)
            pins.append(pin_override(keys, name))
        changes = (*plan.changes, *pins)
        yield read_any(plan.config, plan.schemas, changes), changes, keys


def pin_override(keys: Path, name: str) -> str:
    """Return the ``--set`` option that pins the key of party ``name``."""
    leaf = x509.load_pem_x509_certificate((keys / f"{name}.pem").read_bytes())
    return f'parties.{name}.pins=["{fingerprint(leaf)}"]'


def simulate_processes(plan: SimulationPlan, listener: ProgressListener) -> dict[str, Any]:
    """Run each party as a process over loopback with mutual TLS; return the metrics of the run.

    The parties wait for each other without time limits, however slow the machine is. If the process
    of a party ends with an error, all other processes are ended.

    Raises:
        Failed: a party failed; all processes have ended.
    """
    with trial_certificates(plan) as (config, changes, keys), reserved_port() as port:
        address = f"127.0.0.1:{port}"
        events: Queue[Event | None] = Queue()
        children = {
            name: _start(plan, name, changes, keys, address, config.agreement.parties[name].role)
            for name in config.agreement.parties
        }
        readers = [Thread(target=_read, args=(c, events), daemon=True) for c in children.values()]
        for reader in readers:
            reader.start()
        try:
            failure = _follow(events, children, listener)
        finally:
            _end(children.values(), readers)
    if failure is not None:
        raise failure
    written = plan.out / config.agreement.federation / METRICS
    metrics: dict[str, Any] = json.loads(written.read_text())
    return metrics


def _end(children: Iterable[subprocess.Popen[str]], readers: Iterable[Thread]) -> None:
    """Kill all processes and close their pipes."""
    ended = list(children)
    for child in ended:
        child.kill()
    for reader in readers:
        reader.join(GRACE)
    for child in ended:
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def _start(
    plan: SimulationPlan, name: str, changes: Sequence[str], keys: Path, address: str, role: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "parties", "--role", role, "--party", name]
    command += ["--config", str(plan.config), "--out", str(plan.out), "--format", "json"]
    command += ["--certificates", str(keys), "--hub", address]
    command += ["--begin", plan.begin.value, "--supervised"]
    command += ["--data", str(plan.data)] if plan.data else []
    for change in changes:
        command += ["--set", change]
    # The pipe to the party carries nothing; it ends when this process ends, and the party with it.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _read(child: subprocess.Popen[str], events: Queue[Event | None]) -> None:
    """Put the events of one process into the queue, and None when the process has ended."""
    for line in child.stdout or ():
        if line.startswith("{"):
            events.put(json.loads(line))
    child.wait()
    events.put(None)


def _follow(
    events: Queue[Event | None],
    children: dict[str, subprocess.Popen[str]],
    listener: ProgressListener,
) -> Failed | None:
    """Pass events to ``listener`` until all processes have ended; return the first failure."""
    failure: Failed | None = None
    running, deadline = len(children), float("inf")
    while running:
        try:
            event = events.get(timeout=min(1.0, max(0.1, deadline - monotonic())))
        except Empty:
            event = {"event": "nothing"}
        if event is None:
            running -= 1
            failure = failure or _unreported_failure(children)
        elif event["event"] == "error":
            failure = _first_cause(failure, event)
        elif event["event"] == "stopped":
            failure = failure or Failed("a party was stopped by SIGTERM", RESUME, 1)
        elif event["event"] != "nothing":
            listener(event)
        deadline = min(deadline, monotonic() + GRACE) if failure else deadline
        if monotonic() > deadline:
            for child in children.values():
                child.kill()
    return failure


def _first_cause(failure: Failed | None, event: Event) -> Failed:
    """Return the first failure; a failure with its own cause takes precedence over an echo."""
    text = f"{event['party']}: {event['message']}"
    latest = Failed(text, event["hint"], event["exit"], echo=event["echo"])
    return latest if failure is None or (failure.echo and not latest.echo) else failure


def _unreported_failure(children: dict[str, subprocess.Popen[str]]) -> Failed | None:
    """Return the failure of a process that ended without an error event, if there is one."""
    for name, child in children.items():
        if child.poll():
            killed = child.returncode < 0
            how = f"signal {-child.returncode}" if killed else f"exit code {child.returncode}"
            return Failed(f"{name}: ended with {how}", RESUME if killed else "", 1)
    return None


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a TCP port of the loopback for a process that is about to be started.

    A socket of this process stays bound to the port, without listening. Linux then gives the port
    to no other process, and lets a server with SO_REUSEADDR, such as gRPC's, listen on it.
    """
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port: int = reserved.getsockname()[1]
        if sys.platform != "linux":  # other systems let no process listen on a bound port
            reserved.close()
        yield port
