"""Life of a request: its state, computed from the events of all parties.

The result depends on the set of events alone, not on the order in which a party received them. A
request is carried out at most once per start; a start counts only if its hub had seen an approval
of every party (``StartedBody.seen``). A request that was carried out starts again only from a
version of the model that is older than the one it made: the version of a restored backup. Events
that break a rule are counted, and have no effect.
"""

from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final, cast

from parties.requests.events import (
    AlignedBody,
    CompletedBody,
    DecisionBody,
    Event,
    EventKind,
    ExtendedBody,
    FallbackBody,
    NotifiedBody,
    QuarantinedBody,
    RequestedBody,
    SignedBody,
    StartedBody,
    VerifiedBody,
    parse_time,
)
from parties.requests.persons import decision_holds
from unlearning.receipts.canonical import MAX_INTEGER

REMINDERS: Final = (50, 80, 100)  # percent of the time from receipt to the due date
LONGEST_EXTENSION: Final = 2  # months after the first due date (GDPR Art. 12(3))
_LONGEST_MONTH: Final = 31  # days
MARGIN: Final = timedelta(days=1)  # before the due date, at which a batch no longer waits


class RequestState(StrEnum):
    """State of a request."""

    PENDING = "pending"  # not every party has journaled the request
    RECEIVED = "received"  # every party has journaled the request
    AUTHORISED = "authorised"  # every party has approved the request
    ALIGNED = "aligned"  # authorised, and the rows are known
    RUNNING = "running"  # the hub has started to carry out the request
    VERIFIED = "verified"  # the new version has passed its checks; signatures are missing
    CERTIFIED = "certified"  # every party has signed the receipt
    NOTIFIED = "notified"  # the party of the requester has informed all that it has to inform
    REJECTED = "rejected"  # a party refused the request
    QUARANTINED = "quarantined"  # the new version failed its checks and is not used
    CANCELLED = "cancelled"  # the requester withdrew the request before its start


ENDED: Final = frozenset({RequestState.REJECTED, RequestState.CANCELLED})
CARRIED_OUT: Final = frozenset({RequestState.CERTIFIED, RequestState.NOTIFIED})
UNDECIDED: Final = (RequestState.PENDING, RequestState.RECEIVED)
BEFORE_START: Final = (*UNDECIDED, RequestState.AUTHORISED, RequestState.ALIGNED)


