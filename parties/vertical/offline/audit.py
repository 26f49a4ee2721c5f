"""Search of all files of one party for IDs, feature values and embeddings of forgotten rows."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from parties.common.device import embed
from parties.common.errors import StorageError
from parties.common.shared_randomness import Index
from parties.data.data_frame import data_frame
from parties.data.holding import Holding
from parties.requests.events import ErasedBody, Event, StatedBody, StoredItem
from parties.requests.lifecycle import CARRIED_OUT
from parties.requests.subjects import SubjectClass
from parties.session.checkpoint import CheckpointContent
from parties.session.saved_model import read_saved_model
from parties.session.store.file_search import (
    FileReport,
    Searched,
    Trace,
    counted,
    evident,
    merge_found,
    search_bytes,
    search_folder,
    search_tensors,
)
from parties.session.store.model_store import ModelStore
from parties.vertical.engine.features import DTYPES
from parties.vertical.engine.networks import ActiveEnsemble, ActiveNetwork
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import unpack_ids
from parties.vertical.kept_model import party_models
from parties.vertical.offline.local_desk import VerticalDesk
from parties.vertical.prediction.setup import load_party_network
from parties.vertical.service.replay_window import ReplayWindow, model_item, model_number


@dataclass(frozen=True, slots=True)
class ModelAudit:
    """What an audit of a party's folder found.

    Attributes:
        ids: number of IDs that were searched for.
        rows: number of these IDs of which the party's data still has the row, so that its feature
            values and embedding were searched for, too.
        evident: number of arrays of numbers by which these rows can be recognised.
        files: a report for each file; the content of a sealed file has a report of its own.
        erased: the places that a receipt states as erased, and whether they are.
        kept: the decrypted versions that are kept for a replay, and the last day of each.
    """

    ids: int
    rows: int
    evident: int
    files: tuple[FileReport, ...]
    erased: dict[str, bool]
    kept: dict[Path, date]

    @property
    def clean(self) -> bool:
        """Whether nothing was found except in kept versions, and all erased places are gone."""
        found = [each for each in self.files if each.found and each.path not in self.kept]
        return not found and all(self.erased.values())


def audit_files(local: VerticalDesk, given: Sequence[bytes]) -> ModelAudit:
    """Search all files of a party for forgotten rows.

    Args:
        local: the party, with its data.
        given: IDs to search for, besides those of the list of forgotten IDs that the party knows:
            the IDs of its own requests that were carried out, and the IDs of its data.

    Raises:
        IntegrityError: the journal, the key file or the saved model is damaged.
        StorageError: a folder cannot be read.
    """
    holding, state = local.party.holding, local.party.state
    ids = list(dict.fromkeys([*given, *_known_ids(local)]))
    places = {identity: row for row, identity in enumerate(holding.ids)}
    rows = np.array([places[each] for each in ids if each in places], np.int64)
    searched = Searched(ids, _numbers(local.party, rows))
    store = party_models(local.party)
    reports = search_folder(state, searched) + list(_sealed(store, searched))
    values = sum(len(each) for arrays in searched.rows.values() for each in arrays)
    window = ReplayWindow(local.desk, local.party, store)
    kept = {
        _place(store, number): each.until
        for number, each in window.kept().items()
        if each.until >= window.today
    }
    return ModelAudit(len(ids), len(rows), values, tuple(reports), _erased(local, store), kept)


def _known_ids(local: VerticalDesk) -> Iterator[bytes]:
    """The forgotten IDs among those of carried-out requests of this party and those of its data.

    IDs that were readmitted since are not forgotten.
    """
    ids = [*local.party.holding.ids]
    for view in local.desk.requests():
        if view.state in CARRIED_OUT and not view.corrects:  # corrected rows stay
            subjects = local.subjects.of(view.id) or ()
            ids += [each.id for each in subjects if each.found is SubjectClass.ALIGNED]
    yield from (ids[row] for row in local.forgotten.among(ids))


def _numbers(party: VerticalParty, rows: Index) -> dict[Trace, list[Tensor]]:
    """Raw values, preprocessed values and embeddings of own ``rows``, [rows].

    Rows that cannot be told from a row that is not searched for are left out.
    """
    others = np.setdiff1d(np.arange(len(party.holding)), rows)
    raw = _raw(party.holding, rows), _raw(party.holding, others)
    pairs: dict[Trace, list[tuple[Tensor, Tensor]]] = {Trace.FEATURES: [raw], Trace.EMBEDDING: []}
    try:
        saved = read_saved_model(party.state, party.name, party.agreement)
    except StorageError:  # removed by a rollback: only raw values are known
        saved = None
    if saved is not None and saved.fitted is not None and len(rows):
        dtype, fitted = DTYPES[party.agreement.dtype], saved.fitted
        inputs = [
            torch.from_numpy(np.asarray(fitted.transform(party.holding, each))).to(dtype)
            for each in (rows, others)
        ]
        pairs[Trace.FEATURES].append((inputs[0], inputs[1]))
        network = load_party_network(saved, party.name, party.agreement, party.settings)
        with torch.no_grad():
            made = [_embedded(network, each) for each in inputs]
        pairs[Trace.EMBEDDING].append((made[0], made[1]))
    return {kind: [evident(*each) for each in found] for kind, found in pairs.items()}


def _embedded(network: nn.Module, features: Tensor) -> Tensor:
    """The embeddings of ``features``, [rows, ...], by a party's network: [rows, width]."""
    if isinstance(network, ActiveNetwork | ActiveEnsemble):
        return network.embed(features)
    return embed(network, features)


