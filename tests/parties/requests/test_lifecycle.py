"""States of requests: every transition and refusal, due dates, batches, and random histories."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import START, Federation, content, federation

from parties.requests.events import (
    NO_EVENT,
    AlignedBody,
    CompletedBody,
    DecisionBody,
    Event,
    EventBody,
    EventKind,
    ExtendedBody,
    JournaledBody,
    LeftBody,
    NotifiedBody,
    PurgedBody,
    QuarantinedBody,
    RequestedBody,
    SignedBody,
    StartedBody,
    StoredItem,
    VerifiedBody,
    event_time,
    new_request_id,
)
from parties.requests.lifecycle import (
    ENDED,
    RequestRules,
    RequestState,
    RequestView,
    add_months,
    due_date,
    follow_each_other,
    frozen_rows,
    largest_version,
    ready_batch,
    requests_of,
    undone_requests,
)
from parties.requests.receipts import departure_of

RECEIPT = "a" * 64


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Federation]:
    with federation(tmp_path) as made:
        yield made


def view(made: Federation, name: str = "bank") -> RequestView:
    made.exchange()
    made.exchange()
    (found,) = made.views(name)
    return found


def start(made: Federation, request: str, method: str = "retrain") -> None:
    body = StartedBody(batch=(request,), version=1, method=method)
    made.journals["bank"].append(EventKind.STARTED, request, body)


def append(made: Federation, name: str, kind: EventKind, request: str, body: EventBody) -> None:
    made.journals[name].append(kind, request, body)


def running(made: Federation) -> str:
    request = made.ask("shop")
    made.exchange()
    made.approve(request)
    made.exchange()
    start(made, request)
    return request


def test_states_follow_each_other(three: Federation) -> None:
    request = three.ask("shop")
    assert three.views("shop")[0].state is RequestState.PENDING
    assert view(three).state is RequestState.RECEIVED
    three.approve(request, "bank", "shop")
    assert view(three).state is RequestState.RECEIVED
    three.approve(request, "post")
    assert view(three).state is RequestState.ALIGNED
    start(three, request)
    assert view(three, "post").state is RequestState.RUNNING
    append(three, "bank", EventKind.VERIFIED, request, VerifiedBody(version=2))
    append(three, "bank", EventKind.COMPLETED, request, CompletedBody(receipt=RECEIPT))
    assert view(three).state is RequestState.VERIFIED
    for name in three.names:
        body = SignedBody(receipt=RECEIPT, signature="00")
        append(three, name, EventKind.SIGNED, request, body)
    assert view(three, "shop").state is RequestState.CERTIFIED
    append(three, "bank", EventKind.NOTIFIED, request, NotifiedBody())
    assert view(three).state is RequestState.CERTIFIED  # only the party of the requester notifies
    append(three, "shop", EventKind.NOTIFIED, request, NotifiedBody(recipients=1))
    append(three, "shop", EventKind.NOTIFIED, request, NotifiedBody(recipients=2, failed=1))
    found = view(three)
    assert found.notified == {"bank": NotifiedBody(), "shop": NotifiedBody(recipients=2, failed=1)}
    assert found.state is RequestState.NOTIFIED
    assert (found.version_before, found.version_after, found.receipt) == (1, 2, RECEIPT)
    assert found.signatures == {"bank", "shop", "post"}
    append(three, "shop", EventKind.PURGED, request, PurgedBody())
    assert view(three).purged == {"shop"}


def certified(made: Federation) -> str:
    """A request that was carried out: it made version 2 from version 1."""
    request = running(made)
    append(made, "bank", EventKind.VERIFIED, request, VerifiedBody(version=2))
    append(made, "bank", EventKind.COMPLETED, request, CompletedBody(receipt=RECEIPT))
    made.exchange()
    for name in made.names:
        append(made, name, EventKind.SIGNED, request, SignedBody(receipt=RECEIPT, signature="00"))
    made.exchange()
    return request


def test_request_starts_again_from_a_version_that_does_not_know_it(three: Federation) -> None:
    request = certified(three)
    assert not undone_requests(three.views("bank"), 2)
    assert not undone_requests(three.views("bank"), 3)
    undone = undone_requests(three.views("bank"), 1)
    assert [each.id for each in undone] == [request]
    assert follow_each_other(undone, 1)
    assert not follow_each_other(undone, 0)
    start(three, request)  # from version 1
    found = view(three)
    assert (found.state, found.starts, found.ignored) == (RequestState.RUNNING, 2, 0)
    assert (found.version_after, found.receipt, found.signatures) == (None, None, frozenset())
    assert largest_version(three.journals["shop"].events(), "bank") == 2
    append(three, "bank", EventKind.VERIFIED, request, VerifiedBody(version=3))
    append(three, "bank", EventKind.COMPLETED, request, CompletedBody(receipt="b" * 64))
    found = view(three)
    assert (found.version_after, found.receipt, found.signatures) == (3, "b" * 64, frozenset())


def test_request_that_was_carried_out_does_not_start_again_from_its_own_version(
    three: Federation,
) -> None:
    request = certified(three)
    for version in (2, 3):
        body = StartedBody(batch=(request,), version=version, method="retrain")
        append(three, "bank", EventKind.STARTED, request, body)
    found = view(three)
    assert (found.state, found.starts, found.ignored) == (RequestState.CERTIFIED, 1, 2)


def test_certified_request_stays_certified_when_persons_become_separate(three: Federation) -> None:
    request = certified(three)
    later = three.ask("shop", rows=(7,))
    three.exchange()
    three.approve(later)
    three.exchange()
    rules = RequestRules(tuple(three.names), "bank", separate_persons=True)
    found = {each.id: each for each in requests_of(three.journals["post"].events(), rules)}
    assert (found[request].state, found[request].starts) == (RequestState.CERTIFIED, 1)
    assert found[later].state is RequestState.RECEIVED  # needs the approval of a person


def test_rejected_request_stays_rejected_when_its_party_has_left(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    three.journals["post"].append(EventKind.REJECTED, request, DecisionBody(reason="no right"))
    for name in ("bank", "shop"):
        three.journals[name].append(EventKind.APPROVED, request, DecisionBody())
    three.exchange()
    events = three.journals["bank"].events()
    assert view(three).state is RequestState.REJECTED
    (found,) = requests_of(events, RequestRules(("bank", "shop"), "bank"))
    assert found.state is RequestState.REJECTED


def test_party_takes_part_from_its_first_day_on(three: Federation) -> None:
    request = certified(three)
    events = three.journals["bank"].events()
    names = (*three.names, "club")
    day = date.fromisoformat(next(each.time for each in events if each.request == request)[:10])
    for days, certified_without in ((1, True), (0, True), (-1, True), (-2, False)):
        joined = {"club": (day + timedelta(days=days)).isoformat()}
        rules = RequestRules(names, "bank", joined=joined)
        found = {each.id: each for each in requests_of(events, rules)}[request]
        assert (found.state is RequestState.CERTIFIED) is certified_without
        assert "club" not in found.signatures
        assert found.open is not certified_without
        separate = requests_of(events, replace(rules, separate_persons=True))
        assert (separate[0].state is RequestState.CERTIFIED) is certified_without


def test_party_that_joined_today_takes_part_in_later_requests_of_the_day(three: Federation) -> None:
    """The receipt of such a request needs its approval and its signature."""
    request = running(three)
    append(three, "bank", EventKind.VERIFIED, request, VerifiedBody(version=2))
    append(three, "bank", EventKind.COMPLETED, request, CompletedBody(receipt=RECEIPT))
    three.exchange()
    rules = RequestRules(tuple(three.names), "bank", joined={"post": event_time(START)[:10]})
    for name in ("bank", "shop", "post"):
        (found,) = requests_of(three.journals["bank"].events(), rules)
        assert found.state is RequestState.VERIFIED
        append(three, name, EventKind.SIGNED, request, SignedBody(receipt=RECEIPT, signature="00"))
        three.exchange()
    (found,) = requests_of(three.journals["bank"].events(), rules)
    assert found.state is RequestState.CERTIFIED


def test_request_by_label_waits_for_its_rows(three: Federation) -> None:
    request = three.ask("shop")
    three.journals["post"].append(
        EventKind.REQUESTED, request[:-1] + ("0" if request[-1] != "0" else "1"), by_label()
    )
    three.exchange()
    three.exchange()
    label = next(each for each in three.views("bank") if each.content.kind == "label")
    three.approve(label.id)
    three.exchange()
    state = {each.id: each.state for each in three.views("bank")}
    assert state[label.id] is RequestState.AUTHORISED
    append(three, "bank", EventKind.ALIGNED, label.id, AlignedBody(rows=(4, 9)))
    found = {each.id: each for each in three.views("bank")}[label.id]
    assert (found.state, found.rows) == (RequestState.ALIGNED, (4, 9))
    assert frozen_rows(three.views("bank"), 1) == {1, 2, 4, 9}


def by_label() -> RequestedBody:
    return RequestedBody(
        kind="label",
        classes=("left",),
        ground="contract",
        received_at=event_time(START),
        due_at=event_time(START + timedelta(days=30)),
    )


def test_rejection_of_one_party_ends_the_request(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    three.approve(request, "bank", "shop")
    append(three, "post", EventKind.REJECTED, request, DecisionBody(reason="legal hold"))
    three.approve(request, "post")  # the first decision stands
    found = view(three)
    assert (found.state, found.reason) == (RequestState.REJECTED, "legal hold")
    assert found.rejected_by == {"post"}
    start(three, request)
    assert view(three).state is RequestState.REJECTED
    assert view(three).starts == 0
    assert frozen_rows(three.views("bank"), 1) == frozenset()


def test_withdrawal_before_the_start_cancels_the_request(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    three.approve(request)
    append(three, "shop", EventKind.WITHDRAWN, request, DecisionBody(reason="changed mind"))
    assert view(three).state is RequestState.CANCELLED
    start(three, request)
    found = view(three)
    assert (found.state, found.starts, found.ignored) == (RequestState.CANCELLED, 0, 1)
    assert found.reason == "changed mind"


def test_withdrawal_that_the_hub_had_not_seen_at_the_start_is_too_late(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    three.approve(request)
    three.exchange()
    append(three, "shop", EventKind.WITHDRAWN, request, DecisionBody())
    start(three, request)
    assert view(three).state is RequestState.RUNNING
    assert view(three, "shop").state is RequestState.RUNNING


def test_withdrawal_by_another_party_has_no_effect(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    append(three, "post", EventKind.WITHDRAWN, request, DecisionBody())
    found = view(three)
    assert (found.state, found.ignored) == (RequestState.RECEIVED, 1)


def test_start_before_the_hub_has_seen_all_approvals_has_no_effect(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    three.approve(request)
    start(three, request)
    found = view(three)
    assert (found.state, found.starts, found.ignored) == (RequestState.ALIGNED, 0, 1)
    start(three, request)
    assert view(three).state is RequestState.RUNNING


def test_start_by_another_party_than_the_hub_has_no_effect(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    three.approve(request)
    three.exchange()
    body = StartedBody(batch=(request,), version=1, method="retrain")
    append(three, "post", EventKind.STARTED, request, body)
    assert view(three).starts == 0


def test_second_start_is_possible_only_after_a_quarantine(three: Federation) -> None:
    request = running(three)
    start(three, request)
    assert view(three).starts == 1
    append(three, "bank", EventKind.QUARANTINED, request, QuarantinedBody(reason="accuracy"))
    found = view(three)
    assert (found.state, found.reason) == (RequestState.QUARANTINED, "accuracy")
    assert frozen_rows([found], 1) == {1, 2}
    start(three, request, "exact")
    found = view(three)
    assert (found.state, found.starts, found.method) == (RequestState.RUNNING, 2, "exact")


def test_completed_request_is_not_carried_out_again(three: Federation) -> None:
    request = running(three)
    append(three, "bank", EventKind.VERIFIED, request, VerifiedBody(version=2))
    append(three, "bank", EventKind.COMPLETED, request, CompletedBody(receipt=RECEIPT))
    append(three, "bank", EventKind.COMPLETED, request, CompletedBody(receipt="b" * 64))
    append(three, "bank", EventKind.QUARANTINED, request, QuarantinedBody(reason="late"))
    start(three, request)
    found = view(three)
    assert (found.state, found.starts, found.receipt) == (RequestState.VERIFIED, 1, RECEIPT)
    assert found.ignored == 3


def test_signature_of_another_receipt_does_not_count(three: Federation) -> None:
    request = running(three)
    append(three, "bank", EventKind.VERIFIED, request, VerifiedBody(version=2))
    append(three, "bank", EventKind.COMPLETED, request, CompletedBody(receipt=RECEIPT))
    for name, receipt in (("bank", RECEIPT), ("shop", RECEIPT), ("post", "b" * 64)):
        body = SignedBody(receipt=receipt, signature="00")
        append(three, name, EventKind.SIGNED, request, body)
    found = view(three)
    assert (found.state, found.signatures) == (RequestState.VERIFIED, {"bank", "shop"})


def test_event_of_a_request_that_nobody_made_is_no_request(three: Federation) -> None:
    three.approve("01KARVB9G0000000000000000G", "shop")
    assert three.views("shop") == []


# --- due dates ------------------------------------------------------------------------------------


def extend(made: Federation, name: str, request: str, until: datetime) -> None:
    body = ExtendedBody(until=event_time(until), notice="2026-11-20", reason="many requests")
    append(made, name, EventKind.EXTENDED, request, body)


def test_due_date_moves_by_two_months_at_most(three: Federation) -> None:
    request = three.ask("shop")
    due = START + timedelta(days=30)
    extend(three, "shop", request, add_months(due, 2) + timedelta(seconds=1))
    assert three.views("shop")[0].due_at == due
    extend(three, "shop", request, add_months(due, 2))
    (found,) = three.views("shop")
    assert (found.due_at, found.extended, found.ignored) == (add_months(due, 2), True, 1)


def test_due_date_moves_only_before_it_has_passed(three: Federation) -> None:
    request = three.ask("shop")
    three.clock.now = START + timedelta(days=31)
    extend(three, "shop", request, START + timedelta(days=60))
    assert not three.views("shop")[0].extended


def test_due_date_is_not_moved_back_or_by_another_party(three: Federation) -> None:
    request = three.ask("shop")
    extend(three, "shop", request, START + timedelta(days=10))
    three.exchange()
    extend(three, "post", request, START + timedelta(days=60))
    assert not view(three).extended


@pytest.mark.parametrize(
    ("day", "months", "expected"),
    [
        ((2026, 12, 31), 2, (2027, 2, 28)),
        ((2027, 12, 31), 2, (2028, 2, 29)),
        ((2026, 1, 5), 0, (2026, 1, 5)),
    ],
)
def test_months_end_on_the_last_day_of_a_shorter_month(
    day: tuple[int, int, int], months: int, expected: tuple[int, int, int]
) -> None:
    assert add_months(datetime(*day, tzinfo=UTC), months) == datetime(*expected, tzinfo=UTC)


@pytest.mark.parametrize(
    ("day", "days", "expected"),
    [
        ((2026, 1, 31), 30, (2026, 2, 28)),
        ((2026, 2, 10), 30, (2026, 3, 10)),
        ((2026, 3, 31), 30, (2026, 4, 30)),
        ((2026, 3, 31), 31, (2026, 4, 30)),
        ((2026, 5, 1), 30, (2026, 5, 31)),
        ((2026, 1, 31), 7, (2026, 2, 7)),
        ((2026, 1, 31), 90, (2026, 5, 1)),
    ],
)
def test_due_date_is_within_a_calendar_month(
    day: tuple[int, int, int], days: int, expected: tuple[int, int, int]
) -> None:
    assert due_date(datetime(*day, tzinfo=UTC), days) == datetime(*expected, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "expected"), [(14.9, None), (15, 50), (24, 80), (29.9, 80), (30, 100), (90, 100)]
)
def test_reminders_at_parts_of_the_time(
    three: Federation, days: float, expected: int | None
) -> None:
    three.ask("shop")
    (found,) = three.views("shop")
    now = START + timedelta(days=days)
    assert found.reminder(now) == expected
    assert found.expired(now) is (expected == 100)
    assert replace(found, state=RequestState.REJECTED).reminder(now) is None


# --- batches --------------------------------------------------------------------------------------


def ready(made: Federation) -> RequestView:
    request = made.ask("shop")
    made.exchange()
    made.approve(request)
    return view(made)


def test_request_is_carried_out_at_once_by_default(three: Federation) -> None:
    found = ready(three)
    assert ready_batch([found], START, timedelta(0)) == (found,)


def test_batch_waits_for_the_end_of_the_window(three: Federation) -> None:
    found, window = ready(three), timedelta(hours=24)
    later = replace(found, id="later", ready_at=START + timedelta(hours=20))
    other = replace(found, id="other", state=RequestState.RECEIVED)
    views = [found, later, other]
    assert ready_batch(views, START + timedelta(hours=23), window) == ()
    assert ready_batch(views, START + timedelta(hours=24), window) == (found, later)


def test_batch_ends_a_day_before_a_request_is_due(three: Federation) -> None:
    found, window = ready(three), timedelta(days=300)
    soon = found.due_at - timedelta(days=1)
    assert ready_batch([found], soon - timedelta(seconds=1), window) == ()
    assert ready_batch([found], soon, window) == (found,)


# --- random histories -----------------------------------------------------------------------------

REQUEST = "01KARVB9G0000000000000000G"
RULES = RequestRules(("bank", "shop", "post"), "bank")
Step = tuple[str, EventKind, tuple[int, int]]


def bodies(kind: EventKind, seen: dict[str, int]) -> EventBody:
    made: dict[EventKind, EventBody] = {
        EventKind.REQUESTED: content(),
        EventKind.JOURNALED: JournaledBody(),
        EventKind.EXTENDED: ExtendedBody(
            until=event_time(START + timedelta(days=50)), notice="2026-11-20", reason=""
        ),
        EventKind.ALIGNED: AlignedBody(rows=(3,)),
        EventKind.STARTED: StartedBody(batch=(REQUEST,), version=1, method="m", seen=seen),
        EventKind.VERIFIED: VerifiedBody(version=2),
        EventKind.QUARANTINED: QuarantinedBody(reason=""),
        EventKind.COMPLETED: CompletedBody(receipt=RECEIPT),
        EventKind.SIGNED: SignedBody(receipt=RECEIPT, signature="00"),
        EventKind.NOTIFIED: NotifiedBody(),
    }
    return made.get(kind, DecisionBody())


def history(steps: Sequence[Step]) -> list[Event]:
    """The events of ``steps``; a start has seen part of the other parties' earlier events."""
    counts = dict.fromkeys(RULES.parties, 0)
    events = []
    for origin, kind, lag in [("shop", EventKind.REQUESTED, (0, 0)), *steps]:
        others = [name for name in RULES.parties if name != origin]
        seen = {name: max(0, counts[name] - late) for name, late in zip(others, lag, strict=True)}
        counts[origin] += 1
        body = bodies(kind, {name: each for name, each in seen.items() if each})
        time = event_time(START)
        events.append(Event(origin, counts[origin], NO_EVENT, time, REQUEST, kind, body))
    return events


