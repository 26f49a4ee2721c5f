"""The kept model of a vertical party: its store, versions, and trainings that go on."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from models.arithmetic import parameter_digest
from parties.common.errors import IntegrityError, PolicyError, StorageError
from parties.data.holding import Holding
from parties.data.preprocess import read_statistics
from parties.requests.events import event_time
from parties.requests.journal import journal_of
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestView, requests_of
from parties.session.handshake import CheckpointOffer
from parties.session.party import PartyContext, StartedParty
from parties.session.setup import NEWEST
from parties.session.store.model_store import ModelStore, StoredFile, VersionFacts, model_store
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.networks import KeptPart
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState, unpack_ids
from parties.vertical.forgotten_rows import newest_request_version, request_rules

# Keys in the facts of a version: the version of which no parameter was used; the parties that left;
# the number of own columns that left; whether this party joined with the version; the facts
# of the last version that used no parameter of an earlier one.
REPLACES, LEFT, COLUMNS, JOINED = "replaces", "left", "columns", "joined"
REPLACEMENT = "departure"
_AGAIN = "train again without --from"


def party_models(party: PartyContext) -> ModelStore:
    """The store of a party's models."""
    return model_store(party.state, party.name, party.agreement, party.keys)


def recover_models(party: VerticalParty) -> ModelStore:
    """The store of a party's models, after what an earlier process began is finished."""
    store = party_models(party)
    for each in store.recover():
        party.progress.warn(each)
    return store


def announce_new_version(party: VerticalParty) -> None:
    """Before a training: a model that is kept stays, and the training becomes a newer version.

    Raises:
        StorageError: a model is kept, but the agreement keeps none.
    """
    newest = recover_models(party).newest_version()
    if newest is None:
        return
    if party.agreement.requests.keep != "model":
        raise StorageError(
            f"{party.state} keeps version {newest.number} of the model, but the agreement has "
            "requests.keep = 'nothing': this training would replace the saved model and leave the "
            "kept one",
            "name another folder with --out, set requests.keep = 'model', or erase the kept model "
            "with vfl models remove --all",
        )
    party.progress.note(
        f"version {newest.number} of the model stays; this training becomes a newer version"
    )


def report_kept_model(party: VerticalParty) -> None:
    """After a training: tell which version is kept for later requests, and its size."""
    if party.agreement.requests.keep != "model":
        party.progress.note(
            "no model is kept (requests.keep = 'nothing'): to forget a row later, train again "
            "without it"
        )
        return
    newest = party_models(party).newest_version()
    if newest is not None:
        party.progress.note(
            f"version {newest.number} of the model is kept for requests to forget: "
            f"{newest.size / 1024:.0f} KiB, encrypted; vfl models list shows it"
        )


def present_version(store: ModelStore) -> int:
    """The number of the newest version that can be read; 0 if no model is kept."""
    newest = store.newest_version()
    return 0 if newest is None else newest.number


def replaced(party: VerticalParty, *, uses_kept: bool) -> dict[str, Any]:
    """What the version of a training records if it replaces the one it was to go on from."""
    base = party.base
    if base is None and party.continues:
        return {JOINED: True}
    if base is None or uses_kept:
        return {}
    return {
        REPLACES: base.number,
        LEFT: sorted(set(base.parties) - party.agreement.parties.keys()),
        COLUMNS: len(columns_that_left(base, party.holding)),  # the file says this in plain text
        "before": base.digest if isinstance(base, KeptPart) else "",
        "older": party_models(party).contents(),
    }


def newest_replacement(store: ModelStore) -> Mapping[str, Any] | None:
    """The facts of the version that replaced the one before, from which the newest one comes.

    No parameter of the earlier version was used, because a party, columns or rows left. The facts
    also have the ``number`` of the version. Versions that requests made keep the facts, so they are
    known after that version is erased. None if no version replaced one, or if a training that went
    on from no version came later.
    """
    newest: float = inf
    for each in reversed(store.files()):
        if each.version is None or each.number > newest:
            continue
        if (found := _replacement(each)) or each.version.parent is None:
            return found or None
        newest = each.version.parent
    return None


