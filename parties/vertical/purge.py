"""The purge: after a request, all parties delete the data of the forgotten rows.

The parties then search for data that is left, because data in a cache or checkpoint, for example,
would still reveal the rows.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.session.checkpoint import CheckpointContent, CheckpointStore
from parties.vertical.engine.features import any_label
from parties.vertical.engine.local_model import EARLY_CHECKPOINT
from parties.vertical.engine.party_state import PartyState
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import EMBEDDINGS
from protocol import vfl_pb2


def purge_request(split_model: SplitModel, name: str) -> dict[str, list[str]]:
    """Let every party delete what it stores about the rows of the request ``name``.

    Returns:
        Descriptions of what each party deleted, by name of the party.
    """
    replayed = split_model.replaying
    purged = split_model.once(f"purge of {name}", dict, lambda: _purge(split_model), durable=False)
    if replayed:
        split_model.state.without_forgotten()
    split_model.end_correction()
    if not split_model.checkpoints.sealed:  # the store of models is erased after the new version
        split_model.prune_checkpoints()
    return purged


def search_residues(split_model: SplitModel) -> dict[str, list[str]]:
    """Let each party search its memory and files for data of the rows of the last request.

    This function sends messages, so it must be called through ``SplitModel.once``.
    """
    replies = split_model.send_to_passive(
        vfl_pb2.UNLEARN, vfl_pb2.ModelCommand(search_residue=vfl_pb2.SearchResidue())
    )
    forgotten = split_model.state.requested_rows
    own = residues(split_model.state, split_model.checkpoints) + split_model.loop.residues(
        forgotten
    )
    own += split_model.used_labels.residues(forgotten)
    return {split_model.party.name: own} | {
        name: list(each.residue) for name, each in replies.items()
    }


def _purge(split_model: SplitModel) -> dict[str, list[str]]:
    replies = split_model.send_to_passive(vfl_pb2.UNLEARN, vfl_pb2.Purge())
    forgotten, corrects = split_model.state.requested_rows, split_model.rows.corrects
    own = split_model.state.purge()
    if not corrects:
        own += split_model.loop.forget(forgotten) + split_model.used_labels.forget(forgotten)
        weighted = split_model.loop.weights is not None
        own.append(
            f"row map, features{', labels and weights' if weighted else ' and labels'} of "
            f"{len(forgotten)} rows"
        )
    own.append("checkpoints from before")
    return {split_model.party.name: own} | {
        name: list(each.purged) for name, each in replies.items()
    }


def residues(state: PartyState, checkpoints: CheckpointStore) -> list[str]:
    """The places at one party that still contain rows of the last request; empty if none."""
    forgotten = state.requested_rows
    return [*_in_memory(state, forgotten), *_in_files(checkpoints, forgotten)]


def stored_residues(
    state: PartyState,
    checkpoints: CheckpointStore,
    rows: Sequence[int],
    except_in: Container[int],
) -> list[str]:
    """The places at one party that still contain the common ``rows``; empty if none.

    The files numbered ``except_in`` are not searched.
    """
    forgotten = np.array(rows, np.int64)
    return [*_in_memory(state, forgotten), *_in_files(checkpoints, forgotten, except_in)]


def _in_memory(state: PartyState, forgotten: Index) -> Iterator[str]:
    if (state.features.rows[forgotten] >= 0).any():
        yield "row map"
    rows = state.rows  # its ``initial_train`` may keep indices: they only fix the batch order
    parts = (rows.train, rows.validation, rows.test, rows.forgotten)
    if any(np.isin(forgotten, part).any() for part in parts):
        yield "row sets"
    if any(
        bool(each.values[forgotten].any())
        for each in state.features.all_inputs(state.inputs_in_use)
    ):
        yield "features"
    stale = _stale_copies(state.local_model.slots, state.local_model.ensemble)
    yield from (f"copy {slot!r} of the model" for slot in stale)
    if state.trigger is not None:
        yield "trigger"


def _in_files(
    checkpoints: CheckpointStore, forgotten: Index, except_in: Container[int] = ()
) -> Iterator[str]:
    for number in checkpoints.offer().numbers:
        if number in except_in:
            continue
        for place in _in_checkpoint(checkpoints.read(number), forgotten):
            yield f"{place} in checkpoint {number}"


def _in_checkpoint(content: CheckpointContent, forgotten: Index) -> Iterator[str]:
    rows = torch.from_numpy(forgotten)
    if (content.tensors["rows"]["map"][rows] >= 0).any():
        yield "row map"
    labels = content.tensors.get("labels")
    if labels is not None and any_label(labels["labels"][rows]):
        yield "labels"
    if labels is not None and "weights" in labels and any_label(labels["weights"][rows]):
        yield "weights of rows"
    if _stale_copies(content.values["slots"], content.values["members"]):
        yield "copies of the model"
    embeddings = content.tensors.get(EMBEDDINGS, {}).values()
    if any(bool(each[rows].any()) for each in embeddings):
        yield "kept embeddings"
    entries = {name: each for name, each in content.tensors.items() if name.startswith("entry ")}
    if any(_is_output(tensor) for each in entries.values() for tensor in each.values()):
        yield "outputs in the journal"


def _stale_copies(slots: Iterable[str], members: Iterable[str]) -> list[str]:
    """Copies besides the present model and the start of the next request."""
    return [slot for slot in slots if slot not in {*members, EARLY_CHECKPOINT}]


def _is_output(tensor: Tensor) -> bool:
    """Whether a tensor holds values of rows, not indices of rows."""
    return tensor.is_floating_point()