KINDS = st.sampled_from(
    [kind for kind in EventKind if kind not in (EventKind.READMITTED, EventKind.PURGED)]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(RULES.parties), KINDS, st.tuples(st.integers(0, 2), st.integers(0, 2))
    ),
    max_size=25,
)
APPROVED: list[Step] = [(name, EventKind.APPROVED, (0, 0)) for name in RULES.parties]
# Random steps alone seldom reach a start.
HISTORIES = st.one_of(
    STEPS,
    STEPS.map(lambda steps: APPROVED + steps),
    STEPS.map(lambda steps: [*APPROVED, ("bank", EventKind.STARTED, (0, 0)), *steps]),
)


def first_decision(events: Sequence[Event], name: str) -> Event | None:
    kinds = (EventKind.APPROVED, EventKind.REJECTED)
    own = (each for each in events if each.origin == name and each.kind in kinds)
    return next(own, None)


def known_at(start: Event, event: Event) -> bool:
    seen = {start.origin: start.seq, **start.body.model_dump()["seen"]}
    return event.seq <= seen.get(event.origin, 0)


@settings(max_examples=400, deadline=None)
@given(HISTORIES)
def test_no_history_runs_twice_or_without_authorisation(steps: list[Step]) -> None:
    events = history(steps)
    for end in range(1, len(events) + 1):
        (found,) = requests_of(events[:end], RULES)
        check(events[:end], found)


