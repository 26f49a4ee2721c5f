"""Merged model: the base model with a party's saved adapters or weights, for other programs."""

import json
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors.torch import load

from configs.language import Tuning
from models.language.adapters import model_logits, without_adapters
from models.language.loading import load_language_model
from models.language.trainable import set_trainable
from parties.common.errors import DataError, IntegrityError, StorageError
from parties.language.engine.base_model import make_trainable
from parties.language.engine.errors import translate_model_errors
from parties.session.saved_model import MANIFEST, MODEL

GENERATION_CONFIG = "generation_config.json"
COMPARED_TOKENS = 64  # tokens on which the merged model is compared with the adapted one


def write_merged_model(base: Path, run: Path, out: Path) -> float:
    """Merge the base model with the model saved in a party's folder ``run``; write it to ``out``.

    Return the largest absolute difference between the logits of the merged model and those of the
    model with adapters. The input for this comparison is one sequence of tokens: those with the
    smallest ids in the vocabulary.

    Raises:
        StorageError: ``run`` has no saved model, or ``out`` is not an empty folder.
        IntegrityError: the digest of the saved model differs from the manifest.
        DataError: the saved model belongs to another base model or to another mode.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise StorageError(f"{out} is not an empty folder", "choose a new folder")
    manifest, content = _saved_model(run)
    agreed = manifest["architecture"]
    if "tuning" not in agreed:
        raise DataError(
            f"the saved model in {run} is not a language model",
            "choose a run folder of the LLM mode",
        )
    # Saved models contain frozen factors too, so every factor must be settable here.
    settings = {**agreed["tuning"], "merging": "factors"} if "rank" in agreed["tuning"] else None
    tuning: Any = TypeAdapter(Tuning).validate_json(json.dumps(settings or agreed["tuning"]))
    with translate_model_errors():
        loaded = load_language_model(base)
        if agreed["model"]["digest"] not in (None, loaded.digest):
            raise DataError(
                f"{base} is not the base model of this run: the digests differ",
                "use the base model whose digest is model.digest in the agreement",
            )
        model = make_trainable(loaded.model, tuning, seed=0)
        set_trainable(model, load(content))
        tokens = torch.arange(min(COMPARED_TOKENS, len(loaded.tokenizer)))[None]
        evaluated = model_logits(model, tokens)
        found = without_adapters(model)
        gap = float((model_logits(found, tokens) - evaluated).abs().max())
    found.save_pretrained(out)
    loaded.tokenizer.save_pretrained(out)
    if (base / GENERATION_CONFIG).is_file():
        # save_pretrained writes the greedy settings of evaluation; the base's own are restored.
        copyfile(base / GENERATION_CONFIG, out / GENERATION_CONFIG)
    return gap


def _saved_model(run: Path) -> tuple[dict[str, Any], bytes]:
    """The manifest and the bytes of a saved model."""
    try:
        manifest = json.loads((run / MANIFEST).read_bytes())
        content = (run / MODEL).read_bytes()
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{run} has no saved model", "choose the folder of one party: RUNS/FEDERATION/PARTY"
        ) from error
    if sha256(content).hexdigest() != manifest["sha256"][MODEL]:
        raise IntegrityError(
            f"{run / MODEL} was changed after the run: "
            f"its SHA-256 digest is not the digest in {MANIFEST}",
            "restore the file from a backup, or repeat the run",
        )
    return manifest, content
