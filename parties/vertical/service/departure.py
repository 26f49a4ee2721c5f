"""Requests of the kind ``party``: a training left out a party, and its columns are gone.

The training without the party is the execution of the request. Afterwards the active party journals
the request, all parties state what they erased, and all sign the receipt.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import torch

from parties import __version__
from parties.requests.duties import RequestDesk
from parties.requests.events import (
    EventKind,
    RequestedBody,
    StartedBody,
    StatedBody,
    StoredItem,
    VerifiedBody,
    event_time,
    new_request_id,
)
from parties.requests.lifecycle import CARRIED_OUT, RequestState, RequestView, due_date
from parties.requests.signing import commitment
from parties.session.store.model_store import ModelStore
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import (
    JOINED,
    LEFT,
    REPLACES,
    departures,
    newest_departure,
    party_models,
)
from parties.vertical.service.replay_window import model_item
from unlearning.guarantee import Guarantee

METHOD = "training-without-party"
NO_MODEL = "0" * 64  # digest before the training, of a party that had no part of the model


def refuse_departure(party: VerticalParty, view: RequestView) -> str:
    """Return why this party does not approve that a party left; empty if it approves.

    It approves only a request of the active party, and if its own version records that the party
    left. A party that joined with this version never knew the other one; it approves if it has
    trained without it. Requests of other kinds are not refused.
    """
    name, number = view.content.party, view.content.version
    if name is None or number is None:
        return ""
    if view.origin != party.agreement.active:
        return f"only {party.agreement.active} trains, so only it can say that {name} left"
    store = party_models(party)
    made, facts = newest_departure(store), store.facts(number)
    if made is not None and made["number"] == number and name in made[LEFT]:
        return ""
    joined = facts is not None and facts.own.get(JOINED)
    if joined and name not in store.architecture(number)["parties"]:
        return ""
    return f"{party.name} has no record that version {number} was the first one without {name}"


class Departures:
    """Records, for one session of the active party, that a training left out parties.

    Each call of ``record`` does what is possible now; after an exchange of journals the next one
    goes on. A departure that a party rejects is requested again in the next session.
    """

    def __init__(self, party: VerticalParty, store: ModelStore, desk: RequestDesk) -> None:
        self._party, self._store, self._desk = party, store, desk
        self._asked = set[str]()  # parties for which this session made a request

    def record(self) -> bool:
        """Journal a request for each party that left, and that it was carried out.

        Returns:
            Whether each of these requests is certified; until then no other batch may start,
            because it would erase the version that proves the departure.
        """
        party, made = self._party, newest_departure(self._store)
        left = set[str]() if made is None else set(made[LEFT]) - party.agreement.parties.keys()
        if made is None or not left:
            return True
        views = departures(self._desk.requests(), made["number"], party.name)
        for name in sorted(left - views.keys()):
            self._request(name, made["number"])
        views = departures(self._desk.requests(), made["number"], party.name)
        recorded = {name for name, each in views.items() if each.state in CARRIED_OUT}
        waiting = [views[name] for name in sorted(left & views.keys() - recorded)]
        if {each.state for each in waiting} == {RequestState.ALIGNED}:
            _record_training(self._desk, waiting, made)
        return left <= recorded

    def _request(self, name: str, version: int) -> None:
        """Journal a request for a party that left, once in a session."""
        party = self._party
        if name in self._asked:
            return
        self._asked.add(name)
        now = party.now()
        due = due_date(now, party.agreement.requests.due_days)
        body = RequestedBody(
            kind="party", party=name, version=version, rows=(), ground="not-stated",
            received_at=event_time(now), due_at=event_time(due),
        )  # fmt: skip
        request = new_request_id(now)
        self._desk.append(EventKind.REQUESTED, request, body)
        party.progress.note(
            f"{name} left: request {request} records that its columns are gone; other requests "
            "wait until it is certified"
        )


def _record_training(
    desk: RequestDesk, views: Sequence[RequestView], made: Mapping[str, Any]
) -> None:
    """Journal that the training with the facts ``made`` carried out the requests."""
    batch = tuple(each.id for each in views)
    started = StartedBody(batch=batch, version=made[REPLACES], method=METHOD)
    verified = VerifiedBody(version=made["number"], guarantee=Guarantee.EXACT.value)
    with desk.journal.transaction():
        for request in batch:
            desk.append(EventKind.STARTED, request, started)
            desk.append(EventKind.VERIFIED, request, verified)


def state_departures(
    party: VerticalParty, store: ModelStore, desk: RequestDesk, sent: Sequence[bytes]
) -> None:
    """Erase all versions from before a party left, and state it; once for each request.

    Args:
        party: this party.
        store: its kept models.
        desk: its journal of requests.
        sent: the hash chains over the messages that the party has sent to each peer.
    """
    for view in desk.requests():
        number = view.version_after
        if (
            view.content.party is None
            or view.state is not RequestState.VERIFIED
            or number is None
            or number != view.content.version  # this party approved that version
            or desk.has_stated(view.id, number)
            or (own := _facts_of(store, number)) is None
        ):
            continue
        store.prune(number, versions=True)
        destroyed = [model_item(old, kind) for old, kind in own.get("older", [])]
        if party.name == party.agreement.active and party.agreement.requests.absent == "fallback":
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


def _facts_of(store: ModelStore, number: int) -> Mapping[str, Any] | None:
    """What this party knows of the version ``number`` of a departure; None if nothing."""
    made, facts = newest_departure(store), store.facts(number)
    if made is not None and made["number"] == number:
        return made
    return None if facts is None else facts.own