@dataclass(frozen=True, slots=True)
class RequestRules:
    """What the states of requests depend on, from the agreement.

    Attributes:
        parties: names of all parties.
        hub: the party that carries out requests: the active party or the server.
        separate_persons: whether the person who made a request may not approve it.
        joined: by party, the day on which it joined, ISO 8601; it takes no part in requests that
            were made before, nor in those of that day whose receipt the other parties have signed.
            A party that is not named takes part in all.
    """

    parties: tuple[str, ...]
    hub: str
    separate_persons: bool = False
    joined: Mapping[str, str] = field(default_factory=dict)

    def on(self, day: str) -> "RequestRules":
        """Return the rules for requests that were made on ``day``, ISO 8601."""
        late = {name for name, since in self.joined.items() if since > day}
        parties = tuple(each for each in self.parties if each not in late)
        return replace(self, parties=parties, joined={})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request as its events describe it.

    Attributes:
        id: ID of the request.
        origin: party of the requester.
        content: what was requested.
        rows: ascending indices into the common order; None until a request by label is aligned.
        received_at: when the request was received.
        due_at: when the request is due, extensions included.
        extended: whether the due date was moved.
        state: state of the request.
        journaled: parties that have recorded the request.
        approvals: parties that have approved the request.
        rejected_by: the parties that have rejected the request.
        reason: why the request was rejected, withdrawn or put into quarantine.
        ready_at: when the request became ready to be carried out; None before.
        starts: number of valid starts; a second start is possible only after a quarantine, or from
            a version that is older than the one which the request made.
        batch: requests of the last start.
        method: method of the last start; empty before.
        version_before: number of the model's version before the last start.
        version_after: number of the new version, once verified.
        first_version: number of the first version that the request made; None before. It stays when
            the request is carried out again.
        receipt: SHA-256 digest of the receipt, once completed.
        signatures: parties that have signed the receipt.
        clock_anomaly: whether the clock of a party was set back between two events.
        ignored: number of events of the request that broke a rule.
        purged: parties that have deleted their private record of the request.
        notified: by party, its last count of informed recipients of the data.
        fallback: the last fallback model without the rows of the request; None if there was none.
        count: number of rows that the request named, once verified, where rows have no common
            order; None otherwise.
    """

    id: str
    origin: str
    content: RequestedBody
    rows: tuple[int, ...] | None
    received_at: datetime
    due_at: datetime
    extended: bool
    state: RequestState
    journaled: frozenset[str]
    approvals: frozenset[str]
    rejected_by: frozenset[str]
    reason: str
    ready_at: datetime | None
    starts: int
    batch: tuple[str, ...]
    method: str
    version_before: int | None
    version_after: int | None
    receipt: str | None
    signatures: frozenset[str]
    clock_anomaly: bool
    ignored: int
    purged: frozenset[str]
    notified: Mapping[str, NotifiedBody]
    fallback: FallbackBody | None = None
    count: int | None = None
    first_version: int | None = None

    @property
    def corrects(self) -> bool:
        """Whether the request replaces labels; else it forgets rows."""
        return self.content.kind == "correction"

    @property
    def open(self) -> bool:
        """Whether something is still to be done before the requester can be informed."""
        return self.state not in ENDED | CARRIED_OUT

    def reminder(self, now: datetime) -> int | None:
        """Return the last of 50, 80 and 100 % of the time to the due date that has passed.

        None if the request is not open, or less than 50 % have passed.
        """
        if not self.open:
            return None
        total = self.due_at - self.received_at
        passed = (now - self.received_at) / total if total > timedelta() else 1.0
        return max((each for each in REMINDERS if 100 * passed >= each), default=None)

    def expired(self, now: datetime) -> bool:
        """Return whether the request is open after its due date: an alarm, not a state."""
        return self.reminder(now) == 100


def requests_of(events: Iterable[Event], rules: RequestRules) -> list[RequestView]:
    """Return all requests in ``events``, ordered by ID and so by the time of their creation."""
    ordered = sorted(events, key=lambda event: (event.origin, event.seq))
    late = _set_back(ordered)
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in ordered:
        groups[event.request].append(event)
    return [
        _view(group, rules, clock_anomaly=any((each.origin, each.seq) in late for each in group))
        for _, group in sorted(groups.items())
        if any(event.kind is EventKind.REQUESTED for event in group)
    ]


def frozen_rows(views: Iterable[RequestView], version: int) -> frozenset[int]:
    """Return the rows of version ``version`` that no batch, prediction or export may use.

    These are the rows of all requests that were neither rejected nor withdrawn. A request that was
    carried out counts only if the version is older, as it is in a restored backup: a later version
    does not have its rows, and a later training numbers the rows anew.
    """
    return frozenset(
        row
        for view in views
        if view.state not in ENDED
        and not (view.state in CARRIED_OUT and (view.version_after or 0) <= version)
        for row in view.rows or ()
    )


def largest_version(events: Iterable[Event], hub: str) -> int:
    """Return the largest number of a version that a request has ever made; 0 if there is none.

    Only events of the ``hub`` count: no other party makes versions.
    """
    bodies = (event.body for event in events if event.origin == hub)
    return max((each.version for each in bodies if isinstance(each, VerifiedBody)), default=0)


def in_order(views: Iterable[RequestView]) -> list[RequestView]:
    """Return requests in the order in which they were first carried out; open ones come last."""
    return sorted(views, key=lambda view: (view.first_version or MAX_INTEGER, view.id))


def undone_requests(views: Iterable[RequestView], version: int) -> tuple[RequestView, ...]:
    """Return the requests that were carried out, but not in version ``version`` of the model.

    There are none, unless the version was restored from a backup that is older than the requests.
    """
    return tuple(
        view for view in views if view.state in CARRIED_OUT and (view.version_after or 0) > version
    )


def follow_each_other(views: Iterable[RequestView], version: int) -> bool:
    """Return whether requests were carried out from ``version`` on, without a training between.

    A later training numbers the rows anew.
    """
    made = {(each.version_before or 0, each.version_after or 0) for each in views}
    for before, after in sorted(made):
        if before != version:
            return False
        version = after
    return True


def ready_batch(
    views: Iterable[RequestView], now: datetime, window: timedelta
) -> tuple[RequestView, ...]:
    """Return the requests to carry out now, together; none while the window is open.

    The window starts when the first waiting request is ready. It ends early if one of the waiting
    requests is due within a day.
    """
    ready = tuple(view for view in views if view.state is RequestState.ALIGNED)
    starts = [view.ready_at for view in ready if view.ready_at is not None]
    if not starts:
        return ()
    end = min(min(starts) + window, min(view.due_at for view in ready) - MARGIN)
    return ready if now >= end else ()


def add_months(moment: datetime, months: int) -> datetime:
    """Return ``moment`` some calendar months later, on the last day of a shorter month."""
    index = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(index, 12)
    day = min(moment.day, monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def due_date(received_at: datetime, days: int) -> datetime:
    """Return the date ``days`` after the receipt; up to 31 days never exceed a calendar month.

    30 days after 31 January lie in March, after the month that the GDPR allows.
    """
    due = received_at + timedelta(days=days)
    return min(due, add_months(received_at, 1)) if days <= _LONGEST_MONTH else due


def latest_extension(received_at: datetime, due_at: datetime) -> datetime:
    """Return the latest due date that an extension may set for a request due at ``due_at``."""
    return max(add_months(due_at, LONGEST_EXTENSION), received_at)


@dataclass(slots=True)
class _Run:
    """Progress of carrying out one request; changes with each event of the hub."""

    phase: RequestState | None = None
    starts: int = 0
    start: StartedBody | None = None
    version: int | None = None
    first_version: int | None = None
    count: int | None = None
    receipt: str | None = None
    reason: str = ""
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class _Consent:
    """Decisions of the parties about one request."""

    approvals: Mapping[str, Event]
    rejections: Mapping[str, Event]
    withdrawal: Event | None
    alignment: Event | None
    ignored: int = 0

    def complete(self, rules: RequestRules) -> bool:
        """Return whether every party has approved the request."""
        return not self.rejections and self.approvals.keys() >= set(rules.parties)

    def covers(self, start: Event, rules: RequestRules, *, needs_rows: bool) -> bool:
        """Return whether the hub had seen every approval, no withdrawal and the rows at a start."""
        return (
            self.complete(rules)
            and all(_seen(event, start) for event in self.approvals.values())
            and not (self.withdrawal is not None and _seen(self.withdrawal, start))
            and (not needs_rows or (self.alignment is not None and _seen(self.alignment, start)))
        )


def _view(events: Sequence[Event], rules: RequestRules, *, clock_anomaly: bool) -> RequestView:
    """Return the view of one request from its events, ordered by origin and seq."""
    asked = next(event for event in events if event.kind is EventKind.REQUESTED)
    content = cast(RequestedBody, asked.body)
    rules, consent, run = _judged(events, asked, rules)
    aligned = consent.alignment
    rows = content.rows if aligned is None else cast(AlignedBody, aligned.body).rows
    known = {asked.origin, *consent.approvals, *_origins(events, EventKind.JOURNALED)}
    journaled = known & set(rules.parties)
    signatures = _signatures(events, run, rules)
    due, extended, refused = _due(events, asked)
    notified = {each.origin: each.body for each in events if isinstance(each.body, NotifiedBody)}
    state = _state(consent, run, rules, has_rows=rows is not None)
    if state is RequestState.PENDING and journaled >= set(rules.parties):
        state = RequestState.RECEIVED
    if run.receipt is not None and signatures >= set(rules.parties):
        state = RequestState.NOTIFIED if asked.origin in notified else RequestState.CERTIFIED
    return RequestView(
        id=asked.request,
        origin=asked.origin,
        content=content,
        rows=rows,
        received_at=parse_time(content.received_at),
        due_at=due,
        extended=extended,
        state=state,
        journaled=frozenset(journaled),
        approvals=frozenset(consent.approvals),
        rejected_by=frozenset(consent.rejections),
        reason=_reason(consent, run, state),
        ready_at=_ready_at(asked, consent, rules, has_rows=rows is not None),
        starts=run.starts,
        batch=run.start.batch if run.start else (),
        method=run.start.method if run.start else "",
        version_before=run.start.version if run.start else None,
        version_after=run.version,
        receipt=run.receipt,
        signatures=signatures,
        clock_anomaly=clock_anomaly,
        ignored=consent.ignored + run.ignored + refused,
        purged=_origins(events, EventKind.PURGED),
        notified=notified,
        fallback=_fallback(events, rules),
        count=run.count,
        first_version=run.first_version,
    )


def _rules_of(asked: Event, rules: RequestRules) -> RequestRules:
    """Return the rules of one request, which the event ``asked`` made.

    If a party or columns left, no persons are needed: the training without them has taken place.
    """
    found = rules.on(asked.time[:10])
    trained = cast(RequestedBody, asked.body).by_training
    return replace(found, separate_persons=rules.separate_persons and not trained)


def _ready_at(
    asked: Event, consent: _Consent, rules: RequestRules, *, has_rows: bool
) -> datetime | None:
    """Return when the last approval was given, or the rows were named; None before."""
    if not (consent.complete(rules) and has_rows):
        return None
    aligned = [] if consent.alignment is None else [consent.alignment]
    events = [asked, *consent.approvals.values(), *aligned]
    return max(parse_time(event.time) for event in events)


def _origins(events: Iterable[Event], kind: EventKind) -> frozenset[str]:
    """Return the parties that have made an event of this kind."""
    return frozenset(event.origin for event in events if event.kind is kind)


def _fallback(events: Sequence[Event], rules: RequestRules) -> FallbackBody | None:
    """Return the last fallback model of the hub without the rows of the request, or None."""
    bodies = [each.body for each in events if each.origin == rules.hub]
    return next((each for each in reversed(bodies) if isinstance(each, FallbackBody)), None)


def _judged(
    events: Sequence[Event], asked: Event, rules: RequestRules
) -> tuple[RequestRules, _Consent, _Run]:
    """Return the rules of a request, and its decisions and progress by these rules.

    A request that did not start by the present rules is judged by earlier ones if every party of
    that time has signed its receipt, so that every party accepted it by them.
    """
    present = _rules_of(asked, rules)
    needs_rows = cast(RequestedBody, asked.body).rows is None
    consent = _consent(events, asked, present)
    run = _run(events, consent, present, needs_rows=needs_rows)
    for earlier in () if run.starts else _earlier_rules(events, asked, rules):
        consent_then = _consent(events, asked, earlier)
        run_then = _run(events, consent_then, earlier, needs_rows=needs_rows)
        signatures = _signatures(events, run_then, earlier)
        if run_then.receipt is not None and signatures >= set(earlier.parties):
            return earlier, consent_then, run_then
    return present, consent, run


def _earlier_rules(
    events: Sequence[Event], asked: Event, rules: RequestRules
) -> Iterator[RequestRules]:
    """Yield earlier rules: without separate persons, and without parties that joined later.

    A party that joined on the day of a request, or on the day before because the agreement has
    local dates, took no part in the request if it signed no receipt of it.
    """
    present, day = _rules_of(asked, rules), asked.time[:10]
    before = (date.fromisoformat(day) - timedelta(days=1)).isoformat()
    recent = {name for name, since in rules.joined.items() if before <= since <= day}
    late = recent - _origins(events, EventKind.SIGNED)
    parties = tuple(each for each in present.parties if each not in late)
    if present.separate_persons:
        yield replace(present, separate_persons=False)
    if late:
        yield replace(present, parties=parties)
        yield replace(present, parties=parties, separate_persons=False)


def _consent(events: Sequence[Event], asked: Event, rules: RequestRules) -> _Consent:
    """Return the decisions; the first valid decision of a party stands."""
    approvals: dict[str, Event] = {}
    rejections: dict[str, Event] = {}
    withdrawal: Event | None = None
    alignment: Event | None = None
    ignored = 0
    content = cast(RequestedBody, asked.body)
    by_label = content.rows is None
    # Only the hub has labels, and only the hub trains without a party that left: no approval of
    # another party's request of these kinds counts.
    possible = content.kind not in ("correction", "party") or asked.origin == rules.hub
    for event in events:
        if event.kind in (EventKind.APPROVED, EventKind.REJECTED):
            target = approvals if event.kind is EventKind.APPROVED else rejections
            decided = event.origin in {*approvals, *rejections}
            # A rejection stays one if its party has left the agreement since.
            fits = event.kind is EventKind.REJECTED or (possible and event.origin in rules.parties)
            fits = fits and not decided
            if fits and decision_holds(event, asked, separate=rules.separate_persons):
                target[event.origin] = event
            else:
                ignored += 1
        elif event.kind is EventKind.WITHDRAWN:
            if event.origin == asked.origin and decision_holds(event, asked, separate=False):
                withdrawal = withdrawal or event
            else:
                ignored += 1
        elif event.kind is EventKind.ALIGNED:
            if event.origin == rules.hub and by_label:
                alignment = alignment or event
            else:
                ignored += 1
    return _Consent(approvals, rejections, withdrawal, alignment, ignored)


def _run(
    events: Sequence[Event], consent: _Consent, rules: RequestRules, *, needs_rows: bool
) -> _Run:
    """Return the progress that the hub's events describe, in the order of their numbers."""
    run = _Run()
    for event in events:
        body = event.body
        if not isinstance(body, StartedBody | VerifiedBody | QuarantinedBody | CompletedBody):
            continue
        legal = event.origin == rules.hub and run.phase in _BEFORE[event.kind]
        if isinstance(body, StartedBody):
            again = event.origin == rules.hub and _repeats(event, run, events, rules)
            legal = (legal or again) and consent.covers(event, rules, needs_rows=needs_rows)
        elif isinstance(body, CompletedBody):
            legal = legal and run.receipt is None
        elif run.receipt is not None:
            legal = False
        if legal:
            _advance(run, body)
        else:
            run.ignored += 1
    return run