def _replacement(version: StoredFile) -> Mapping[str, Any]:
    """The facts of the newest replacement that a version knows; empty if it knows none."""
    own = {} if version.version is None else version.version.own
    if REPLACES in own:
        return {**own, "number": version.number}
    kept: Mapping[str, Any] = own.get(REPLACEMENT, {})
    return kept


def kept_replacement(store: ModelStore) -> dict[str, Any]:
    """What a version that requests make keeps of the newest replacement; empty without one."""
    found = newest_replacement(store)
    return {} if found is None else {REPLACEMENT: found}


def departures(views: Iterable[RequestView], version: int, hub: str) -> dict[str, RequestView]:
    """The requests which say that ``version`` is the first one without a party, by that party.

    Only those of the ``hub`` count that were neither rejected nor withdrawn.
    """
    return {
        each.content.party: each
        for each in views
        if each.content.party is not None
        and each.content.version == version
        and each.origin == hub
        and each.state not in ENDED
    }


def columns_requests(
    views: Iterable[RequestView], version: int, origin: str | None = None
) -> list[RequestView]:
    """The requests which say that ``version`` is the first one without some columns.

    Those that were rejected or withdrawn are among them. ``origin``: only those of this party.
    """
    return [
        each
        for each in views
        if each.content.kind == "columns"
        and each.content.version == version
        and origin in (None, each.origin)
    ]


def erase_replaced_models(party: VerticalParty) -> None:
    """Erase all versions before the newest one if it replaces them.

    Call this only when every party has the newest version.

    Raises:
        StorageError: a file cannot be removed; its key is destroyed.
    """
    store = party_models(party)
    newest = store.newest_version()
    if newest is None or newest.version is None or REPLACES not in newest.version.own:
        return
    if any(each.number < newest.number for each in store.files()):
        store.prune(newest.number, versions=True)
        party.progress.note(f"erased all versions before version {newest.number}")


def next_version(store: ModelStore, offers: Iterable[CheckpointOffer], made: int) -> int:
    """A number that is larger than that of every file in the stores of all parties.

    It is also larger than ``made``, the newest version that a request made: the files of that
    version may be erased, and its number tells which requests a version knows.
    """
    return max(store.next_number(), 1 + made, *(1 + (each.kept or 0) for each in offers))


def version_of_training(party: VerticalParty, *, uses_kept: bool = False) -> VersionFacts:
    """The facts of a version that a training made; ``uses_kept``: from a kept version."""
    parent = party.base.number if party.base is not None and uses_kept else None
    return VersionFacts("training", event_time(party.now()), parent)


def state_digest(state: PartyState) -> str:
    """SHA-256 of the parameters of a party's present model, 64 hexadecimal digits."""
    if not state.local_model.has_model:
        return ""
    return parameter_digest(state.local_model.model.block).hex()


def digest_before(state: PartyState) -> str:
    """SHA-256 of the parameters before the present request; the present ones if none was kept."""
    slots = state.local_model.slots
    if ORIGINAL not in slots:
        return state_digest(state)
    return parameter_digest(state.local_model.copy(ORIGINAL)).hex()


def kept_rows(store: ModelStore) -> dict[bytes, int]:
    """Own ID and index in the common order of each row that the newest version knows.

    Rows that were forgotten are absent. Empty if no model is kept.
    """
    version = store.newest_version()
    ids = () if version is None else kept_ids(store, version.number)
    return {each: index for index, each in enumerate(ids) if each}


def kept_ids(store: ModelStore, number: int | None) -> Sequence[bytes]:
    """Own IDs in the common order of a version; empty bytes for erased rows.

    There are none if the version does not exist any more.
    """
    if number not in {each.number for each in store.files() if each.readable}:
        return ()
    return unpack_ids(store.read(number).tensors["ids"])


