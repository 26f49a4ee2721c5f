"""Saved model: reads the files of a finished run and checks their digests.

The digests in the manifest detect damaged and mixed-up files. The digests do not detect changes by
a user who may write into the folder, because that user can also change the manifest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from configs.config_file import agreement_differences
from configs.errors import ConfigError
from models.arithmetic import all_finite
from parties.common.atomic_file import sync_folder, write_atomically
from parties.common.errors import DataError, IntegrityError, StorageError
from parties.common.json_files import canonical_json
from parties.data.preprocess import FittedPreprocessing, read_statistics
from parties.session.party import PartyContext

MODEL, ROWS, PREPROCESSING, TRAFFIC, MANIFEST = (
    "model.safetensors",
    "rows.safetensors",
    "preprocessing.json",
    "traffic.json",
    "manifest.json",
)
FILES = (MANIFEST, MODEL, ROWS, PREPROCESSING, TRAFFIC)
RUN_BYTES = 16  # length of a run's name
RESTORE_HINT = "restore the folder from a backup, or train again"
_LONGEST_MANIFEST = 1 << 20  # bytes


class HasArchitecture(Protocol):
    """An agreement of any mode, from which networks are built."""

    @property
    def architecture(self) -> dict[str, Any]:
        """Return the keys that must be equal in training and prediction, as JSON."""


def write_saved_model(
    party: PartyContext,
    architecture: Mapping[str, Any],
    run: bytes,
    files: Mapping[str, bytes],
    **facts: Any,
) -> None:
    """Write the files of a saved model, then a manifest with their digests.

    Args:
        party: the party that saves the model.
        architecture: keys of the agreement that must be equal in training and prediction.
        run: 16 bytes that identify the run.
        files: contents by file name.
        facts: further entries of the manifest.

    Raises:
        StorageError: the files cannot be written.
    """
    for name, content in files.items():
        write_atomically(party.state / name, content)
    manifest = {
        "party": party.name,
        "run": run.hex(),
        "agreement": party.digest.hex(),
        "architecture": architecture,
        "torch": torch.__version__,
        "sha256": {name: sha256(content).hexdigest() for name, content in files.items()},
    }
    write_atomically(party.state / MANIFEST, canonical_json(manifest | facts))


def remove_saved_model(folder: Path) -> None:
    """Remove the files of a saved model, the manifest first.

    Raises:
        StorageError: a file cannot be removed.
    """
    try:
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        raise StorageError(f"cannot remove the model in {folder}: {error.strerror}") from error


@dataclass(frozen=True, slots=True, repr=False)
class SavedModel:
    """The saved local model of one party."""

    folder: Path  # folder of the files
    run: bytes  # the training run, 16 bytes; equal for all parties of the run
    # The network's parameters by name, ``[...]`` of any shape; empty without a network.
    parameters: dict[str, Tensor]
    # Preprocessing with the statistics of the training rows; None without features.
    fitted: FittedPreprocessing | None


def read_saved_model(folder: Path, name: str, agreement: HasArchitecture) -> SavedModel:
    """Read the saved model of party ``name``; all files are checked before any file is used.

    Raises:
        StorageError: the folder has no saved model.
        IntegrityError: a file is missing, is damaged, belongs to another party, or has another
            format.
        ConfigError: the model was trained for another agreement.
    """
    manifest = _manifest(folder)
    if manifest.get("party") != name:
        raise IntegrityError(
            f"{folder} contains the model of another party; expected the model of {name}",
            RESTORE_HINT,
        )
    _refuse_other_agreement(folder, manifest, agreement)
    files = {file: _verified(folder, file, digest) for file, digest in _digests(folder, manifest)}
    return SavedModel(
        folder=folder,
        run=_run(folder, manifest),
        parameters=_parameters(folder, files[MODEL]) if MODEL in files else {},
        fitted=_fitted(folder, files[PREPROCESSING]) if PREPROCESSING in files else None,
    )


def load_parameters(saved: SavedModel, network: nn.Module) -> nn.Module:
    """Load the saved parameters into ``network``, and return it ready for prediction.

    Raises:
        IntegrityError: the parameters do not fit the network, or are not finite.
    """
    _refuse_other_parameters(saved, network)
    network.load_state_dict(saved.parameters)
    return network.eval().requires_grad_(requires_grad=False)


def _manifest(folder: Path) -> Mapping[str, Any]:
    path = folder / MANIFEST
    try:
        content = path.read_bytes()[: _LONGEST_MANIFEST + 1]
    except FileNotFoundError:
        raise StorageError(
            f"no trained model in {folder}",
            "train first, or name the folder of the runs with --runs",
        ) from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path} is not JSON", RESTORE_HINT) from error
    if not isinstance(manifest, dict):
        raise IntegrityError(f"{path} is not a JSON object", RESTORE_HINT)
    return manifest


def _refuse_other_agreement(
    folder: Path, manifest: Mapping[str, Any], agreement: HasArchitecture
) -> None:
    """Check that classes, parties and layers are those of training; rates and limits may differ."""
    ours = json.dumps(agreement.architecture)
    differences = agreement_differences(ours, json.dumps(manifest.get("architecture") or {}))
    if differences:
        keys = ", ".join(key for key, *_ in differences[:10])
        raise ConfigError(
            f"the model in {folder} was trained for another agreement, which differs in: {keys}",
            "use the agreement of the training run",
        )


def _run(folder: Path, manifest: Mapping[str, Any]) -> bytes:
    try:
        run = bytes.fromhex(manifest["run"])
    except (KeyError, TypeError, ValueError):
        run = b""
    if len(run) != RUN_BYTES:
        raise IntegrityError(
            f"the run ID in {folder / MANIFEST} is missing or invalid", RESTORE_HINT
        )
    return run


def _digests(folder: Path, manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return pairs of a file's name and its digest."""
    digests = manifest.get("sha256")
    legal = isinstance(digests, dict) and all(
        isinstance(digest, str) and file == Path(file).name for file, digest in digests.items()
    )
    if not isinstance(digests, dict) or not legal:
        raise IntegrityError(
            f"the list of files in {folder / MANIFEST} is missing or invalid", RESTORE_HINT
        )
    return sorted(digests.items())


