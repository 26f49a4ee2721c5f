"""A party's part of the kept version from which a training goes on."""

from collections.abc import Mapping
from typing import Any

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from parties.common.errors import IntegrityError, PolicyError, StorageError
from parties.session.party import StartedParty
from parties.session.setup import NEWEST
from parties.session.store.model_store import ModelStore, StoredFile
from parties.vertical.engine.party import KeptPart
from parties.vertical.forgotten_rows import newest_request_version
from parties.vertical.kept_model import model_store

_AGAIN = "train again without --from"


def read_kept_part(party: StartedParty, agreement: VerticalAgreement) -> KeptPart | None:
    """The party's part of the version that its start names; None if the party keeps no model.

    A party without a kept model is new in the federation; the active party checks this.

    Raises:
        ConfigError: the agreed training cannot go on from a version.
        StorageError: there is no such version, or it was trained with another agreement.
        IntegrityError: no file of the store can be read.
        PolicyError: the version still knows rows that a request made the model forget.
    """
    _refuse_other_trainings(agreement)
    store = model_store(party.state, party.name, agreement, party.keys)
    files = store.files()
    if not files:
        _welcome_new_party(party, agreement)
        return None
    versions = [each for each in files if each.readable and each.version]
    if not versions:
        raise IntegrityError(
            f"no version of the model in {store.folder} can be read",
            "restore the folder and the key file from the same backup, or " + _AGAIN,
        )
    chosen = _chosen(versions, party.continues)
    if chosen.number < (made := newest_request_version(party)):
        raise PolicyError(
            f"version {chosen.number} knows forgotten rows: a request made version {made}",
            f"go on from version {made} or a later one",
        )
    return _part(party, agreement, store, chosen)


def _refuse_other_trainings(agreement: VerticalAgreement) -> None:
    """Refuse trainings that do not go on from parameters."""
    plan = agreement.training
    reasons = {
        "training.optimiser = 'newton-cg' finds the optimum from every start": plan.optimiser
        == "newton-cg",
        "sharding.shards > 1 trains one model for each shard": agreement.sharding.shards > 1,
        "the bottom models are fixed, so training again costs as little": agreement.frozen_bottoms,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ConfigError(f"no training goes on from a kept version: {reason}", _AGAIN)


def _welcome_new_party(party: StartedParty, agreement: VerticalAgreement) -> None:
    if party.name == agreement.active:
        raise StorageError(
            f"no model is kept in {party.state}, so no training can go on from one",
            f"name the folder of the earlier training with --out, or {_AGAIN}",
        )
    party.progress.warn(
        f"{party.name} keeps no model: it joins as a new party, with random weights"
    )


def _chosen(versions: list[StoredFile], wanted: str) -> StoredFile:
    found = versions[-1:] if wanted == NEWEST else []
    found += [each for each in versions if str(each.number) == wanted]
    if not found:
        listed = ", ".join(str(each.number) for each in versions)
        raise StorageError(
            f"version {wanted} is not kept, but {listed}",
            "vfl models list shows the versions",
        )
    return found[0]


def _part(
    party: StartedParty, agreement: VerticalAgreement, store: ModelStore, chosen: StoredFile
) -> KeptPart:
    then = store.architecture(chosen.number)
    _refuse_other_architecture(agreement.architecture, then, chosen.number)
    content = store.read(chosen.number)
    entries = then["parties"]
    widths = {name: entries[name]["width"] for name in sorted(entries) if entries[name]["width"]}
    left = tuple(sorted(entries.keys() - agreement.parties.keys()))
    party.progress.note(
        f"{', '.join(left)} left: all parts of the model start anew, and version {chosen.number} "
        "and earlier ones are erased after the training"
        if left
        else f"the training goes on from version {chosen.number}"
    )
    return KeptPart(
        left=left,
        run=chosen.run,
        number=chosen.number,
        parties=tuple(sorted(entries)),
        widths=widths,
        statistics=content.values["fitted"][0],
        parameters=content.tensors["network 0"],
    )


def _refuse_other_architecture(
    now: Mapping[str, Any], then: Mapping[str, Any], number: int
) -> None:
    """Refuse a version whose networks have other shapes; parties may have left or joined."""
    ours, theirs = dict(now), dict(then)
    ours |= {f"parties.{name}": each for name, each in ours.pop("parties").items()}
    theirs |= {f"parties.{name}": each for name, each in theirs.pop("parties").items()}
    shared = {key for key in ours.keys() & theirs.keys() if key.startswith("parties.")}
    fixed = {key for key in ours.keys() | theirs.keys() if not key.startswith("parties.")}
    fixed -= {"seed"}
    differing = sorted(key for key in shared | fixed if ours.get(key) != theirs.get(key))
    if differing:
        raise StorageError(
            f"version {number} was trained with another agreement: {', '.join(differing)} differ",
            f"use the agreement of that version; only parties may leave or join, or {_AGAIN}",
        )
