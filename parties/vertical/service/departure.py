"""Requests of the kind ``party``: a training left out a party, and its columns are gone.

The training without the party is the execution of the request. Afterwards the active party journals
the request, all parties state what they erased, and all sign the receipt.
"""

from collections.abc import Sequence
from hashlib import sha256

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
from parties.requests.lifecycle import ENDED, RequestState, RequestView, due_date
from parties.requests.signing import commitment
from parties.session.store.model_store import ModelStore, StoredFile
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import LEFT, REPLACES, departures, party_models
from parties.vertical.service.replay_window import model_item
from unlearning.guarantee import Guarantee

METHOD = "training-without-party"
NO_MODEL = "0" * 64  # digest before the training, of a party that had no part of the model


def refuse_departure(party: VerticalParty, view: RequestView) -> str:
    """Return why this party does not approve that a party left; empty if it approves.

    It approves if it has trained the version with new weights, and without the party that left.
    Requests of other kinds are not refused.
    """
    name, number = view.content.party, view.content.version
    if name is None or number is None:
        return ""
    store = party_models(party)
    facts = store.facts(number)
    new = facts is not None and facts.made_by == "training" and facts.parent is None
    if new and name not in store.architecture(number)["parties"]:
        return ""
    return f"{party.name} has not trained version {number} without {name} from new weights"


def record_departures(party: VerticalParty, store: ModelStore, desk: RequestDesk) -> None:
    """Journal a request for each party that a training left out, and that it was carried out.

    Only the active party calls this. A call does what is possible now; the next one goes on.
    """
    made = _newest_departure(store)
    if made is None or made.version is None:
        return
    views = departures(desk.requests(), made.number)
    for name in set(made.version.own[LEFT]) - {each.content.party for each in views}:
        now = party.now()
        due = due_date(now, party.agreement.requests.due_days)
        body = RequestedBody(
            kind="party", party=name, version=made.number, rows=(), ground="not-stated",
            received_at=event_time(now), due_at=event_time(due),
        )  # fmt: skip
        request = new_request_id(now)
        desk.append(EventKind.REQUESTED, request, body)
        party.progress.note(f"{name} left: request {request} records that its columns are gone")
    views = [each for each in departures(desk.requests(), made.number) if each.state not in ENDED]
    if {each.state for each in views} == {RequestState.ALIGNED}:
        _record_training(desk, views, made)


def _record_training(desk: RequestDesk, views: Sequence[RequestView], made: StoredFile) -> None:
    """Journal that the training of the version ``made`` carried out the requests."""
    batch = tuple(each.id for each in views)
    before = 0 if made.version is None else made.version.own[REPLACES]
    started = StartedBody(batch=batch, version=before, method=METHOD)
    verified = VerifiedBody(version=made.number, guarantee=Guarantee.EXACT.value)
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
            or (facts := store.facts(number)) is None
        ):
            continue
        store.prune(number, versions=True)
        destroyed = [model_item(old, kind) for old, kind in facts.own.get("older", [])]
        if party.name == party.agreement.active and party.agreement.requests.absent == "fallback":
            destroyed.append(StoredItem(id="kept-embeddings-of-the-party", kind="embeddings"))
        remains = [f"model-{old}" for old, _ in store.contents() if old < number]
        body = StatedBody(
            version=number,
            before=commitment(party, view.id, facts.own.get("before") or NO_MODEL),
            after=commitment(party, view.id, facts.own["after"]),
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


def _newest_departure(store: ModelStore) -> StoredFile | None:
    """The newest version that was the first one without a party; None if there is none."""
    found = [each for each in store.files() if each.version and each.version.own.get(LEFT)]
    return found[-1] if found else None