def _repeats(start: Event, run: _Run, events: Sequence[Event], rules: RequestRules) -> bool:
    """Return whether a start is from an older version than the one that the request has made.

    The hub must have seen that every party signed the receipt.
    """
    if run.receipt is None or cast(StartedBody, start.body).version >= (run.version or 0):
        return False
    seen = [event for event in events if _seen(event, start)]
    return _signatures(seen, run, rules) >= set(rules.parties)


_BEFORE: Final[Mapping[EventKind, tuple[RequestState | None, ...]]] = {
    EventKind.STARTED: (None, RequestState.QUARANTINED),
    EventKind.VERIFIED: (RequestState.RUNNING,),
    EventKind.QUARANTINED: (RequestState.RUNNING, RequestState.VERIFIED),
    EventKind.COMPLETED: (RequestState.VERIFIED,),
}


def _advance(run: _Run, body: StartedBody | VerifiedBody | QuarantinedBody | CompletedBody) -> None:
    if isinstance(body, StartedBody):
        run.phase, run.start, run.version = RequestState.RUNNING, body, None
        run.starts, run.reason, run.receipt = run.starts + 1, "", None
    elif isinstance(body, VerifiedBody):
        run.phase, run.version = RequestState.VERIFIED, body.version
        run.first_version = run.first_version or body.version
        run.count = body.count
    elif isinstance(body, QuarantinedBody):
        run.phase, run.reason, run.version = RequestState.QUARANTINED, body.reason, None
    else:
        run.receipt = body.receipt


