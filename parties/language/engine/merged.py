"""What a run delivered, put into its base model: a folder for any program that loads models."""

import json
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors.torch import load

from configs.language import Tuning
from models.language.adapters import logits_of, plain
from models.language.loading import load_language_model
from models.language.trainable import write
from parties.common.errors import DataError, IntegrityError, StorageError
from parties.language.engine.base_model import tuned
from parties.language.engine.errors import told
from parties.vertical.saved_model import MANIFEST, MODEL

SAYS = "generation_config.json"
TOKENS = 64  # on which the merged model is set beside the one with adapters


def merge_delivered(base: Path, run: Path, out: Path) -> float:
    """Write the base with a party's delivered model to ``out``.

    Returns the largest difference that merging made to a logit of some tokens.

    Raises:
        StorageError: nothing was delivered to ``run``, or something is in ``out``.
        IntegrityError: the file is not the one that was written.
        DataError: it was not made from this base.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise StorageError(f"{out} is not empty", "name a new folder")
    manifest, content = _delivered(run)
    agreed = manifest["architecture"]
    if "tuning" not in agreed:
        raise DataError(f"{run} holds no language model", "its run was of another mode")
    # A frozen factor was delivered, too; here all of them are written.
    settings = {**agreed["tuning"], "merging": "factors"} if "rank" in agreed["tuning"] else None
    tuning: Any = TypeAdapter(Tuning).validate_json(json.dumps(settings or agreed["tuning"]))
    with told():
        loaded = load_language_model(base)
        if agreed["model"]["digest"] not in (None, loaded.digest):
            raise DataError(
                f"{base} is not the base model of this run", "its digest stands in the agreement"
            )
        model = tuned(loaded.model, tuning, seed=0)
        write(model, load(content))
        tokens = torch.arange(min(TOKENS, len(loaded.tokenizer)))[None]
        evaluated = logits_of(model, tokens)
        found = plain(model)
        gap = float((logits_of(found, tokens) - evaluated).abs().max())
    found.save_pretrained(out)
    loaded.tokenizer.save_pretrained(out)
    if (base / SAYS).is_file():  # as the base's makers have it, not as it was measured
        copyfile(base / SAYS, out / SAYS)
    return gap


def _delivered(run: Path) -> tuple[dict[str, Any], bytes]:
    try:
        manifest = json.loads((run / MANIFEST).read_bytes())
        content = (run / MODEL).read_bytes()
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{run} has no delivered model", "name the folder of one party, RUNS/FEDERATION/PARTY"
        ) from error
    if sha256(content).hexdigest() != manifest["sha256"][MODEL]:
        raise IntegrityError(f"{run / MODEL} is not the file that the run wrote")
    return manifest, content