def read_kept_part(party: StartedParty, agreement: VerticalAgreement) -> KeptPart | None:
    """The party's part of the version that its start names; None if the party keeps no model.

    A party without a kept model is new in the federation; the active party checks this.

    Raises:
        ConfigError: the agreed training cannot go on from a version.
        StorageError: there is no such version, or it was trained with another agreement.
        IntegrityError: no file of the store can be read.
        PolicyError: the version still knows rows that a request made the model forget, or the
            receipt of a party or of columns that left is missing.
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
    wanted = party.continues
    if wanted != NEWEST and all(each.number > int(wanted) for each in files):
        _welcome_new_party(party, agreement)  # it has written the version of an interrupted run
        return None
    chosen = _chosen(versions, wanted)
    if chosen.number < (made := newest_request_version(party, agreement.active)):
        raise PolicyError(
            f"version {chosen.number} is from before a request to forget, which made version "
            f"{made}",
            f"go on from version {made} or a later one",
        )
    _refuse_unrecorded_departure(party, agreement, chosen)
    return _part(agreement, store, chosen)


def _refuse_unrecorded_departure(
    party: StartedParty, agreement: VerticalAgreement, chosen: StoredFile
) -> None:
    """Refuse to go on from a version without a party or own columns before this has a receipt."""
    found = _replacement(chosen)
    left = set(found.get(LEFT, ())) - agreement.parties.keys()
    columns = found.get(COLUMNS, 0)
    if not left and not columns:
        return
    with journal_of(party) as journal:
        events = [] if journal is None else journal.events()
    views, number = requests_of(events, request_rules(agreement)), found["number"]
    recorded = departures(views, number, agreement.active)
    missing = sorted(left - {name for name, each in recorded.items() if each.state in CARRIED_OUT})
    own = columns_requests(views, number, party.name)
    if columns and not any(each.state in CARRIED_OUT | ENDED for each in own):
        missing.append(columns_of(columns, party.name))
    if missing:
        raise PolicyError(
            f"version {number} is the first one without {', '.join(missing)}, and the receipt of "
            "this is missing",
            "start vfl serve at every party first: it makes the receipt",
        )


def _refuse_other_trainings(agreement: VerticalAgreement) -> None:
    """Refuse trainings that do not go on from parameters."""
    plan = agreement.training
    reasons = {
        "training.optimiser = 'newton-cg' finds the optimum from every start": plan.optimiser
        == "newton-cg",
        "sharding.shards > 1 trains one model for each shard": agreement.sharding.shards > 1,
        "the bottom models are fixed, so training again costs as little": agreement.frozen_bottoms,
        "top.kind = 'sum' has no top model to train": agreement.top.kind == "sum",
    }
    for reason, holds in reasons.items():
        if holds:
            raise ConfigError(f"no training goes on from a kept version: {reason}", _AGAIN)


def _welcome_new_party(party: StartedParty, agreement: VerticalAgreement) -> None:
    if party.name == agreement.active:
        number = "" if party.continues == NEWEST else f" {party.continues}"
        raise StorageError(
            f"no version{number} of the model is kept in {party.state}",
            f"name the folder of the earlier training with --out, or {_AGAIN}",
        )
    party.progress.warn(
        f"{party.name} has no part of that version: it joins as a new party, with random weights"
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


def _part(agreement: VerticalAgreement, store: ModelStore, chosen: StoredFile) -> KeptPart:
    then = store.architecture(chosen.number)
    now = agreement.architecture | {"seed": agreement.seed}
    _refuse_other_architecture(now, then, chosen.number)
    content = store.read(chosen.number)
    entries = then["parties"]
    widths = {name: entries[name]["width"] for name in sorted(entries) if entries[name]["width"]}
    ids = unpack_ids(content.tensors["ids"])
    anew = _reason_to_start_anew(agreement, entries)
    now_widths = {name: each.width for name, each in sorted(agreement.feature_parties.items())}
    if agreement.top.kind == "module" and not anew and now_widths != widths:
        raise ConfigError(
            f"the own top model of version {chosen.number} reads the embeddings of "
            f"{', '.join(widths)}, and cannot read those of {', '.join(now_widths)}",
            _AGAIN,
        )
    return KeptPart(
        run=chosen.run,
        number=chosen.number,
        parties=tuple(sorted(entries)),
        anew=anew,
        digest="" if chosen.version is None else chosen.version.own.get("after", ""),
        ids=frozenset(filter(None, ids)),
        trained=frozenset(filter(None, (ids[row] for row in content.tensors["rows"]["train"]))),
        widths=widths,
        statistics=content.values["fitted"][0],
        parameters=content.tensors["network 0"],
    )


def _reason_to_start_anew(agreement: VerticalAgreement, entries: Mapping[str, Any]) -> str:
    """Why the training uses no parameter of a version; empty if it may."""
    left = sorted(entries.keys() - agreement.parties.keys())
    if left:
        return f"it was trained with columns of {', '.join(left)}"
    return "training.continued.new_weights" if agreement.training.continued.new_weights else ""


def _columns_of_version(base: KeptPart) -> set[str]:
    """The names of this party's columns with which a version was trained."""
    if base.statistics is None:
        return set()
    fitted = read_statistics(base.statistics)
    return {*fitted.numeric, *fitted.categorical}


