"""Folder of a language model: finds the files that determine the model and checks their safety.

This module does not load the model. It refuses a folder in three cases: a file could run code, such
as pickled weights; a file could cause a download, such as an adapter that names its base model; or
the model is of another kind, such as a classifier.
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
# At least one of these holds a tokenizer's vocabulary; the other files are only settings.
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
_COPY_AGAIN = "copy the file again"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The checked files of one causal language model."""

    path: Path
    config: dict[str, Any]
    weights: tuple[Path, ...]
    others: tuple[Path, ...]  # config, index, tokenizer

    def digest(self) -> str:
        """Return the SHA-256, in hex, of names and contents of all files that determine the model.

        The same files give the same digest on every machine. Other files in the folder do not
        change the digest.
        """
        found = sha256(_DOMAIN)
        for path in sorted((*self.weights, *self.others), key=lambda path: path.name):
            # A name has no zero byte and a hash has a fixed length, so no two lists of files give
            # the same bytes.
            found.update(path.name.encode() + b"\0" + _file_hash(path))
        return found.hexdigest()


def examine_model_folder(folder: Path) -> ModelFolder:
    """Find the files of a causal language model and check them; weights are not loaded.

    Raises:
        LanguageModelError: a file is missing, damaged or not allowed.
    """
    config = _config(folder)
    weights = _weight_files(folder)
    for path in weights:
        _check_complete(path)
    named = (CONFIG, INDEX, "generation_config.json", *VOCABULARIES, *_TOKENIZER_SETTINGS)
    others = tuple(folder / name for name in named if (folder / name).is_file())
    if not any(path.name in VOCABULARIES for path in others):
        raise LanguageModelError(
            f"{folder} has no tokenizer: expected one of the files {', '.join(VOCABULARIES)}",
            hint="copy the tokenizer files of the model into this folder",
        )
    return ModelFolder(folder, config, weights, others)


def base_model_digest(folder: Path) -> str:
    """Return the digest of a model's files; all parties compare this digest before training.

    Raises:
        LanguageModelError: a file is missing, damaged or not allowed.
    """
    return examine_model_folder(folder).digest()


def _read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of bounded size."""
    if path.stat().st_size > _LARGEST_JSON:
        raise LanguageModelError(
            f"{path} is too large: a JSON file of a model may have at most "
            f"{_LARGEST_JSON >> 20} MiB"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LanguageModelError(f"{path} is not JSON: {error}", hint=_COPY_AGAIN) from error
    if not isinstance(found, dict):
        raise LanguageModelError(
            f"{path} is not a JSON object: expected keys and values between braces",
            hint=_COPY_AGAIN,
        )
    return found


def _config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise LanguageModelError(
            f"there is no folder {folder}",
            hint="give the path of a folder on this machine; models are never downloaded",
        )
    if not (folder / CONFIG).is_file():
        adapter = (folder / ADAPTER).is_file()
        raise LanguageModelError(
            f"{folder} has no file {CONFIG}" + (", only an adapter" if adapter else ""),
            hint="name the base model's folder" if adapter else f"name the folder with {CONFIG}",
        )
    if (folder / ADAPTER).exists():
        # transformers would add the adapter without a message, and the base would be another model.
        raise LanguageModelError(
            f"{folder} contains a model and also an adapter; the folder of a base model must not "
            "contain an adapter",
            hint=f"move {ADAPTER} and its weights into another folder",
        )
    config = _read_json(folder / CONFIG)
    _check_kind(folder, config)
    return config


def _check_kind(folder: Path, config: dict[str, Any]) -> None:
    """Refuse every model that is not a causal language model of transformers itself."""
    kind = str(config.get("model_type"))
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise LanguageModelError(
            f"{folder / CONFIG}: model_type {kind} is not a causal language model of the library "
            "transformers; other types are not supported, and code in a model folder is never run",
            hint="use a model with a type such as llama, qwen2, mistral or gpt2",
        )
    legal: set[str] = set()
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        legal |= {names} if isinstance(names, str) else set(names)
    given = config.get("architectures") or []
    if not isinstance(given, list) or (given and not legal.intersection(map(str, given))):
        raise LanguageModelError(
            f"{folder / CONFIG}: architectures = {given!r} names no causal language model",
            hint=f"for model_type {kind} use {MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]}",
        )
    for key, value in _settings(config):
        if key.endswith("_implementation") and isinstance(value, str) and "/" in value:
            raise LanguageModelError(
                f"{folder / CONFIG}: {key} names a kernel in an online repository; vfl "
                "neither downloads nor runs such code",
                hint=f"remove {key}; transformers then uses torch's attention",
            )


def _settings(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every key and value; values nested in an ``_implementation`` keep that key."""
    for key, value in config.items():
        if not isinstance(value, dict):
            yield key, value
        elif key.endswith("_implementation"):
            yield from ((key, each) for _, each in _settings(value))
        else:
            yield from _settings(value)


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the weight files that would be loaded."""
    if (folder / WEIGHTS).is_file():
        return (folder / WEIGHTS,)
    if not (folder / INDEX).is_file():
        pickled = sorted(each.name for each in folder.glob("*.bin"))
        found = (
            f"found only {pickled[0]}, a pickle file, which could run code"
            if pickled
            else "found no weights"
        )
        raise LanguageModelError(
            f"{folder} has no file {WEIGHTS}: {found}",
            hint=_AS_SAFETENSORS if pickled else "copy the weights into this folder",
        )
    shards = _read_json(folder / INDEX).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise LanguageModelError(
            f"{folder / INDEX} lists no weight files; expected them under the key 'weight_map'",
            hint=_COPY_AGAIN,
        )
    names = sorted({str(name) for name in shards.values()})
    for name in names:
        if name != Path(name).name or not name.endswith(".safetensors"):
            raise LanguageModelError(
                f"{folder / INDEX} names {name!r}, which is not a safetensors file in this folder",
                hint=_AS_SAFETENSORS,
            )
        if not (folder / name).is_file():
            raise LanguageModelError(
                f"{INDEX} lists the weight file {name}, but the folder {folder} does not "
                "contain it",
                hint=f"copy {name} into the folder",
            )
    return tuple(folder / name for name in names)


def _check_complete(path: Path) -> None:
    """Refuse a file whose length does not match its header."""
    try:
        with safe_open(path, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise LanguageModelError(
            f"{path} is truncated or damaged: {error}",
            hint="copy the file again and compare its size",
        ) from error


def _file_hash(path: Path) -> bytes:
    found = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.digest()
