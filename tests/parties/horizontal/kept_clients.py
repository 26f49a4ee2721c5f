"""A server and three clients inside a test: a training, then sessions of the service."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

from client_federation import CLIENTS, ClientFederation
from crash import Crash, count_messages, crash_after

from parties.cli.modes import read_runnable
from parties.horizontal.client import run_client
from parties.horizontal.party import HorizontalParty
from parties.horizontal.server import run_server
from parties.horizontal.service.client import serve_client
from parties.horizontal.service.desk import open_federated_desk
from parties.horizontal.service.kept_model import announce_training, read_kept_model
from parties.horizontal.service.server import serve_server
from parties.horizontal.setup import set_up_horizontal_party
from parties.requests.events import VerifiedBody
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol.line import Line

SECONDS = 120.0  # most seconds of a session
SERVER = "server"


@dataclass
class _Connections:
    """The connections of the clients, which end with the server."""

    port: MemoryPort = field(default_factory=MemoryPort)
    ended: Event = field(default_factory=Event)
    lines: dict[str, Line] = field(default_factory=dict)

    def connect(self, name: str) -> Line:
        if self.ended.is_set():
            raise Crash
        self.lines[name] = self.port.connect(name)
        return self.lines[name]


class KeptClients(ClientFederation):
    """A server and clients in threads of this process, connected by memory lines.

    Attributes:
        out: folder of the runs.
        heard: the progress events of all parties.
        messages: number of messages of the server in the last service.
    """

    def __init__(
        self, folder: Path, changes: Sequence[str] = (), config: Path | None = None
    ) -> None:
        super().__init__(folder, changes, config)
        self.out = folder / "runs"
        self.heard: list[dict[str, Any]] = []
        self.messages = 0

    def with_changes(self, *changes: str) -> "KeptClients":
        """The same parties with further changes of the agreement."""
        return KeptClients(self.folder, (*self.changes, *changes), self.config)

    def set_up(self, name: str, *, serves: bool) -> HorizontalParty:
        """One party with its data."""
        config = read_runnable(self.config, list(self.changes), name)
        self.state(name, self.out).mkdir(parents=True, exist_ok=True)
        options = StartOptions(self.out, None, self.keys, serves=serves)
        return set_up_horizontal_party(config, name, options, self.heard.append)

    def train_here(self) -> dict[str, Any]:
        """Train, keep the model, and return the metrics."""
        port, parties = MemoryPort(), {n: self.set_up(n, serves=False) for n in self.roles}
        for each in parties.values():
            announce_training(each)

        def follow(name: str) -> None:
            run_client(parties[name], lambda: port.connect(name))

        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(follow, name) for name in CLIENTS]
            metrics = run_server(parties[SERVER], port, lambda _: None)
            for each in clients:
                each.result(SECONDS)
        return metrics

    def carry_out(self, crash: int | None = None, client_crash: int | None = None) -> None:
        """Serve until nothing is left to do.

        ``crash``: after how many messages the server crashes; the clients then end, too.
        ``client_crash``: after how many messages the client ``oak`` crashes; it starts again when
        the server waits for all clients.
        """
        connections = _Connections()
        with ThreadPoolExecutor(4) as pool:
            runs: list[Future[None]] = [pool.submit(self._lead, connections, crash)]
            for name in CLIENTS:
                last = client_crash if name == "oak" else None
                runs.append(pool.submit(self._follow, name, connections, last))
            failures = [each.exception(SECONDS) for each in runs]
        for failure in failures:
            if failure is not None and not (crash is not None and isinstance(failure, Crash)):
                raise failure

    def _lead(self, connections: _Connections, crash: int | None) -> None:
        party = self.set_up(SERVER, serves=True)
        if crash is not None:
            crash_after(party, crash)  # type: ignore[arg-type]
        counted = count_messages(party)  # type: ignore[arg-type]
        try:
            with closing(open_federated_desk(party)) as desk:
                serve_server(party, connections.port, desk, once=True)
        finally:
            connections.ended.set()
            self.messages = counted[0]

    def _follow(self, name: str, connections: _Connections, crash: int | None = None) -> None:
        party = self.set_up(name, serves=True)
        if crash is not None:
            crash_after(party, crash)  # type: ignore[arg-type]
        try:
            with closing(open_federated_desk(party)) as desk:
                serve_client(party, lambda: connections.connect(name), desk, once=True)
        except Crash:
            if crash is None:
                raise
            connections.lines[name].cut()
            self._wait_for_gap(name)
            self._follow(name, connections)

    def _wait_for_gap(self, name: str) -> None:
        """Wait until the server has given up a lost client, and waits for all clients again."""
        deadline, text = monotonic() + SECONDS, f"{name} lost the connection and did not return"
        while text not in str(self.heard):
            assert monotonic() < deadline, self.texts("note")
            sleep(0.05)

    def verified(self, request: str) -> list[VerifiedBody]:
        """What the journal says about the model after a request; one entry for each event."""
        return [
            each.body
            for each in self.events(SERVER, self.out)
            if each.request == request and isinstance(each.body, VerifiedBody)
        ]

    def digests(self) -> set[str]:
        """The digests of the models that the parties keep."""
        kept = [read_kept_model(self.party(name, self.out)) for name in self.roles]  # type: ignore[arg-type]
        return {each.digest for each in kept if each is not None}

    def texts(self, event: str) -> str:
        """The notes or the warnings of all parties."""
        return "\n".join(str(each["text"]) for each in self.heard if each["event"] == event)
