"""Requests of the kinds ``party`` and ``columns``: a training left out a party, or some columns.

The training without them is the execution of the request. Afterwards the request is journaled, by
the active party for a party that left, and by their owner for columns. All parties state what they
erased, and all sign the receipt. Only the owner knows the names of columns.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import torch

from parties import __version__
from parties.requests.duties import RequestDesk
from parties.requests.events import (
    DecisionBody,
    EventKind,
    RequestedBody,
    StartedBody,
    StatedBody,
    StoredItem,
    VerifiedBody,
    event_time,
    new_request_id,
)
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestState, RequestView, due_date
from parties.requests.signing import commitment
from parties.session.store.model_store import ModelStore
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import (
    COLUMNS,
    JOINED,
    LEFT,
    REPLACES,
    columns_of,
    columns_requests,
    departures,
    newest_replacement,
    party_models,
)
from parties.vertical.service.replay_window import model_item
from unlearning.guarantee import Guarantee

METHOD, COLUMNS_METHOD = "training-without-party", "training-without-columns"
NO_MODEL = "0" * 64  # digest before the training, of a party that had no part of the model


def refuse_departure(party: VerticalParty, view: RequestView) -> str:
    """Return why this party does not approve that a party or columns left; empty if it approves.

    That a party left, it approves only for the active party, and if its own version records that
    the party left. A party that joined with this version never knew the other one; it approves if
    it has trained without it. That columns left, it approves for their owner, if its own version
    used no parameter of an earlier one. Requests of other kinds are not refused.
    """
    name, number = view.content.party, view.content.version
    if number is None:
        return ""
    if name is None:
        return _refuse_columns(party, number)
    if view.origin != party.agreement.active:
        return f"only {party.agreement.active} trains, so only it can say that {name} left"
    store = party_models(party)
    made, facts = newest_replacement(store), store.facts(number)
    if made is not None and made["number"] == number and name in made.get(LEFT, ()):
        return ""
    joined = facts is not None and facts.own.get(JOINED)
    if joined and name not in store.architecture(number)["parties"]:
        return ""
    return f"{party.name} has no record that version {number} was the first one without {name}"


def _refuse_columns(party: VerticalParty, number: int) -> str:
    """Return why this party does not approve that columns left with version ``number``."""
    store = party_models(party)
    made, facts = newest_replacement(store), store.facts(number)
    replaced = made is not None and made["number"] == number
    if replaced or (facts is not None and facts.own.get(JOINED)):
        return ""
    return (
        f"{party.name} has no record that version {number} used no parameter of an earlier version"
    )


class Departures:
    """Records, for one session of the active party, that a training left out parties or columns.

    Each call of ``record`` does what is possible now; after an exchange of journals the next one
    goes on. What a party rejects is requested again in the next session.
    """

    def __init__(self, party: VerticalParty, store: ModelStore, desk: RequestDesk) -> None:
        self._party, self._store, self._desk = party, store, desk
        self._asked = set[str]()  # parties for which this session made a request

    def record(self) -> bool:
        """Journal a request for each party that left, and that requests were carried out.

        The request for columns that left is made by their owner.

        Returns:
            Whether each of these requests is certified; until then no other batch may start,
            because it would erase the version that proves the departure.
        """
        made = newest_replacement(self._store)
        if made is None:
            return True
        parties = self._record_parties(made)
        if self._party.name not in self._asked:
            self._asked.add(self._party.name)
            request_columns(self._party, self._store, self._desk)
        waiting = self._waiting_for_columns(made["number"])
        _record_training(self._desk, waiting, made, COLUMNS_METHOD)
        return parties and not waiting

    def _waiting_for_columns(self, number: int) -> list[RequestView]:
        """The first request of each owner that is not carried out and that its owner approved.

        Without the approval of the owner, nobody waits: a party could else stop all requests.
        """
        first: dict[str, RequestView] = {}
        for view in columns_requests(self._desk.requests(), number):
            if view.state not in ENDED and view.origin in view.approvals:
                first.setdefault(view.origin, view)
        return [each for each in first.values() if each.state not in CARRIED_OUT]

    def _record_parties(self, made: Mapping[str, Any]) -> bool:
        """Record which parties left; return whether each of these requests is certified."""
        party, number = self._party, made["number"]
        left = set(made.get(LEFT, ())) - party.agreement.parties.keys()
        views = departures(self._desk.requests(), number, party.name)
        for name in sorted(left - views.keys()):
            self._request(name, number)
        views = departures(self._desk.requests(), number, party.name)
        recorded = {name for name, each in views.items() if each.state in CARRIED_OUT}
        waiting = [views[name] for name in sorted(left & views.keys() - recorded)]
        _record_training(self._desk, waiting, made, METHOD)
        return left <= recorded

    def _request(self, name: str, version: int) -> None:
        """Journal a request for a party that left, once in a session."""
        if name in self._asked:
            return
        self._asked.add(name)
        content = {"kind": "party", "party": name, "version": version}
        request = _append_request(self._party, self._desk, content)
        self._party.progress.note(
            f"{name} left: request {request} records that its columns are gone; other requests "
            "wait until it is certified"
        )


def request_columns(party: VerticalParty, store: ModelStore, desk: RequestDesk) -> None:
    """Journal a request of this party if the newest training left out some of its columns.

    Call this once in a session, when the journal is complete. After a crash the next session finds
    the request in the journal, and makes no other one. A request that another party rejected, or
    that this party withdrew, is not made again: there is no receipt then.
    """
    made = newest_replacement(store)
    count = 0 if made is None else made.get(COLUMNS, 0)
    if made is None or not count:
        return
    with desk.journal.transaction():
        if columns_requests(desk.requests(), made["number"], party.name):
            return
        content = {"kind": "columns", "columns": count, "version": made["number"]}
        request = _append_request(party, desk, content)
        desk.append(EventKind.APPROVED, request, DecisionBody())  # nobody waits without it
    party.progress.note(
        f"{columns_of(count, party.name)} left: request {request} records that the model does not "
        "use them; other requests wait until it is certified"
    )


def _append_request(party: VerticalParty, desk: RequestDesk, content: Mapping[str, Any]) -> str:
    """Journal a request that a training has carried out; return its ID."""
    now = party.now()
    due = due_date(now, party.agreement.requests.due_days)
    times = {"received_at": event_time(now), "due_at": event_time(due)}
    body = RequestedBody.model_validate({"rows": (), "ground": "not-stated", **times, **content})
    request = new_request_id(now)
    desk.append(EventKind.REQUESTED, request, body)
    return request


def _record_training(
    desk: RequestDesk, views: Sequence[RequestView], made: Mapping[str, Any], method: str
) -> None:
    """Journal that the training with the facts ``made`` carried out the requests, if all agree."""
    if {each.state for each in views} != {RequestState.ALIGNED}:
        return
    batch = tuple(each.id for each in views)
    started = StartedBody(batch=batch, version=made[REPLACES], method=method)
    verified = VerifiedBody(version=made["number"], guarantee=Guarantee.EXACT.value)
    with desk.journal.transaction():
        for request in batch:
            desk.append(EventKind.STARTED, request, started)
            desk.append(EventKind.VERIFIED, request, verified)


def state_departures(
    party: VerticalParty, store: ModelStore, desk: RequestDesk, sent: Sequence[bytes]
) -> None:
    """Erase all versions from before a party or columns left, and state it once for each request.

    Args:
        party: this party.
        store: its kept models.
        desk: its journal of requests.
        sent: the hash chains over the messages that the party has sent to each peer.
    """
    views = desk.requests()
    for view in views:
        number = view.version_after
        if (
            not view.content.by_training
            or view.state is not RequestState.VERIFIED
            or number is None
            or number != view.content.version  # this party approved that version
            or desk.has_stated(view.id, number)
            or (own := _facts_of(store, number)) is None
        ):
            continue
        store.prune(number, versions=True)
        destroyed = [model_item(old, kind) for old, kind in own.get("older", [])]
        if any(_had_embeddings(party, each) for each in views if each.id in view.batch):
            destroyed.append(StoredItem(id="kept-embeddings-of-the-party", kind="embeddings"))
        remains = [f"model-{old}" for old, _ in store.contents() if old < number]
        body = StatedBody(
            version=number,
            before=commitment(party, view.id, own.get("before") or NO_MODEL),
            after=commitment(party, view.id, own["after"]),
            destroyed=tuple(destroyed),
            remains=tuple(remains),
            transcript=sha256(b"".join(sent)).hexdigest(),
            profile={
                "torch": torch.__version__,
                "threads": str(party.settings.threads),
                "device": party.settings.device,
                "vfl": __version__,
            },
        )
        desk.append(EventKind.STATED, view.id, body)


def _had_embeddings(party: VerticalParty, view: RequestView) -> bool:
    """Whether this party kept embeddings of the columns that left, for a fallback model."""
    active, owner = party.agreement.active, view.content.party or view.origin
    keeps = party.agreement.requests.absent == "fallback"
    return keeps and party.name == active and owner != active


def _facts_of(store: ModelStore, number: int) -> Mapping[str, Any] | None:
    """What this party knows of the version ``number`` of a departure; None if nothing."""
    made, facts = newest_replacement(store), store.facts(number)
    if made is not None and made["number"] == number:
        return made
    return None if facts is None else facts.own
