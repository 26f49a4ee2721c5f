"""What remains of forgotten rows at one party, looked up in its memory and in its real files.

The check of a purge: a stale cache, copy or checkpoint would bring the rows back.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.session.checkpoint import Checkpoints, Content
from parties.vertical.engine.local_model import EARLY
from parties.vertical.engine.party_state import State


def remains(state: State, checkpoints: Checkpoints) -> list[str]:
    """The places where rows of the last request still are; none after its purge."""
    return [*_in_memory(state), *_in_files(checkpoints, state.dropped)]


def _in_memory(state: State) -> Iterator[str]:
    gone = state.dropped
    if (state.features.rows[gone] >= 0).any():
        yield "row map"
    rows = state.rows  # of which ``drawn``, the order of the run's batches, keeps bare indices
    parts = (rows.learn, rows.validation, rows.test, rows.forgotten)
    if any(np.isin(gone, part).any() for part in parts):
        yield "row sets"
    if any(bool(each.values[gone].any()) for each in state.features.known(state.in_use)):
        yield "features"
    beside = _strangers(state.half.slots, state.half.members)
    yield from (f"copy {slot!r} of the model" for slot in beside)
    if state.trigger is not None:
        yield "trigger"


def _in_files(checkpoints: Checkpoints, gone: Index) -> Iterator[str]:
    for number in checkpoints.held().numbers:
        for place in _in_checkpoint(checkpoints.read(number), gone):
            yield f"{place} in checkpoint {number}"


def _in_checkpoint(content: Content, gone: Index) -> Iterator[str]:
    rows = torch.from_numpy(gone)
    if (content.tensors["rows"]["map"][rows] >= 0).any():
        yield "row map"
    labels = content.tensors.get("labels")
    if labels is not None and (labels["labels"][rows] >= 0).any():
        yield "labels"
    if _strangers(content.values["slots"], content.values["members"]):
        yield "copies of the model"
    entries = {name: each for name, each in content.tensors.items() if name.startswith("entry ")}
    if any(_is_output(tensor) for each in entries.values() for tensor in each.values()):
        yield "outputs in the journal"


def _strangers(slots: Iterable[str], members: Iterable[str]) -> list[str]:
    """Copies beside the model and what the next request begins with, which ``kept`` names."""
    return [slot for slot in slots if slot not in {*members, EARLY}]


def _is_output(tensor: Tensor) -> bool:
    """Whether a tensor holds numbers of rows, not the indices that name them."""
    return tensor.is_floating_point()
