"""Adapters in files, in peft's own format: ``adapter_config.json`` and safetensors beside it.

peft and what is built on it read what is written here. What is read here may come from elsewhere,
so only plain low-rank adapters are taken: several other settings of peft change the base's weights
or load further files.
"""

import json
from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftModel
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from models.language.adapters import Lora, adapt, plain_name
from models.language.errors import LanguageModelError
from models.language.folder import ADAPTER, read_json
from models.language.trainable import write

ADAPTER_WEIGHTS = "adapter_model.safetensors"
# Settings that are read, or that say nothing of the adapters' values.
_FREE = {
    "r",
    "lora_alpha",
    "lora_dropout",
    "target_modules",
    "base_model_name_or_path",
    "revision",
    "task_type",
    "peft_type",
    "peft_version",
    "inference_mode",
    "auto_mapping",
}


def save_adapters(model: PeftModel, folder: Path, base: str = "") -> None:
    """Write the adapters, A and B also where one is frozen.

    ``base`` is what readers are told of the base model, such as its public name; the path that it
    was loaded from would tell them of this machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = model.peft_config["default"].to_dict()
    settings |= {"base_model_name_or_path": base, "inference_mode": True}
    settings["target_modules"] = sorted(settings["target_modules"])
    settings["peft_type"] = str(settings["peft_type"].value)
    text = json.dumps(settings, indent=2, sort_keys=True)
    (folder / ADAPTER).write_text(text + "\n", encoding="utf-8")
    tensors = {name: each.detach().cpu().contiguous() for name, each in _factors(model).items()}
    save_file(tensors, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def load_adapters(model: PreTrainedModel, folder: Path) -> PeftModel:
    """Put the adapters of ``folder`` on ``model`` itself, all of them trainable.

    Raises:
        LanguageModelError: a file is absent or damaged, the adapters are of another kind, or they
            do not fit the model.
    """
    lora = _read_settings(folder)
    try:
        given = load_file(folder / ADAPTER_WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise LanguageModelError(
            f"{folder / ADAPTER_WEIGHTS} cannot be read: {error}",
            hint="only safetensors are read, never pickles; copy or write the adapters again",
        ) from error
    found = adapt(model, lora, seed=0)  # the draw is overwritten, every tensor of it
    write(found, given)
    return found


def _factors(model: nn.Module) -> dict[str, Tensor]:
    named = model.named_parameters()
    return {plain_name(name): each for name, each in named if ".lora_" in name}


def _read_settings(folder: Path) -> Lora:
    path = folder / ADAPTER
    if not path.is_file():
        raise LanguageModelError(f"{folder} holds no {ADAPTER}", hint="name an adapter's folder")
    told = read_json(path)
    if told.get("peft_type") != "LORA":
        raise LanguageModelError(
            f"{path}: peft_type {told.get('peft_type')!r} cannot be read", hint="LORA can be"
        )
    usual: dict[str, Any] = LoraConfig().to_dict()  # type: ignore[no-untyped-call]
    odd = [name for name, value in told.items() if name not in _FREE and value != usual.get(name)]
    if odd:
        raise LanguageModelError(
            f"{path}: {', '.join(sorted(odd))} is set, which plain low-rank adapters leave alone",
            hint="train the adapters without it",
        )
    return _lora(path, told)


def _lora(path: Path, told: dict[str, Any]) -> Lora:
    modules = told.get("target_modules")
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise LanguageModelError(
            f"{path}: target_modules is no list of names", hint="name the modules one by one"
        )
    try:
        return Lora(
            rank=int(told["r"]),
            alpha=int(told["lora_alpha"]),
            dropout=float(told.get("lora_dropout", 0.0)),
            modules=tuple(modules),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LanguageModelError(
            f"{path}: r, lora_alpha or lora_dropout is no number", hint="copy the file again"
        ) from error
