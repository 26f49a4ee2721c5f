"""Simulation: all parties on this machine, one process each, over loopback with mutual TLS."""

import json
import os
import runpy
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.forkserver import ensure_running, set_forkserver_preload
from pathlib import Path
from queue import Empty, Queue
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import monotonic
from typing import Any, TextIO

from cryptography import x509

from configs.config_file import AnySchema, ConfigFile, read_any
from parties.common.errors import Failed
from parties.common.progress import Event, ProgressListener
from parties.report import METRICS
from parties.session.setup import Begin
from protocol.credentials import fingerprint
from protocol.keyring import AUTHORITY, issue_certificate, make_authority

GRACE = 5.0  # after a failure of one party, seconds until the other processes are killed
RESUME = "run the same command to resume from the last checkpoint"
NAME = Path("/proc/self/comm")  # name of this process; on Linux only
PROGRAMS = {"vfl-party": "parties", "vfl": "parties.cli"}  # the module of each program
# What a party imports. torch imports torch._dynamo only when it makes an optimiser.
MODULES = (
    "torch", "torch._dynamo", "grpc", "cryptography.x509", "pandas", "pyarrow.csv",
    "pyarrow.compute", "pydantic", "sklearn.datasets", "parties.cli.main", "parties.cli.modes",
    "parties.vertical.run_party", "parties.vertical.active", "parties.vertical.passive",
    "parties.vertical.service.run", "parties.web.kept_model_queue",
)  # fmt: skip


def import_for_parties() -> None:
    """Start the process that all parties are forked from; it imports their modules meanwhile."""
    set_forkserver_preload([*MODULES])
    ensure_running()


class PartyProcess:
    """A running ``vfl-party``, or ``vfl``, whose standard output is a pipe.

    It is forked from a process that has imported the modules: an import takes seconds, a fork
    takes milliseconds, and all processes share the memory of the modules. The standard input
    carries nothing; it ends when this process ends.

    Attributes:
        stdout: the standard output of the process; it ends when the process ends.
        pid: the number of the process.
    """

    def __init__(
        self, arguments: Sequence[str], folder: Path | None = None, program: str = "vfl-party"
    ) -> None:
        """Start ``program``, a key of ``PROGRAMS``, with these arguments, in ``folder``."""
        import_for_parties()
        context = get_context("forkserver")
        reader, output = context.Pipe(duplex=False)
        nothing, self._alive = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run_program,
            args=(program, [*arguments], nothing, output, folder or Path.cwd()),
        )
        self._process.start()
        self._reading = Lock()
        output.close()
        nothing.close()
        self.stdout: TextIO = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        reader.close()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        with self._reading:  # two threads at once would read one exit code
            return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Return the exit code after the process has ended.

        Raises:
            TimeoutExpired: the process still runs after ``seconds``.
        """
        wait([self._process.sentinel], seconds)
        code = self.poll()
        if code is None:
            raise TimeoutExpired("vfl-party", seconds or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to the process; nothing happens after it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """Close the pipes of a process that has ended."""
        self.stdout.close()
        self._alive.close()


def _run_program(
    program: str,
    arguments: list[str],
    nothing: Connection,
    output: Connection,
    folder: Path,
) -> None:
    """Run ``program`` in this process, with these pipes as standard input and output."""
    os.chdir(folder)
    os.dup2(nothing.fileno(), 0)
    os.dup2(output.fileno(), 1)
    nothing.close()
    output.close()
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1, closefd=False)
    sys.argv = [program, *arguments]
    if NAME.exists():  # so that a list of processes tells the parties apart
        NAME.write_text(arguments[arguments.index("--party") + 1])
    runpy.run_module(PROGRAMS[program], run_name="__main__", alter_sys=True)


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Options of a simulation."""

    config: Path  # file with the agreement and the settings of all parties
    changes: tuple[str, ...]  # changed settings, in the form of ``--set``
    out: Path  # folder of the runs
    data: Path | None  # folder in which relative data paths are resolved
    begin: Begin = Begin.AUTO  # how to use the checkpoints of an unfinished run
    _: KW_ONLY
    schemas: Sequence[AnySchema]  # the classes of the config files of all modes
    continues: str = ""  # the kept version from which the training goes on; empty: new weights
    # Folder of the keys and certificates of all parties, which are made if they are absent; None: a
    # temporary folder.
    keys: Path | None = None


@contextmanager
def trial_certificates(
    plan: SimulationPlan,
) -> Iterator[tuple[ConfigFile[Any, Any], tuple[str, ...], Path]]:
    """Make keys and certificates for all parties, temporary ones unless the plan names a folder.

    Yields:
        Three values: the config with each party's key pinned, all changed settings in the form of
        ``--set``, and the folder of the keys.
    """
    config = read_any(plan.config, plan.schemas, plan.changes)
    federation = config.agreement.federation
    with TemporaryDirectory(prefix="vfl-certs-") as folder:
        keys = plan.keys or Path(folder) / "certs"
        if not (keys / AUTHORITY).exists():
            make_authority(keys, federation)
        pins = []
        for name in config.agreement.parties:
            if not (keys / f"{name}.pem").exists():
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


def _end(children: Iterable[PartyProcess], readers: Iterable[Thread]) -> None:
    """Kill all processes and close their pipes."""
    ended = list(children)
    for child in ended:
        child.kill()
    for reader in readers:
        reader.join(GRACE)
    for child in ended:
        child.wait()
        child.close()


def _start(
    plan: SimulationPlan, name: str, changes: Sequence[str], keys: Path, address: str, role: str
) -> PartyProcess:
    command = ["--role", role, "--party", name]
    command += ["--config", str(plan.config), "--out", str(plan.out), "--format", "json"]
    command += ["--certificates", str(keys), "--hub", address]
    command += ["--begin", plan.begin.value, "--supervised"]
    command += ["--data", str(plan.data)] if plan.data else []
    command += ["--from", plan.continues] if plan.continues else []
    for change in changes:
        command += ["--set", change]
    return PartyProcess(command)


def _read(child: PartyProcess, events: Queue[Event | None]) -> None:
    """Put the events of one process into the queue, and None when the process has ended."""
    for line in child.stdout:
        if line.startswith("{"):
            events.put(json.loads(line))
    child.wait()
    events.put(None)


def _follow(
    events: Queue[Event | None],
    children: dict[str, PartyProcess],
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


def _unreported_failure(children: dict[str, PartyProcess]) -> Failed | None:
    """Return the failure of a process that ended without an error event, if there is one."""
    for name, child in children.items():
        if code := child.poll():
            killed = code < 0
            how = f"signal {-code}" if killed else f"exit code {code}"
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