def check(events: Sequence[Event], found: RequestView) -> None:
    quarantines = sum(e.kind is EventKind.QUARANTINED and e.origin == "bank" for e in events)
    assert found.starts <= 1 + quarantines
    decisions = [first_decision(events, name) for name in RULES.parties]
    if found.starts:
        starts = [e for e in events if e.kind is EventKind.STARTED and e.origin == "bank"]
        assert all(each is not None and each.kind is EventKind.APPROVED for each in decisions)
        assert any(all(known_at(s, each) for each in decisions if each) for s in starts)
        assert found.state not in ENDED
    if any(each is not None and each.kind is EventKind.REJECTED for each in decisions):
        assert found.state is RequestState.REJECTED
        assert frozen_rows([found], 1) == frozenset()


@settings(max_examples=100, deadline=None)
@given(HISTORIES, st.randoms(use_true_random=False))
def test_state_does_not_depend_on_the_order_of_arrival(steps: list[Step], random: Random) -> None:
    events = history(steps)
    expected = requests_of(events, RULES)
    random.shuffle(events)
    assert requests_of(events, RULES) == expected


@settings(max_examples=200, deadline=None)
@given(HISTORIES)
def test_ended_request_never_starts_again(steps: list[Step]) -> None:
    events, ended = history(steps), False
    for end in range(1, len(events) + 1):
        (found,) = requests_of(events[:end], RULES)
        rejected = found.state is RequestState.REJECTED
        assert rejected or not ended
        ended = rejected