def _verified(folder: Path, file: str, digest: str) -> bytes:
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise IntegrityError(
            f"cannot read {folder / file}: {error.strerror}", RESTORE_HINT
        ) from error
    if not compare_digest(sha256(content).hexdigest().encode(), digest.encode()):
        raise IntegrityError(f"{folder / file} was changed after the run", RESTORE_HINT)
    return content


def _parameters(folder: Path, content: bytes) -> dict[str, Tensor]:
    try:
        parameters: dict[str, Tensor] = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"{folder / MODEL} is not a safetensors file", RESTORE_HINT) from error
    return parameters


def _fitted(folder: Path, content: bytes) -> FittedPreprocessing:
    try:
        return read_statistics(json.loads(content))
    except (ValueError, RecursionError, DataError) as error:
        raise IntegrityError(
            f"the preprocessing statistics in {folder / PREPROCESSING} are missing or invalid",
            RESTORE_HINT,
        ) from error


def _refuse_other_parameters(saved: SavedModel, network: nn.Module) -> None:
    """Compare names, shapes and types: ``load_state_dict`` alone would cast types silently."""
    expected = {name: (each.shape, each.dtype) for name, each in network.state_dict().items()}
    found = {name: (each.shape, each.dtype) for name, each in saved.parameters.items()}
    if expected != found:
        raise IntegrityError(
            f"{saved.folder / MODEL} does not fit the network that the agreement defines",
            RESTORE_HINT,
        )
    if not all_finite(saved.parameters.values()):
        raise IntegrityError(
            f"{saved.folder / MODEL} contains numbers that are not finite", RESTORE_HINT
        )
