"""The server that stays: it exchanges journals with the clients, and carries out requests."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import monotonic, sleep
from typing import Literal

from configs.federated import RequestBase
from parties.common.errors import Diverged, PolicyError, abort_reason
from parties.horizontal.admission import Admission
from parties.horizontal.engine.branches import Branches
from parties.horizontal.engine.cohort import AbsentClientError
from parties.horizontal.engine.hub_cohort import HubCohort
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.party import FederatedParty, save_model
from parties.horizontal.requests import AfterRun, RequestRunner
from parties.horizontal.server import cohort_settings
from parties.horizontal.service.comparison import retrain_figures, write_retrain_comparison
from parties.horizontal.service.desk import state_version
from parties.horizontal.service.kept_model import (
    KeptModel,
    federated_models,
    read_kept_model,
    request_of,
    with_requests,
)
from parties.horizontal.service.quick_audit import audit_figures, require_utility
from parties.report.record import MethodRecord, Request
from parties.requests.duties import RequestDesk
from parties.requests.events import (
    AlignedBody,
    EventKind,
    QuarantinedBody,
    StartedBody,
    VerifiedBody,
    event_time,
)
from parties.requests.exchange import JournalExchange
from parties.requests.lifecycle import (
    CARRIED_OUT,
    RequestState,
    RequestView,
    largest_version,
)
from parties.requests.receipts import joined_figures
from parties.session import handshake
from parties.session.reconnect import Backoff, is_connection_loss
from parties.session.store.model_store import StoredFile, VersionFacts
from protocol.errors import PeerSilent, ProtocolError
from unlearning.guarantee import Guarantee

_ROWS = re.compile(r"(\d{1,12}) rows")
POLL = 0.5  # seconds between two exchanges of journals


def serve_server(
    party: FederatedParty, port: handshake.SpokePort, desk: RequestDesk, *, once: bool
) -> None:
    """Accept the clients again and again, and carry out requests.

    Args:
        party: the server.
        port: accepts the connections of the clients.
        desk: the server's journal of requests, and its duties.
        once: whether to end when nothing is left to do.

    Raises:
        ProtocolError: a client broke the protocol.
        StorageError: no model is kept.
    """
    federated_models(party).require()
    backoff, finished = Backoff(party), False
    while not finished:
        began = monotonic()
        try:
            finished = _run_session(party, port, desk, once=once)
        except ProtocolError as error:
            if not is_connection_loss(error):
                raise
            backoff.wait(error, monotonic() - began)


def _run_session(
    party: FederatedParty, port: handshake.SpokePort, desk: RequestDesk, *, once: bool
) -> bool:
    """Run one session with all clients; return True if nothing is left to do."""
    admission, names = Admission(party, port), party.agreement.spokes
    channels = admission.open()
    settings = cohort_settings(party)
    cohort = HubCohort(names, channels, admission.arrivals, settings, party.progress.warn)
    try:
        if missing := [name for name in names if name not in channels]:
            raise PeerSilent(
                f"{', '.join(missing[:10])} did not join, but a request needs every client",
                "start these clients",
            )
        return ServerSession(party, cohort, admission.session, desk).run(once=once)
    except Exception as error:
        cohort.abort(*abort_reason(error))
        raise
    finally:
        cohort.close()


class ServerSession:
    """One session of the server with the kept model and all clients."""

    def __init__(
        self, party: FederatedParty, cohort: HubCohort, session: bytes, desk: RequestDesk
    ) -> None:
        self._party, self._cohort, self._session, self._desk = party, cohort, session, desk
        self._store = federated_models(party)
        self._method = party.agreement.unlearning.method  # type: ignore[attr-defined]
        self._delivered = 0  # the version that all clients have got in this session

    def run(self, *, once: bool) -> bool:
        """Serve; return True when ``once`` is true and nothing is left to do."""
        self._synchronise()  # first: a restored journal gets its own later events back
        self._finish_version()
        window = timedelta(hours=self._party.agreement.requests.window_hours)
        while True:
            self._synchronise()
            self._align()
            ready = self._desk.ready(window, self._method, self._newest().number)
            if ready:
                # One request makes one version, except those that a restored backup lacks.
                again = ready[0].state in (RequestState.RUNNING, *CARRIED_OUT)
                self._carry_out(ready if again else ready[:1])
                self._finish_version()
            elif once and not self._is_waited_for():
                self._cohort.goodbye()
                return True
            else:
                sleep(POLL)

    def _synchronise(self) -> None:
        JournalExchange(self._party, self._cohort.hub, self._desk).synchronise()

    def _newest(self) -> StoredFile:
        newest = self._store.newest_version()
        if newest is None:
            raise LookupError("no version of the model is kept")
        return newest

    # --- one request -----------------------------------------------------------------------------

    def _align(self) -> None:
        """Tell that a request is ready: its rows have no common order, so none are named."""
        for view in self._desk.requests():
            if view.state is RequestState.AUTHORISED:
                self._desk.append(EventKind.ALIGNED, view.id, AlignedBody(rows=()))

    def _carry_out(self, views: Sequence[RequestView]) -> None:
        """Carry out requests, and write the next version at the server."""
        before, batch = self._newest(), tuple(view.id for view in views)
        if all(view.state is not RequestState.RUNNING for view in views):
            federated_checkpoints(self._party).clear()  # of a batch that was put into quarantine
        for view in views:
            if view.state is not RequestState.RUNNING:
                body = StartedBody(batch=batch, version=before.number, method=self._method)
                self._desk.append(EventKind.STARTED, view.id, body)
        self._synchronise()
        self._party.progress.note(f"carrying out the requests to forget {', '.join(batch)}")
        try:
            self._forget(before, views)
        except (Diverged, PolicyError) as error:
            if lost := self._cohort.lost:  # too few replied: the request is not at fault
                raise PeerSilent(
                    f"{', '.join(lost[:10])} lost the connection and did not return: {error}",
                    "start these clients again",
                ) from error
            if isinstance(error, AbsentClientError):  # it has returned since
                raise PeerSilent(str(error), error.hint) from error
            self._quarantine(batch, f"{error}. {error.hint}" if error.hint else str(error))

    def _forget(self, before: StoredFile, views: Sequence[RequestView]) -> None:
        """Run the method, let the clients delete the rows, and write the version.

        Raises:
            AbsentClientError: a client was lost, and did not return in time.
            Diverged: the method diverged.
            PolicyError: a request is not one of this mode, or no client with rows remains.
        """
        kept = read_kept_model(self._party)
        if kept is None:
            raise LookupError("no version of the model is kept")
        requests = [request_of(self._party.agreement, view) for view in views]
        party = with_requests(self._party, requests, compares=self._compares(views))
        task = party.server_task(party)
        journal = RunJournal(party, federated_checkpoints(party), self._session)
        cohort = task.wrap_cohort(self._cohort)
        branches = Branches(cohort, journal)
        model, records = kept.model, list[Request]()
        for request in requests:
            later = AfterRun(None if _names_labels(request) else self._check)
            runner = RequestRunner(party, cohort, journal, branches, task, later=later)
            model, _, record = runner.carry_out(request, model, kept.rounds)
            records.append(record)
        if any(map(retrain_figures, records)):
            page = write_retrain_comparison(party, task, journal.run, views[0].id, records[0])
            party.progress.note(f"comparison with Retrains: {page}")
        new = KeptModel(model, kept.rounds, (*kept.forgotten, *requests))
        limited = not any(_names_labels(each) for each in requests)
        own = {
            "audit": self._audit(records, limited=limited),
            "before": kept.digest,
            "after": new.digest,
            "older": self._store.contents(),
            "guarantee": _guarantee(records).value,
            "counts": {view.id: _deleted(r) for view, r in zip(views, records, strict=True)},
        }
        ids, when = tuple(view.id for view in views), event_time(party.now())
        facts = VersionFacts("requests", when, before.number, ids, self._method, own)
        made = largest_version(self._desk.journal.events(), self._desk.rules.hub)
        number = 1 + max(before.number, made)
        self._store.write(number, journal.run, new.content(), facts)
        journal.clear()

    def _compares(self, views: Sequence[RequestView]) -> bool:
        """Whether the model is compared with Retrains.

        Requests that a restored version carries out together are not: the Retrains of the first
        ones would have rows of the later ones.
        """
        return self._party.agreement.requests.audit == "full" and len(views) == 1

    def _check(self, methods: Sequence[MethodRecord], chosen: str) -> None:
        require_utility(methods, chosen, self._party.agreement.requests.guard)

    def _audit(self, records: Sequence[Request], *, limited: bool) -> dict[str, str]:
        """The figures before the first request and after the last one; empty if none are agreed."""
        if self._party.agreement.requests.audit == "none":
            return {}
        found = joined_figures(
            [audit_figures(each.methods, each.chosen) | retrain_figures(each) for each in records]
        )
        # Without a limit, the receipt has no test of utility to pass.
        return {k: v for k, v in found.items() if limited or not k.startswith("validation")}

    def _quarantine(self, batch: Sequence[str], why: str) -> None:
        reason = f"{why}; the model stays as it is"
        with self._desk.journal.transaction():
            for request in batch:
                self._desk.append(EventKind.QUARANTINED, request, QuarantinedBody(reason=reason))
        federated_checkpoints(self._party).clear()
        self._party.progress.warn(f"{', '.join(batch)}: {reason}")
        self._cohort.end_request()
        self._synchronise()

    # --- the new version -------------------------------------------------------------------------

    def _finish_version(self) -> None:
        """Let every party keep the newest version, erase earlier ones, and state it.

        This happens once in every session: a client that was restored from a backup gets the
        version that it lacks.
        """
        newest = self._newest()
        facts = newest.version
        if facts is None or facts.made_by != "requests" or newest.number == self._delivered:
            return
        kept = read_kept_model(self._party)
        if kept is None:
            raise LookupError("no version of the model is kept")
        self._cohort.switch_branch(f"{newest.run.hex()} kept", None)
        try:
            self._cohort.keep(kept.model, newest.number, facts)
        except AbsentClientError as error:
            raise PeerSilent(str(error), error.hint) from error
        self._cohort.end_request()
        task = self._party.server_task(self._party)
        save_model(self._party, task.named_tensors(kept.model), newest.run)
        sent = [channel.sent_transcript for channel in self._cohort.hub.channels.values()]
        state_version(self._party, self._desk, self._store, sent)
        for request in facts.requests:
            if self._desk.request(request).version_after is None:
                audit = facts.own.get("audit", {})
                body = VerifiedBody(
                    version=newest.number,
                    count=facts.own["counts"][request],
                    guarantee=facts.own["guarantee"],
                    level=_level(audit),
                    audit=audit,
                )
                self._desk.append(EventKind.VERIFIED, request, body)
        self._delivered = newest.number
        self._synchronise()

    def _is_waited_for(self) -> bool:
        """Whether a request can still move on without a person."""
        waiting = (RequestState.PENDING, RequestState.AUTHORISED, RequestState.VERIFIED)
        return any(each.state in waiting for each in self._desk.requests())


def _names_labels(request: RequestBase) -> bool:
    """Whether a request forgets labels, which validation rows have too, so that accuracy falls."""
    return bool(getattr(request, "classes", ()))


def _level(audit: Mapping[str, str]) -> Literal["none", "quick", "full"]:
    """The level of an audit with these figures."""
    if "retrains" in audit:
        return "full"
    return "quick" if audit else "none"


def _guarantee(records: Sequence[Request]) -> Guarantee:
    """The guarantee of the chosen method; exact if no client had such rows."""
    methods = [each for record in records for each in record.methods if each.name == record.chosen]
    found = {Guarantee(each.guarantee) for each in methods if each.guarantee}
    return next(iter(found), Guarantee.EXACT)


def _deleted(record: Request) -> int:
    """Number of rows that the clients have deleted, by their reports such as ``12 rows``."""
    reports = [_ROWS.fullmatch(text) for texts in record.purged.values() for text in texts]
    return sum(int(each[1]) for each in reports if each)
