"""A server and three clients that keep their model, and a client's request to forget its rows."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from request_federation import PATIENCE, RequestFederation
from request_kills import RequestKills
from typer.testing import CliRunner

from parties.cli.main import app
from parties.cli.modes import read_runnable
from parties.horizontal.service.desk import open_federated_local_desk
from parties.requests.events import EventKind, RequestedBody, event_time, new_request_id
from parties.requests.local_desk import LocalDesk
from parties.session.party import PartyContext
from parties.session.setup import StartOptions
from protocol.keyring import issue_certificate, make_authority

CLIENTS = ("ash", "elm", "oak")
WOOD = """
federation = "wood"
mode = "horizontal"
seed = 3
shape = [1, 8, 8]
labels = { classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }
model = { kind = "mlp", hidden = [8] }
training = { rounds = 2, batch = 32, learning_rate = 0.1 }
requests = { keep = "model" }

[unlearning]
method = "fine-tune"
fine_tune = { rounds = 2 }

[limits]
join_seconds = 60.0
rejoin_seconds = 60.0
idle_seconds = 60.0
checkpoint_seconds = 0.0

[parties]
server = { role = "server" }
"""
CLIENT = """
[settings.{name}]
data = {{ kind = "sklearn", name = "digits", label = true, sample = {{ fraction = 0.1, seed = {seed} }} }}
"""  # noqa: E501


def _write_wood(folder: Path) -> Path:
    """Write the config of three clients, each with a sample of the digits."""
    config = folder / "wood.toml"
    entries = "".join(f'{name} = {{ role = "client" }}\n' for name in CLIENTS)
    settings = [CLIENT.format(name=name, seed=at) for at, name in enumerate(CLIENTS)]
    config.write_text(WOOD + entries + "[settings.server]\n" + "".join(settings))
    return config


class ClientFederation(RequestFederation):
    """Config, keys and processes of the server ``server`` and its clients."""

    def __init__(
        self, folder: Path, changes: Sequence[str] = (), config: Path | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = config or _write_wood(folder)
        self.folder, self.config, self._data = folder, config, None
        self.changes = tuple(changes)
        agreement = read_runnable(config, list(changes), None).agreement
        self.name, self.hub = agreement.federation, agreement.hub
        self.roles = {name: each.role for name, each in agreement.parties.items()}
        self.keys = folder / "certs"
        if not self.keys.exists():
            make_authority(self.keys, self.name)
            for name in self.roles:
                issue_certificate(self.keys, self.name, name)

    @contextmanager
    def local(self, name: str, out: Path) -> Iterator[LocalDesk]:  # type: ignore[override]
        """One party without its data, and its open journal, as a command has them."""
        config = read_runnable(self.config, list(self.changes), name)
        self.state(name, out).mkdir(parents=True, exist_ok=True)
        options = StartOptions(out, None, self.keys)
        with open_federated_local_desk(config, name, options) as local:
            yield local

    def party(self, name: str, out: Path) -> PartyContext:  # type: ignore[override]
        """One party without its data."""
        with self.local(name, out) as local:
            return local.party

    def ask(self, name: str, out: Path, classes: Sequence[str] = (), fraction: str = "1") -> str:
        """Request at a client that its rows, or those of classes, are forgotten; return the ID."""
        with self.local(name, out) as local:
            now = local.party.now()
            request = new_request_id(now)
            body = RequestedBody(
                kind="client",
                classes=tuple(classes),
                fraction=fraction,
                ground="gdpr-17-1-b",
                received_at=event_time(now),
                due_at=event_time(now + timedelta(days=30)),
            )
            local.desk.append(EventKind.REQUESTED, request, body)
        with self.desk(name, out):  # attends to the request
            return request

    def ask_list(self, name: str, out: Path, option: str, entries: Sequence[str]) -> dict[str, Any]:
        """Request at a client that the rows of a list are forgotten; return the printed result."""
        path = self.folder / "list.txt"
        path.write_text("".join(f"{each}\n" for each in entries))
        return self.command("request", name, out, option, str(path))[-1]

    def command(self, what: str, name: str, out: Path, *options: str) -> list[dict[str, Any]]:
        """Run a command of ``vfl unlearn`` at one party; return the printed events."""
        self.state(name, out).mkdir(parents=True, exist_ok=True)
        words = ["unlearn", what, str(self.config), "--party", name, "--out", str(out)]
        words += ["--certificates", str(self.keys), "--format", "json", *options]
        for change in self.changes:
            words += ["--set", change]
        found = CliRunner().invoke(app, words, env={"VFL_DATA": None}, catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return [json.loads(line) for line in found.output.splitlines()]

    def joins(self, name: str, out: Path) -> int:
        """The number of events that say that a party waits for the others, in all its processes."""
        path = self.output(name, out)
        return path.read_text().count('"phase": "waiting for') if path.exists() else 0

    def wait_note(self, out: Path, text: str, seconds: float = PATIENCE) -> None:
        """Wait until a note or warning of a party contains ``text``.

        Raises:
            AssertionError: none did in time.
        """
        deadline = monotonic() + seconds
        while text not in self.notes(out):
            assert monotonic() < deadline, self.notes(out)
            sleep(0.05)


class ClientKills(RequestKills):
    """The lives of a client's request; finished ones are remembered in ``folder``."""

    client = CLIENTS[1]  # which requests that its rows are forgotten
    fraction = "1"  # of its rows

    def _open(self, folder: Path) -> RequestFederation:
        return ClientFederation(folder)

    def _live_quietly(self) -> None:
        federation = self.federation
        assert isinstance(federation, ClientFederation)
        federation.train(self.trained)
        request = federation.ask(self.client, self.trained, fraction=self.fraction)
        self._live_with(request, {})
