"""What a party keeps when a run is over: the delivered model, for ``vfl predict``."""

from collections.abc import Mapping
from hashlib import sha256

import torch
from safetensors.torch import save
from torch import Tensor

from parties.common.atomic_file import write
from parties.common.json_files import canonical
from parties.horizontal.party import FederatedParty
from parties.vertical.saved_model import MANIFEST, MODEL


def save_model(party: FederatedParty, model: Mapping[str, Tensor], run: bytes) -> None:
    """Write a model and the manifest that names its digest; ``run`` is 16 bytes.

    Raises:
        StorageError: the file system refuses.
    """
    parts = {name: each.detach().contiguous() for name, each in model.items()}
    content = save(parts)
    manifest = {
        "party": party.name,
        "run": run.hex(),
        "agreement": party.digest.hex(),
        "architecture": party.agreement.architecture,
        "torch": torch.__version__,
        "sha256": {MODEL: sha256(content).hexdigest()},
    }
    write(party.state / MODEL, content)
    write(party.state / MANIFEST, canonical(manifest))
