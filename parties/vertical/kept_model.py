"""The kept model of a vertical party: its store, its versions, and the start from a version."""

from collections.abc import Iterable

from models.arithmetic import parameter_digest
from parties.common.shared_randomness import Index
from parties.session.handshake import CheckpointOffer
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState, unpack_ids


def party_models(party: VerticalParty) -> ModelStore:
    """The store of a party's models."""
    architecture = party.agreement.architecture | {"seed": party.agreement.seed}
    return ModelStore(party.state, party.name, architecture, party.keys)


def next_version(store: ModelStore, offers: Iterable[CheckpointOffer]) -> int:
    """A number that is larger than that of every file in the stores of all parties."""
    return max(store.next_number(), *(1 + (each.kept or 0) for each in offers))


def present_time(party: VerticalParty) -> str:
    """The present time in UTC, in seconds, ISO 8601."""
    return party.now().replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def version_of_training(party: VerticalParty) -> VersionFacts:
    """The facts of a version that a training made."""
    return VersionFacts("training", present_time(party))


def state_digest(state: PartyState) -> str:
    """SHA-256 of the parameters of a party's present model, 64 hexadecimal digits."""
    if not state.local_model.has_model:
        return ""
    return parameter_digest(state.local_model.model.block).hex()


def ids_of(state: PartyState, rows: Index) -> list[bytes]:
    """The party's IDs of common ``rows``, [rows]; rows that were erased before are left out."""
    ids = state.features.ids()
    return [ids[row] for row in rows.tolist() if ids[row]]


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
    if version is None:
        return {}
    ids = unpack_ids(store.read(version.number).tensors["ids"])
    return {each: index for index, each in enumerate(ids) if each}
