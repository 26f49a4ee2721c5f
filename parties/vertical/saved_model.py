"""What a party keeps when a run is over: its half of the model, and what belongs to it."""

from hashlib import sha256

import torch
from safetensors.torch import save
from torch import nn

from parties.common.atomic_file import write
from parties.common.json_files import canonical
from parties.session.party import Party
from parties.vertical.engine.party_state import State

MODEL, ROWS, PREPROCESSING, TRAFFIC, MANIFEST = (
    "model.safetensors",
    "rows.safetensors",
    "preprocessing.json",
    "traffic.json",
    "manifest.json",
)


def save_half(party: Party, state: State, run: bytes) -> None:
    """Write our half of the model, row map, preprocessing and traffic, and their digests."""
    voters = state.half.voters()
    network = nn.ModuleList(voters) if voters else state.half.model.network
    parts = {
        name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()
    }
    files = {
        ROWS: save({"rows": torch.from_numpy(state.features.rows)}),
        TRAFFIC: canonical({"phases": party.ledger.by_phase(), "peers": party.ledger.by_peer()}),
    }
    if parts:
        files[MODEL] = save(parts)
    if state.half.model.inputs is not None:
        files[PREPROCESSING] = canonical(state.half.model.inputs.fitted.statistics())
    for name, content in files.items():
        write(party.state / name, content)
    manifest = {
        "party": party.name,
        "run": run.hex(),
        "agreement": party.digest.hex(),
        "architecture": party.agreement.architecture,
        "threads": party.seat.threads,
        "device": party.seat.device,
        "torch": torch.__version__,
        "sha256": {name: sha256(content).hexdigest() for name, content in files.items()},
    }
    write(party.state / MANIFEST, canonical(manifest))