def _raw(holding: Holding, rows: Index) -> Tensor:
    """The numbers of own ``rows`` as the data has them, [rows, numbers]."""
    if holding.images is not None:
        return torch.from_numpy(np.asarray(holding.images[rows]))
    if holding.table is None or not holding.numeric:
        return torch.zeros((len(rows), 0))
    values = data_frame(holding.table, rows)[list(holding.numeric)].to_numpy(np.float64)
    return torch.from_numpy(values[~np.isnan(values).any(axis=1)])


def _sealed(store: ModelStore, searched: Searched) -> Iterator[FileReport]:
    """A report for the decrypted content of each file of the store."""
    for each in store.files():
        place = _place(store, each.number)
        if not each.readable:
            yield FileReport(place, {}, each.fault)
            continue
        content = store.read(each.number)
        yield FileReport(place, counted(merge_found(_in_content(content, searched))))


def _place(store: ModelStore, number: int) -> Path:
    """Where an audit reports the decrypted content of a file."""
    return store.folder / f"version {number}, decrypted"


def _in_content(content: CheckpointContent, searched: Searched) -> Iterator[dict[Trace, set[int]]]:
    if "ids" in content.tensors:
        kept = set(unpack_ids(content.tensors["ids"]))
        yield {Trace.ID: {at for at, each in enumerate(searched.ids) if each in kept}}
    yield search_bytes(json.dumps(content.values).encode(), searched)
    for group in content.tensors.values():
        yield search_tensors(group.values(), searched)
        for tensor in group.values():
            yield search_bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes(), searched)


def _erased(local: VerticalDesk, store: ModelStore) -> dict[str, bool]:
    """The files that this party stated as erased, and whether neither file nor key is left."""
    keys = local.party.keys.all()
    left = {each.number for each in store.files()} | {
        int(name.split()[-1]) for name in keys if name.startswith("model ")
    }
    own = [each for each in local.desk.journal.events() if each.origin == local.party.name]
    items = [item for each in own for item in _erased_items(each)]
    numbers = sorted({number for item in items if (number := model_number(item)) is not None})
    return {model_item(number).id: number not in left for number in numbers}


def _erased_items(event: Event) -> tuple[StoredItem, ...]:
    """What an event says was erased."""
    match event.body:
        case StatedBody() as body:
            return body.destroyed
        case ErasedBody() as body:
            return body.items
    return ()