def columns_that_left(base: KeptPart, holding: Holding) -> list[str]:
    """The names of this party's columns that the version ``base`` knows and ``holding`` lacks."""
    return sorted(_columns_of_version(base) - {*holding.numeric, *holding.categorical})


def columns_of(count: int, name: str) -> str:
    """A number of columns of a party, in words."""
    return f"{count} column{'s' * (count != 1)} of {name}"


def refuse_other_columns(base: KeptPart, holding: Holding, name: str) -> None:
    """Refuse to go on from parameters that were learned from other columns of this party.

    Args:
        base: the party's part of the version.
        holding: the party's rows.
        name: name of the party.

    Raises:
        StorageError: columns were removed or added, and the training uses the parameters.
    """
    if base.anew or base.statistics is None:
        return
    then, now = _columns_of_version(base), {*holding.numeric, *holding.categorical}
    words = [f"without {', '.join(sorted(now - then))}"] if now - then else []
    words += [f"with {', '.join(sorted(then - now))}"] if then - now else []
    if words:
        raise StorageError(
            f"{base} was trained {' and '.join(words)} at {name}",
            "use the same columns, or set training.continued.new_weights = true in the agreement: "
            "every part of the model then starts from new weights",
        )


def _refuse_other_architecture(
    now: Mapping[str, Any], then: Mapping[str, Any], number: int
) -> None:
    """Refuse a version whose networks have other shapes; parties may have left or joined."""
    ours, theirs = dict(now), dict(then)
    ours |= {f"parties.{name}": each for name, each in ours.pop("parties").items()}
    theirs |= {f"parties.{name}": each for name, each in theirs.pop("parties").items()}
    shared = {key for key in ours.keys() & theirs.keys() if key.startswith("parties.")}
    free = {"declared_rows": None, "columns": None}  # each party checks its own columns
    for each in shared:
        ours[each], theirs[each] = ({**kept, **free} for kept in (ours[each], theirs[each]))
    fixed = {key for key in ours.keys() | theirs.keys() if not key.startswith("parties.")}
    differing = sorted(key for key in shared | fixed if ours.get(key) != theirs.get(key))
    if differing:
        raise StorageError(
            f"version {number} was trained with another agreement: {', '.join(differing)} differ",
            f"use the agreement of that version; only parties may leave or join, or {_AGAIN}",
        )
