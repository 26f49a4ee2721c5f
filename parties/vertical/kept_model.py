"""The kept model of a vertical party: its store, its versions, and the start from a version."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from configs.agreement import VerticalAgreement
from models.arithmetic import parameter_digest
from parties.common.errors import StorageError
from parties.requests.events import event_time
from parties.session.handshake import CheckpointOffer
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.session.store.sealing import KeyFile
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState, unpack_ids


def party_models(party: VerticalParty) -> ModelStore:
    """The store of a party's models."""
    return model_store(party.state, party.name, party.agreement, party.keys)


def model_store(state: Path, name: str, agreement: VerticalAgreement, keys: KeyFile) -> ModelStore:
    """The store in the folder ``state`` of the party ``name``."""
    return ModelStore(state, name, agreement.architecture | {"seed": agreement.seed}, keys)


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


def erase_models_of_left_parties(party: VerticalParty, number: int) -> None:
    """After a training without a party that left: erase all versions before ``number``.

    Raises:
        StorageError: a file cannot be removed; its key is destroyed.
    """
    if party.base is not None and party.base.left:
        party_models(party).prune(number, versions=True)
        party.progress.note(f"erased all versions before version {number}")


def next_version(store: ModelStore, offers: Iterable[CheckpointOffer], made: int) -> int:
    """A number that is larger than that of every file in the stores of all parties.

    It is also larger than ``made``, the newest version that a request made: the files of that
    version may be erased, and its number tells which requests a version knows.
    """
    return max(store.next_number(), 1 + made, *(1 + (each.kept or 0) for each in offers))


def version_of_training(party: VerticalParty) -> VersionFacts:
    """The facts of a version that a training made."""
    parent = None if party.base is None else party.base.number
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
