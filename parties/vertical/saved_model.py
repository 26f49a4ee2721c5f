"""The files of a party's saved model: parameters, row numbers, preprocessing and traffic."""

import torch
from safetensors.torch import save
from torch import nn

from parties.common.json_files import canonical_json
from parties.session.saved_model import (
    MANIFEST,
    MODEL,
    PREPROCESSING,
    ROWS,
    TRAFFIC,
    write_saved_model,
)
from parties.session.store.model_store import ModelStore
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState


def restore_local_model(
    party: VerticalParty, store: ModelStore, state: PartyState, run: bytes
) -> None:
    """Write the files of the saved model if they are absent, as they are after a rollback.

    Nothing is written while a request is being carried out.
    """
    files = store.files()
    if files and files[-1].version is not None and not (party.state / MANIFEST).exists():
        save_local_model(party, state, run)


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
    settings = party.settings
    write_saved_model(
        party,
        party.agreement.architecture,
        run,
        files,
        threads=settings.threads,
        device=settings.device,
    )
