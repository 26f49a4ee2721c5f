"""A federation of processes that keeps its model: training, service, and requests to forget."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from three_parties import PARTIES, write_data
from watched_party import Recording, Watch, start_watched

from parties.cli.modes import read_runnable
from parties.data.party_settings import VerticalConfig
from parties.requests.duties import RequestDesk
from parties.requests.events import Event, EventKind, RequestedBody, event_time, new_request_id
from parties.requests.lifecycle import RequestView
from parties.requests.receipts import FOLDER
from parties.session.setup import StartOptions
from parties.session.simulation import reserved_port
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import party_models
from parties.vertical.offline.local_desk import VerticalDesk, open_local_desk
from protocol.keyring import issue_certificate, make_authority

PATIENCE = 300.0  # seconds, also on a loaded machine
TRIO = """
federation = "trio"
seed = 5
dtype = "float64"

[labels]
classes = ["a", "b", "c"]

[parties.hub]
role = "active"
width = 3
bottom = { kind = "mlp", hidden = [5] }

[parties.left]
role = "passive"
width = 4
bottom = { kind = "mlp", hidden = [6] }

[parties.right]
role = "passive"
width = 2
bottom = { kind = "mlp", hidden = [] }

[psi]
minimum = 10

[training]
learning_rate = 0.01
batch = 64
epochs = 1

[unlearning]
method = "retrain-local"

[unlearning.retrain_local]
fit_epochs = 1
top_epochs = 1
joint_epochs = 1

[requests]
guard = 1.0                          # one epoch: the accuracy is that of chance

[limits]
join_seconds = 60.0
step_seconds = 60.0
idle_seconds = 60.0
checkpoint_seconds = 0.0
"""
TRIO_DATA = """
[settings.{name}.data]
kind = "csv"
path = "{name}.csv"
id = {{ columns = ["id"] }}
ranges = {{ x = [-4, 8], y = [-4, 8], z = [-4, 8] }}
{label}
"""


@dataclass
class Service:
    """The running processes of all parties."""

    federation: "RequestFederation"
    out: Path
    hub: str
    running: dict[str, BaseProcess]
    http: str | None = None

    def start(self, name: str, watch: Watch | Recording | None = None) -> None:
        """Start one party's process."""
        more = ["--serve"]
        if self.http and name == self.federation.hub:
            more += ["--http", self.http]
        self.running[name] = self.federation.start(name, self.out, self.hub, more, watch)

    def kill(self, name: str) -> None:
        """End one party's process with SIGKILL."""
        self.running[name].kill()
        self.running[name].join()

    def stop(self) -> dict[str, int | None]:
        """Send SIGTERM to all parties; return their exit codes, None for those that go on."""
        for each in self.running.values():
            each.terminate()
        for each in self.running.values():
            each.join(30)
        return {name: each.exitcode for name, each in self.running.items()}


