"""A whole federation on this machine, every seat its own process over loopback with mutual TLS."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic
from typing import Any

from cryptography import x509

from configs.any_file import read_any
from configs.federated_file import FederatedConfig
from configs.schema import Config
from parties.cli.options import Begin
from parties.common.errors import Failed
from parties.common.progress import Event, Listener
from parties.report import METRICS
from protocol.credentials import fingerprint
from protocol.keyring import issue, make_authority

GRACE = 5.0  # seconds that the others get to end by themselves once one has failed


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated, and where."""

    config: Path
    changes: tuple[str, ...]
    out: Path
    data: Path | None
    begin: Begin = Begin.AUTO


@contextmanager
def certified(plan: Plan) -> Iterator[tuple[Config | FederatedConfig, tuple[str, ...], Path]]:
    """The config with every party's key pinned, the changes that pin it, and the key folder."""
    config = read_any(plan.config, plan.changes)
    federation = config.agreement.federation
    with TemporaryDirectory(prefix="vfl-certs-") as folder:
        keys = Path(folder) / "certs"
        make_authority(keys, federation)
        pins = []
        for name in config.agreement.parties:
            issue(keys, federation, name)
            pins.append(pinned(keys, name))
        changes = (*plan.changes, *pins)
        yield read_any(plan.config, changes), changes, keys


def pinned(keys: Path, name: str) -> str:
    """The change of a config that pins a party's key."""
    leaf = x509.load_pem_x509_certificate((keys / f"{name}.pem").read_bytes())
    return f'parties.{name}.pins=["{fingerprint(leaf)}"]'


def processes(plan: Plan, listener: Listener) -> dict[str, Any]:
    """Run every seat as its own process over loopback with mutual TLS; the metrics of the run.

    Raises:
        Failed: a party failed; the others were ended.
    """
    with certified(plan) as (config, changes, keys), reserved_port() as port:
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
    """Nobody runs on, and no pipe stays open."""
    ended = list(children)
    for child in ended:
        child.kill()
    for reader in readers:
        reader.join(GRACE)
    for child in ended:
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _start(
    plan: Plan, name: str, changes: Sequence[str], keys: Path, address: str, role: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "parties", "--role", role, "--seat", name]
    command += ["--config", str(plan.config), "--out", str(plan.out), "--format", "json"]
    command += ["--certificates", str(keys), "--hub", address]
    command += ["--begin", plan.begin.value]
    command += ["--data", str(plan.data)] if plan.data else []
    for change in changes:
        command += ["--set", change]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)


def _read(child: subprocess.Popen[str], events: Queue[Event | None]) -> None:
    """Move one child's events into the queue; None says that it has ended."""
    for line in child.stdout or ():
        if line.startswith("{"):
            events.put(json.loads(line))
    child.wait()
    events.put(None)


def _follow(
    events: Queue[Event | None], children: dict[str, subprocess.Popen[str]], listener: Listener
) -> Failed | None:
    """Pass events on until every child has ended; the failure that began it, if any."""
    failure: Failed | None = None
    running, deadline = len(children), float("inf")
    while running:
        try:
            event = events.get(timeout=min(1.0, max(0.1, deadline - monotonic())))
        except Empty:
            event = {"event": "nothing"}
        if event is None:
            running -= 1
            failure = failure or _unsaid(children)
        elif event["event"] == "error":
            failure = _graver(failure, event)
        elif event["event"] != "nothing":
            listener(event)
        deadline = min(deadline, monotonic() + GRACE) if failure else deadline
        if monotonic() > deadline:
            for child in children.values():
                child.kill()
    return failure


def _graver(failure: Failed | None, event: Event) -> Failed:
    """The first failure, but one that had its own cause rather than an echo of it."""
    said = f"{event['party']}: {event['message']}"
    found = Failed(said, event["hint"], event["exit"], echo=event["echo"])
    return found if failure is None or (failure.echo and not found.echo) else failure


def _unsaid(children: dict[str, subprocess.Popen[str]]) -> Failed | None:
    """A child that ended badly without a word."""
    for name, child in children.items():
        if child.poll():
            killed = child.returncode < 0
            how = f"signal {-child.returncode}" if killed else f"exit code {child.returncode}"
            hint = "the same command goes on from the last checkpoint" if killed else ""
            return Failed(f"{name}: ended with {how}", hint, 1)
    return None


@contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port of the loopback for a process that is about to be started.

    It stays bound here, not listening: the kernel gives it to nobody else meanwhile, as the source
    of a connection neither, and lets a server listen on it that sets SO_REUSEADDR, as gRPC's do.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port: int = held.getsockname()[1]
        if sys.platform != "linux":  # other systems let nobody listen on a port that is bound
            held.close()
        yield port