def test_no_person_decides_that_a_party_left(three: Federation) -> None:
    """Persons are separate, and a request for rows of the same party waits for one of them."""
    rules = RequestRules(tuple(three.names), "bank", separate_persons=True)
    rows = three.ask("bank")
    gone = content().model_copy(
        update={"kind": "party", "party": "club", "version": 2, "rows": (), "subjects_root": None}
    )
    left = new_request_id(three.clock.now)
    three.journals["bank"].append(EventKind.REQUESTED, left, gone)
    three.exchange()
    three.approve(rows)
    three.approve(left)
    three.exchange()
    found = {each.id: each for each in requests_of(three.journals["shop"].events(), rules)}
    assert found[rows].state is RequestState.RECEIVED
    assert (found[left].state, found[left].rows) == (RequestState.ALIGNED, ())


def test_a_statement_counts_until_its_party_takes_part_again(three: Federation) -> None:
    three.ask("bank")
    three.exchange()
    left = LeftBody(version=1, destroyed=(StoredItem(id="model-1", kind="model"),))
    three.journals["shop"].append(EventKind.LEFT, new_request_id(three.clock.now), left)
    purged = new_request_id(three.clock.now)
    three.journals["shop"].append(EventKind.PURGED, purged, PurgedBody())  # no part in a request
    stated = departure_of("shop", three.journals["shop"].events(), 1)
    assert stated.content is not None
    assert [each.id for each in stated.content.destroyed] == ["model-1"]
    later = departure_of("shop", three.journals["shop"].events(), 2)
    assert later.statement is None  # shop had a part of version 2 after its statement
    three.ask("bank", rows=(3, 4))
    three.exchange()  # shop has joined again: it journals the request
    assert departure_of("shop", three.journals["shop"].events(), 1).statement is None
    assert departure_of("post", three.journals["shop"].events(), 1).statement is None