class RequestFederation:
    """Config, keys and start of the processes of one federation.

    Attributes:
        config: path of the config.
        hub: name of the active party.
        classes: names of the classes.
        roles: role of each party.
        keys: folder with the certificates and keys.
    """

    def __init__(
        self, folder: Path, config: Path, changes: Sequence[str] = (), data: Path | None = None
    ) -> None:
        self.folder, self.config, self._data = folder, config, data
        self.changes = tuple(changes)
        agreement = read_runnable(config, list(changes), None).agreement
        self.name, self.hub = agreement.federation, agreement.active
        self.classes = agreement.labels.classes
        self.roles = {name: each.role for name, each in agreement.parties.items()}
        self.keys = folder / "certs"
        if not self.keys.exists():
            make_authority(self.keys, self.name)
            for name in self.roles:
                issue_certificate(self.keys, self.name, name)

    def changed(self, *changes: str) -> "RequestFederation":
        """The same federation with other settings, in the form of ``--set``."""
        keys = {each.partition("=")[0] for each in changes}
        same = [each for each in self.changes if each.partition("=")[0] not in keys]
        return RequestFederation(self.folder, self.config, (*same, *changes), self._data)

    @contextmanager
    def local(self, name: str, out: Path, *, reads_data: bool = False) -> Iterator[VerticalDesk]:
        """One party, without its data by default, and its open journal, as a command has them."""
        config: VerticalConfig = read_runnable(self.config, list(self.changes), name)
        self.state(name, out).mkdir(parents=True, exist_ok=True)
        options = StartOptions(out, self._data, self.keys)
        with open_local_desk(config, name, options, reads_data=reads_data) as local:
            yield local

    def party(self, name: str, out: Path) -> VerticalParty:
        """One party without its data."""
        with self.local(name, out) as local:
            return local.party

    @contextmanager
    def desk(self, name: str, out: Path) -> Iterator[RequestDesk]:
        """The open journal of one party."""
        with self.local(name, out) as local:
            yield local.desk

    def start(
        self,
        name: str,
        out: Path,
        hub: str,
        more: Sequence[str] = (),
        watch: Watch | Recording | None = None,
    ) -> BaseProcess:
        """Start one party's process; its events go to a file beside ``out``."""
        arguments = ["--role", self.roles[name], "--party", name, "--format", "json"]
        arguments += ["--config", str(self.config), "--out", str(out), "--hub", hub]
        arguments += ["--certificates", str(self.keys), *more]
        for change in self.changes:
            arguments += ["--set", change]
        if self._data is not None:
            arguments += ["--data", str(self._data)]
        return self.launch(name, arguments, out, watch)

    def launch(
        self,
        name: str,
        arguments: Sequence[str],
        out: Path,
        watch: Watch | Recording | None = None,
        program: str = "vfl-party",
    ) -> BaseProcess:
        """Start a program of one party with all its arguments; its events go to a file."""
        return start_watched(arguments, self.output(name, out), watch, program)

    def train(
        self, out: Path, seconds: float = PATIENCE, more: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Train with all parties, which get the options ``more``; return the metrics."""
        with self._all(out, None) as service:
            for name in self.roles:
                service.running[name] = self.start(name, out, service.hub, more)
            for name, each in service.running.items():
                each.join(seconds)
                assert each.exitcode == 0, f"{name} ended with {each.exitcode}: {self.notes(out)}"
        metrics: dict[str, Any] = json.loads((out / self.name / "metrics.json").read_text())
        return metrics

    @contextmanager
    def serve(
        self, out: Path, watches: Mapping[str, Watch | Recording] | None = None
    ) -> Iterator[Service]:
        """Start the service of all parties; kill those that still run at the end."""
        with self._all(out, None) as service:
            for name in self.roles:
                service.start(name, (watches or {}).get(name))
            yield service

    @contextmanager
    def _all(self, out: Path, http: str | None) -> Iterator[Service]:
        with ExitStack() as stack:
            port = stack.enter_context(reserved_port())
            service = Service(self, out, f"127.0.0.1:{port}", {}, http)
            try:
                yield service
            finally:
                for each in service.running.values():
                    each.kill()
                    each.join()

    @contextmanager
    def serve_http(self, out: Path, names: Iterable[str] | None = None) -> Iterator[Service]:
        """Start the service of the parties ``names``, by default of all.

        The active party answers predictions over HTTP.
        """
        with reserved_port() as http, self._all(out, f"127.0.0.1:{http}") as service:
            for name in names or self.roles:
                service.start(name)
            yield service

    def predict(self, out: Path, seconds: float = PATIENCE) -> dict[str, dict[str, float]]:
        """Predict all rows with ``vfl predict`` and the saved models of all parties.

        Returns:
            Class probabilities by ID; rows without a prediction are absent.
        """
        table = out.with_name(f"{out.name}.csv")
        more = {name: ["--runs", str(out)] for name in self.roles}
        more[self.hub] += ["--out", str(table), "--force"]
        codes = self._command(["predict", str(self.config)], out, more, seconds)
        assert not any(codes.values()), f"{codes}: {self.notes(out)}"
        classes = read_runnable(self.config, list(self.changes), None).agreement.labels.classes
        with table.open(newline="") as file:
            return {
                row["id"]: {each: float(row[f"p_{each}"]) for each in classes}
                for row in csv.DictReader(file)
                if row[f"p_{classes[0]}"]
            }

    def replay(
        self, out: Path, request: str, command: str = "replay", seconds: float = PATIENCE
    ) -> dict[str, int | None]:
        """Replay a request with ``vfl replay`` at all parties; return the exit codes."""
        more = {name: ["--out", str(out)] for name in self.roles}
        return self._command([command, str(self.config), request], out, more, seconds)

    def _command(
        self, command: Sequence[str], out: Path, more: Mapping[str, Sequence[str]], seconds: float
    ) -> dict[str, int | None]:
        """Run a command of ``vfl`` at all parties at once; return the exit codes."""
        with self._all(out, None) as service:
            for name in self.roles:
                arguments = [*command, "--party", name, "--hub", service.hub, *more[name]]
                arguments += ["--certificates", str(self.keys), "--format", "json"]
                arguments += ["--data", str(self._data)] * bool(self._data)
                for change in self.changes:
                    arguments += ["--set", change]
                service.running[name] = self.launch(name, arguments, out, program="vfl")
            for each in service.running.values():
                each.join(seconds)
            return {name: each.exitcode for name, each in service.running.items()}

    def request(self, name: str, out: Path, rows: Iterable[int]) -> str:
        """Raise a request for common ``rows`` at one party, and approve it; return its ID."""
        request = self.record(name, out, rows)
        with self.desk(name, out):  # attends to the request
            return request

    def record(self, name: str, out: Path, rows: Iterable[int]) -> str:
        """Record a request for common ``rows`` at one party; return its ID."""
        with self.local(name, out) as local:
            desk, now = local.desk, local.party.now()
            request = new_request_id(now)
            body = RequestedBody(
                subjects_root="0" * 64,
                kind="rows",
                rows=tuple(sorted(rows)),
                ground="gdpr-17-1-b",
                received_at=event_time(now),
                due_at=event_time(now + timedelta(days=30)),
            )
            desk.append(EventKind.REQUESTED, request, body)
        return request

    def view(self, name: str, out: Path, request: str) -> RequestView:
        """A request as one party sees it."""
        with self.desk(name, out) as desk:
            return desk.request(request)

    def events(self, name: str, out: Path) -> list[Event]:
        """All events in the journal of one party."""
        with self.desk(name, out) as desk:
            return desk.journal.events()

    def figures(self, out: Path, request: str) -> dict[str, str]:
        """The figures of a request that made the newest version, which the hub alone knows."""
        newest = party_models(self.party(self.hub, out)).newest_version()
        assert newest is not None
        assert newest.version is not None
        assert request in newest.version.requests
        return dict(newest.version.own["audit"])

    def state(self, name: str, out: Path) -> Path:
        """The folder of one party."""
        return out / self.name / name

    def receipts(self, out: Path, request: str) -> dict[str, Path]:
        """The receipt that names a request, of each party that has one; a batch has one receipt."""
        return {
            name: path
            for name in self.roles
            for path in (self.state(name, out) / FOLDER).glob("*.json")
            if request in path.read_text()
        }

    def wait_certified(self, service: Service, request: str, seconds: float = PATIENCE) -> float:
        """Wait until every party has the receipt of a request; return the seconds.

        Raises:
            AssertionError: a process ended, or the request was not certified in time.
        """
        began = monotonic()
        while len(self.receipts(service.out, request)) < len(self.roles):
            ended = {n: p.exitcode for n, p in service.running.items() if not p.is_alive()}
            assert not ended, f"ended: {ended}; {self.notes(service.out)}"
            late = monotonic() - began > seconds
            assert not late, f"not certified after {seconds:g} s: {self.notes(service.out)}"
            sleep(0.02)
        return monotonic() - began

    def output(self, name: str, out: Path) -> Path:
        """The file of a party's events."""
        return out.with_name(f"{out.name} {name}.jsonl")

    def wait_joined(self, name: str, out: Path, joins: int, seconds: float = PATIENCE) -> None:
        """Wait until a party has joined ``joins`` sessions, in all its processes together.

        Raises:
            AssertionError: the party did not join in time.
        """
        deadline = monotonic() + seconds
        while self.joins(name, out) < joins:
            assert monotonic() < deadline, f"{name} did not join: {self.notes(out)}"
            sleep(0.02)

    def joins(self, name: str, out: Path) -> int:
        """The number of sessions that a party has joined."""
        path = self.output(name, out)
        return path.read_text().count("resumed checkpoint") if path.exists() else 0

    def notes(self, out: Path) -> str:
        """The last notes, warnings and errors of all parties."""
        found = []
        for path in sorted(out.parent.glob(f"{out.name} *.jsonl")):
            lines = [line for line in path.read_text().splitlines() if '"progress"' not in line]
            found += [f"{path.stem}: {line}" for line in lines[-8:]]
        return "\n".join(found)


def write_trio(folder: Path, rows: int = 120) -> RequestFederation:
    """Write the data, the config and the keys of three parties with few rows."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder, rows)
    for name in PARTIES:  # IDs that a search cannot find by accident
        path = folder / f"{name}.csv"
        head, *lines = path.read_text().splitlines()
        cells = [line.removeprefix("p").split(",", 1) for line in lines]
        named = [f"{person_id(int(row))},{rest}" for row, rest in cells]
        path.write_text("\n".join([head, *named]) + "\n")
    data = [
        TRIO_DATA.format(name=name, label='label = "label"' if name == "hub" else "")
        for name in PARTIES
    ]
    config = folder / "trio.toml"
    config.write_text(TRIO + "".join(data))
    return RequestFederation(folder, config)


def person_id(row: int) -> str:
    """The ID of a person in the data of ``write_trio``."""
    return f"person-{row:05}-of-trio"