def _state(consent: _Consent, run: _Run, rules: RequestRules, *, has_rows: bool) -> RequestState:
    """Return the state that the decisions and the hub's events give a request."""
    if run.phase is not None:
        return run.phase
    if consent.rejections:
        return RequestState.REJECTED
    if consent.withdrawal is not None:
        return RequestState.CANCELLED
    if consent.complete(rules):
        return RequestState.ALIGNED if has_rows else RequestState.AUTHORISED
    return RequestState.PENDING


def _signatures(events: Sequence[Event], run: _Run, rules: RequestRules) -> frozenset[str]:
    """Return the parties that have signed the receipt of the run."""
    return frozenset(
        event.origin
        for event in events
        if isinstance(event.body, SignedBody)
        and event.body.receipt == run.receipt
        and event.origin in rules.parties
    )


def _due(events: Sequence[Event], asked: Event) -> tuple[datetime, bool, int]:
    """Return the due date, whether it was extended, and the number of refused extensions."""
    content = cast(RequestedBody, asked.body)
    first = due = parse_time(content.due_at)
    latest = latest_extension(parse_time(content.received_at), first)
    refused = 0
    for event in events:
        if isinstance(event.body, ExtendedBody):
            until = parse_time(event.body.until)
            in_time = parse_time(event.time) <= first
            if event.origin == asked.origin and in_time and due < until <= latest:
                due = until
            else:
                refused += 1
    return due, due > first, refused


def _reason(consent: _Consent, run: _Run, state: RequestState) -> str:
    if state is RequestState.QUARANTINED:
        return run.reason
    ends = [*consent.rejections.values()] if state is RequestState.REJECTED else []
    if state is RequestState.CANCELLED and consent.withdrawal is not None:
        ends = [consent.withdrawal]
    return "; ".join(cast(DecisionBody, event.body).reason for event in ends)


def _seen(event: Event, start: Event) -> bool:
    """Return whether the hub had ``event`` when it made the event ``start``."""
    if event.origin == start.origin:
        return event.seq < start.seq
    return event.seq <= cast(StartedBody, start.body).seen.get(event.origin, 0)


def _set_back(ordered: Iterable[Event]) -> frozenset[tuple[str, int]]:
    """Return origin and number of events whose time is before that of an earlier event."""
    newest: dict[str, str] = {}
    found = []
    for event in ordered:
        if event.time < newest.get(event.origin, ""):
            found.append((event.origin, event.seq))
        else:
            newest[event.origin] = event.time
    return frozenset(found)
