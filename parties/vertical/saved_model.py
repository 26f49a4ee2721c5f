"""The files of a party's saved model: parameters, row numbers, preprocessing and traffic."""

from hashlib import sha256

import torch
from safetensors.torch import save
from torch import nn

from parties.common.atomic_file import write_atomically
from parties.common.json_files import canonical_json
from parties.session.saved_model import MANIFEST, MODEL, PREPROCESSING, ROWS, TRAFFIC
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState


def save_local_model(party: VerticalParty, state: PartyState, run: bytes) -> None:
    """Write the files of the saved model, and a manifest with their digests."""
    members = state.local_model.member_networks()
    network = nn.ModuleList(members) if members else state.local_model.model.network
    parts = {
        name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()
    }
    files = {
        ROWS: save({"rows": torch.from_numpy(state.features.rows)}),
        TRAFFIC: canonical_json(
            {"phases": party.traffic.by_phase(), "peers": party.traffic.by_peer()}
        ),
    }
    if parts:
        files[MODEL] = save(parts)
    if state.local_model.model.inputs is not None:
        files[PREPROCESSING] = canonical_json(state.local_model.model.inputs.fitted.statistics())
    for name, content in files.items():
        write_atomically(party.state / name, content)
    manifest = {
        "party": party.name,
        "run": run.hex(),
        "agreement": party.digest.hex(),
        "architecture": party.agreement.architecture,
        "threads": party.settings.threads,
        "device": party.settings.device,
        "torch": torch.__version__,
        "sha256": {name: sha256(content).hexdigest() for name, content in files.items()},
    }
    write_atomically(party.state / MANIFEST, canonical_json(manifest))
