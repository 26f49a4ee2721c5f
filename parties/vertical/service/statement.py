"""What a party does and states after every party has written a new version of the model."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from hashlib import sha256
from shutil import rmtree

import torch

from parties import __version__
from parties.requests.duties import RequestDesk
from parties.requests.events import EventKind, StatedBody, StoredItem
from parties.requests.lifecycle import RequestView
from parties.requests.signing import commitment
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.engine.local_model import EARLY_CHECKPOINT
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.privacy.one_time_release import erase_forgotten_releases
from parties.vertical.purge import stored_residues
from parties.vertical.resume import CHECKPOINTS
from parties.vertical.saved_model import save_local_model
from parties.vertical.service.replay_window import ReplayWindow, model_item


@dataclass(frozen=True, slots=True)
class PresentModel:
    """A party's part of the present model in a session, and the store that keeps it."""

    party: VerticalParty
    store: ModelStore
    state: PartyState
    run: bytes  # the training run, 16 bytes


def state_new_version(desk: RequestDesk, present: PresentModel, sent: Sequence[bytes]) -> None:
    """Erase what knows the forgotten rows, save the model, and state it in the journal.

    Within ``requests.replay_days``, the version from before the request stays.

    Nothing happens if the newest version was made by a training, or was stated before. After a
    crash the call is repeated at the next start.

    Args:
        desk: the party's journal of requests.
        present: the present model of the party, and its store.
        sent: the hash chains over the messages that the party has sent to each peer.
    """
    party, store, state = present.party, present.store, present.state
    newest = store.newest_version()
    if newest is None or newest.version is None or newest.version.made_by != "requests":
        return
    facts = newest.version
    missing = [each for each in facts.requests if not desk.has_stated(each, newest.number)]
    if not missing:
        return
    kept = ReplayWindow(desk, party, store).with_parent(facts.parent)
    store.prune(newest.number, versions=True, keep=kept)
    save_local_model(party, state, present.run)
    views = [desk.request(each) for each in facts.requests]
    destroyed = _destroyed(party, views, facts, kept)
    if not all(each.corrects for each in views):
        erase_forgotten_releases(party.state)
        destroyed += _erase_unfinished_training(party)
    rows = sorted({row for view in views if not view.corrects for row in view.rows or ()})
    for request in missing:
        body = StatedBody(
            version=newest.number,
            before=commitment(party, request, facts.own["before"]),
            after=commitment(party, request, facts.own["after"]),
            destroyed=tuple(destroyed),
            remains=tuple(stored_residues(state, store, rows, except_in=kept)),
            transcript=sha256(b"".join(sent)).hexdigest(),
            keeps=(
                *_kept_copies(state),
                *(model_item(number, until=until) for number, until in kept.items()),
            ),
            profile={
                "torch": torch.__version__,
                "threads": str(party.settings.threads),
                "device": party.settings.device,
                "vfl": __version__,
            },
        )
        desk.append(EventKind.STATED, request, body)


def _erase_unfinished_training(party: VerticalParty) -> list[StoredItem]:
    """Erase the checkpoints and the intersection of an interrupted training; return what existed.

    Both contain the forgotten rows. If the training is started again, it begins anew without them.
    """
    found = []
    for folder, name, kind in (
        (party.state / CHECKPOINTS, "unfinished-training", "checkpoint"),
        (party.state / PSI, "intersection", "codes"),
    ):
        if folder.is_dir():
            rmtree(folder)
            found.append(StoredItem.model_validate({"id": name, "kind": kind}))
    return found


def _destroyed(
    party: VerticalParty,
    views: Sequence[RequestView],
    facts: VersionFacts,
    kept: Container[int],
) -> list[StoredItem]:
    """What a party destroyed for a batch of requests, but for the versions ``kept`` for a replay.

    Rows whose labels are replaced stay.
    """
    older = [(number, kind) for number, kind in facts.own["older"] if number not in kept]
    found = [model_item(number, kind) for number, kind in older]
    active = party.name == party.agreement.active
    if not all(each.corrects for each in views):
        found.append(StoredItem(id="features-and-embeddings-in-memory", kind="embeddings"))
        if active and party.agreement.keeps_embeddings:
            found.append(StoredItem(id="kept-embeddings-of-the-rows", kind="embeddings"))
    # It predicted because a party was absent.
    if active and any(each.fallback is not None for each in views):
        found.append(StoredItem(id="fallback-model-in-memory", kind="model"))
    return found


def _kept_copies(state: PartyState) -> tuple[StoredItem, ...]:
    """Copies from which the next request starts; they were trained before this request."""
    if EARLY_CHECKPOINT not in state.local_model.slots:
        return ()
    return (StoredItem(id="early-checkpoint", kind="checkpoint"),)
