"""Three parties with a kept model inside a test: one training, then sessions of the service."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from crash import Crash, count_messages, crash_after
from three_parties import agreement, certify, party, write_data

from configs.requests import PartyRequestSettings
from parties.requests.duties import RequestDesk
from parties.requests.events import (
    EventKind,
    RequestedBody,
    VerifiedBody,
    event_time,
    new_request_id,
)
from parties.requests.lifecycle import RequestView
from parties.session.memory_port import MemoryPort
from parties.session.setup import Begin
from parties.vertical.active import run_active
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import party_models
from parties.vertical.passive import run_passive
from parties.vertical.resume import prepare_start
from parties.vertical.service.active import serve_active
from parties.vertical.service.desk import open_desk
from parties.vertical.service.passive import serve_passive
from parties.vertical.service.queue import PredictsRows
from protocol.line import Line

TRAINING = {"learning_rate": 0.01, "batch": 16, "epochs": 2}
SECONDS = 120.0  # most seconds of a session


class NoPredictions:
    """A queue without predictions, which never waits."""

    asked = True  # so that a fallback model is fitted

    def open(self, *, fallback: bool = False, absent: Sequence[str] = ()) -> None:
        """Accept predictions."""

    def close_absent(self, names: Sequence[str]) -> None:
        """Refuse predictions because parties are absent."""

    def close_busy(self) -> None:
        """Refuse predictions because a request is being carried out."""

    def answer_next(self, predictor: PredictsRows, seconds: float) -> bool:
        """Answer nothing."""
        return False


@dataclass
class KeptTrio:
    """The folder and the agreement of three parties that have trained."""

    folder: Path
    plan: dict[str, Any]
    recipients: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of each party
    policies: dict[str, str] = field(default_factory=dict)  # of each party; default: automatic
    messages: int = 0  # of the hub in the last training or service

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parties of the agreement."""
        return tuple(self.plan["parties"])

    def party(self, name: str, *, serves: bool = True, **options: Any) -> VerticalParty:
        """One party, set up; ``options`` are options of the start."""
        found = party(self.folder, name, self.plan, [], serves=serves, **options)
        requests = PartyRequestSettings(
            policy=self.policies.get(name, "automatic"),  # type: ignore[arg-type]
            persons="persons.toml",
            recipients=self.recipients.get(name, ()),
        )
        return replace(found, settings=found.settings.model_copy(update={"requests": requests}))

    def train(
        self, *, versions: Mapping[str, str] | None = None, crash: tuple[str, int] | None = None
    ) -> dict[str, Any]:
        """Train, and keep the model; return the metrics, which are empty after a crash.

        ``versions``: by party, the version from which the training goes on. ``crash``: the party
        that crashes, and after how many messages.
        """
        port, start = MemoryPort(), versions or {}
        trio = {
            name: self.party(name, serves=False, continues=start.get(name, ""))
            for name in self.names
        }
        for each in trio.values():
            prepare_start(each, Begin.AUTO)
        counted = count_messages(trio["hub"])
        if crash is not None:
            crash_after(trio[crash[0]], crash[1])

        def follow(name: str) -> None:
            run_passive(trio[name], lambda: port.connect(name))

        with ThreadPoolExecutor(3) as pool:
            active = pool.submit(run_active, trio["hub"], port, lambda metrics: None)
            runs: list[Future[Any]] = [active]
            runs += [pool.submit(follow, name) for name in self.names if name != "hub"]
            failures = [each.exception(SECONDS) for each in runs]
        self.messages = counted[0]
        if crash is not None and any(isinstance(each, Crash) for each in failures):
            return {}
        for each in filter(None, failures):
            raise each
        return active.result()

    def carry_out(self, *, crash: int | None = None, **changes: Any) -> None:
        """Serve until nothing is left to do.

        ``crash``: after how many messages the hub crashes; the others then end, too.
        """
        port, dead = MemoryPort(), Event()
        self.plan = {**self.plan, **changes}
        trio = {name: self.party(name) for name in self.names}
        if crash is not None:
            crash_after(trio["hub"], crash)
        counted = count_messages(trio["hub"])
        desks = {name: open_desk(each, each.agreement) for name, each in trio.items()}

        def lead() -> None:
            try:
                serve_active(trio["hub"], port, desks["hub"], NoPredictions(), once=True)
            finally:
                dead.set()

        def connect(name: str) -> Line:
            if crash is not None and dead.is_set():
                raise Crash
            return port.connect(name)

        def follow(name: str) -> None:
            serve_passive(trio[name], lambda: connect(name), desks[name], once=True)

        with ThreadPoolExecutor(3) as pool:
            runs: list[Future[None]] = [pool.submit(lead)]
            runs += [pool.submit(follow, name) for name in self.names if name != "hub"]
            failures = [each.exception(SECONDS) for each in runs]
        self.messages = counted[0]
        for each_desk in desks.values():
            each_desk.close()
        for failure in failures:
            if failure is not None and not (crash is not None and isinstance(failure, Crash)):
                raise failure

    def request(self, name: str, asked_rows: Iterable[int] = (), **content: Any) -> str:
        """Raise a request at one party, and return its ID."""
        us = self.party(name)
        now = us.now()
        asked = {"kind": "rows", "rows": tuple(sorted(asked_rows)), "ground": "gdpr-17-1-b"}
        asked["subjects_root"] = "0" * 64
        times = {"received_at": event_time(now), "due_at": event_time(now + timedelta(days=30))}
        with closing(open_desk(us, us.agreement)) as desk:
            request = new_request_id(now)
            body = RequestedBody.model_validate({**asked, **times, **content})
            desk.append(EventKind.REQUESTED, request, body)
            desk.attend()
        return request

    def view(self, name: str, request: str) -> RequestView:
        """A request as one party sees it."""
        us = self.party(name)
        with closing(open_desk(us, us.agreement)) as desk:
            return desk.request(request)

    def desk(self, name: str) -> RequestDesk:
        """The open desk of one party."""
        us = self.party(name)
        return open_desk(us, us.agreement)

    def figures(self) -> dict[str, str]:
        """The figures of the newest version's requests, which the active party alone knows."""
        newest = party_models(self.party("hub")).newest_version()
        assert newest is not None
        assert newest.version is not None
        return dict(newest.version.own["audit"])

    def journaled_figures(self, name: str, request: str) -> list[dict[str, str]]:
        """The figures of a request in the journal of one party, by version that it made."""
        with closing(self.desk(name)) as desk:
            bodies = [each.body for each in desk.journal.events(request)]
        return [dict(each.audit) for each in bodies if isinstance(each, VerifiedBody)]

    def models(self) -> Mapping[str, Any]:
        """The store of each party."""
        return {name: party_models(self.party(name)) for name in self.names}


def train_trio(
    folder: Path,
    rows: int = 240,
    write: Callable[[Path, int], None] | None = None,
    **changes: Any,
) -> KeptTrio:
    """Write data and certificates, train, and keep the model; ``write`` writes the tables."""
    (write or write_data)(folder, rows)
    certify(folder)
    unlearning = {"method": "retrain-local", "compare": ("fine-tune", "relabel"), "retrains": 2}
    plan = {"training": TRAINING, "unlearning": unlearning, **changes}
    trio = KeptTrio(folder, agreement(**plan))
    trio.train()
    return trio
