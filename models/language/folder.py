"""A model's folder on this machine: which files determine the model, and whether they may be read.

Nothing is loaded here. What is refused could run code (pickled weights, a model type that brings
its own Python), fetch something (an adapter that names its base, a kernel from a hub) or give
another model than the one meant (a classifier without a language-model head).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from models.language.errors import LanguageModelError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
# At least one of these holds a tokenizer's vocabulary; the others only tell how to use it.
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
_TOKENIZER_SETTINGS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)
_LARGEST_JSON = 64 << 20  # bytes; the index of a model with 100,000 tensors is a tenth of this
_PIECE = 1 << 20  # bytes hashed at a time
_DOMAIN = b"base language model, form 1\n"
_AS_SAFETENSORS = "write it again with save_pretrained of transformers, which writes safetensors"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The files of one causal language model, all there and of a kind that may be read."""

    path: Path
    config: dict[str, Any]
    weights: tuple[Path, ...]
    others: tuple[Path, ...]  # config, index, tokenizer

    def digest(self) -> str:
        """SHA-256, in hex, of the names and contents of all files that determine the model.

        The same files give the same digest on every machine; other files do not enter it.
        """
        found = sha256(_DOMAIN)
        for path in sorted((*self.weights, *self.others), key=lambda path: path.name):
            # A name holds no zero byte and a hash has a fixed length, so no two lists look alike.
            found.update(path.name.encode() + b"\0" + _hashed(path))
        return found.hexdigest()


def examine(folder: Path) -> ModelFolder:
    """Find the files of a causal language model and look at their headers.

    Raises:
        LanguageModelError: something is absent, damaged or may not be read.
    """
    config = _config(folder)
    weights = _weights(folder)
    for path in weights:
        _whole(path)
    named = (CONFIG, INDEX, "generation_config.json", *VOCABULARIES, *_TOKENIZER_SETTINGS)
    others = tuple(folder / name for name in named if (folder / name).is_file())
    if not any(path.name in VOCABULARIES for path in others):
        raise LanguageModelError(
            f"{folder} holds no tokenizer: none of {', '.join(VOCABULARIES)}",
            hint="copy the tokenizer's files from where the model came, into the same folder",
        )
    return ModelFolder(folder, config, weights, others)


def base_digest(folder: Path) -> str:
    """``examine(folder).digest()``: what all parties compare before they train on one model."""
    return examine(folder).digest()


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object of bounded size.

    Raises:
        LanguageModelError: it is too large, or no JSON object.
    """
    if path.stat().st_size > _LARGEST_JSON:
        raise LanguageModelError(f"{path} has more than {_LARGEST_JSON >> 20} MiB of JSON")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LanguageModelError(f"{path} is no JSON: {error}", hint="copy it again") from error
    if not isinstance(found, dict):
        raise LanguageModelError(f"{path} is no JSON object", hint="copy it again")
    return found


def _config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise LanguageModelError(
            f"there is no folder {folder}",
            hint="name a folder of this machine; models are never fetched from elsewhere",
        )
    if not (folder / CONFIG).is_file():
        adapter = (folder / ADAPTER).is_file()
        raise LanguageModelError(
            f"{folder} holds no {CONFIG}" + (", only an adapter" if adapter else ""),
            hint="name the base model's folder" if adapter else "name the folder that holds it",
        )
    if (folder / ADAPTER).exists():
        # transformers would put the adapter on, unseen, and the base would not be the base.
        raise LanguageModelError(
            f"{folder} holds a model and an adapter",
            hint=f"move {ADAPTER} and its weights into a folder of their own",
        )
    config = read_json(folder / CONFIG)
    _check_kind(folder, config)
    return config


def _check_kind(folder: Path, config: dict[str, Any]) -> None:
    """Refuse what is no causal language model of transformers' own."""
    kind = str(config.get("model_type"))
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise LanguageModelError(
            f"{folder / CONFIG}: {kind} is no type of causal language model that transformers "
            "has; code that a folder brings along is never run",
            hint="use a type such as llama, qwen2, mistral or gpt2",
        )
    legal: set[str] = set()
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        legal |= {names} if isinstance(names, str) else set(names)
    told = config.get("architectures") or []
    if not isinstance(told, list) or (told and not legal.intersection(map(str, told))):
        raise LanguageModelError(
            f"{folder / CONFIG}: {told!r} is not a causal language model",
            hint=f"for {kind} it would be {MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]}",
        )
    for key, value in _settings(config):
        if key.endswith("_implementation") and isinstance(value, str) and "/" in value:
            raise LanguageModelError(
                f"{folder / CONFIG}: {key} names a kernel to fetch and run",
                hint=f"remove {key}; transformers then takes torch's attention",
            )


def _settings(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key and value, nested ones under the name of their nest if that says what they are."""
    for key, value in config.items():
        if not isinstance(value, dict):
            yield key, value
        elif key.endswith("_implementation"):
            yield from ((key, each) for _, each in _settings(value))
        else:
            yield from _settings(value)


def _weights(folder: Path) -> tuple[Path, ...]:
    """The weight files that would be loaded."""
    if (folder / WEIGHTS).is_file():
        return (folder / WEIGHTS,)
    if not (folder / INDEX).is_file():
        pickled = sorted(each.name for each in folder.glob("*.bin"))
        found = f"only {pickled[0]}, whose pickles could run code" if pickled else "no weights"
        raise LanguageModelError(
            f"{folder} holds no {WEIGHTS}: {found}",
            hint=_AS_SAFETENSORS if pickled else "copy the weights into it",
        )
    shards = read_json(folder / INDEX).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise LanguageModelError(f"{folder / INDEX} maps no weights", hint="copy it again")
    names = sorted({str(name) for name in shards.values()})
    for name in names:
        if name != Path(name).name or not name.endswith(".safetensors"):
            raise LanguageModelError(
                f"{folder / INDEX} names {name!r}, which is no safetensors file of this folder",
                hint=_AS_SAFETENSORS,
            )
        if not (folder / name).is_file():
            raise LanguageModelError(f"{folder} lacks {name}", hint=f"{INDEX} names it; copy it")
    return tuple(folder / name for name in names)


def _whole(path: Path) -> None:
    """Refuse a file whose header and length disagree."""
    try:
        with safe_open(path, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise LanguageModelError(
            f"{path} is truncated or damaged: {error}", hint="copy it again and compare its size"
        ) from error


def _hashed(path: Path) -> bytes:
    found = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.digest()
