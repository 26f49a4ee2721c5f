"""What a party kept of a run, read back: nothing is used whose digest is not that of the manifest.

The digests guard against damage and mix-ups. Who may write into the folder may write them too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from configs.agreement import Agreement
from configs.errors import ConfigError
from configs.schema import differences
from models.arithmetic import all_finite
from models.bottoms import SideBySide
from parties.common.errors import DataError, IntegrityError, StorageError
from parties.data.preprocess import Fitted, read_statistics
from parties.vertical.engine.active_network import ActiveNetwork, Voters
from parties.vertical.engine.bottom import build_bottom
from parties.vertical.engine.features import DTYPES
from parties.vertical.saved_model import MANIFEST, MODEL, PREPROCESSING

RUN = 16  # bytes of a run's name
_RESTORE = "bring the folder back from a copy, or train again"
_LONGEST_MANIFEST = 1 << 20  # bytes


class Built(Protocol):
    """An agreement of any mode, from which networks are built."""

    @property
    def architecture(self) -> dict[str, Any]:
        """What a trained model must have in common with those who use it, as JSON."""


@dataclass(frozen=True, slots=True, repr=False)
class Saved:
    """One party's half as it lies on disk.

    Attributes:
        folder: where it lies.
        run: the training run, the same at all halves of one model.
        parameters: of the network, by name; empty where it has none.
        fitted: how features were prepared; None where the party has none.
    """

    folder: Path
    run: bytes
    parameters: dict[str, Tensor]
    fitted: Fitted | None


def read_saved(folder: Path, name: str, agreement: Built) -> Saved:
    """Read what ``name`` kept in ``folder``, every file checked before anything is used.

    Raises:
        StorageError: there is nothing.
        IntegrityError: a file is absent, damaged, another party's or of another kind.
        ConfigError: the model was trained for another agreement.
    """
    manifest = _manifest(folder)
    if manifest.get("party") != name:
        raise IntegrityError(f"{folder} holds the half of another party than {name}", _RESTORE)
    _refuse_other_agreement(folder, manifest, agreement)
    files = {file: _checked(folder, file, kept) for file, kept in _digests(folder, manifest)}
    return Saved(
        folder=folder,
        run=_run(folder, manifest),
        parameters=_parameters(folder, files[MODEL]) if MODEL in files else {},
        fitted=_fitted(folder, files[PREPROCESSING]) if PREPROCESSING in files else None,
    )


def network(saved: Saved, name: str, agreement: Agreement, module: str | None) -> nn.Module:
    """The network of the half, with the parameters that were kept; it is not trained any more.

    Raises:
        IntegrityError: the parameters are not those of such a network, or not finite.
        ConfigError: see ``build_bottom``.
    """
    plan, shape = agreement.parties[name], None if saved.fitted is None else saved.fitted.shape
    shards = agreement.sharding.shards
    if (shape is None) is not (plan.width is None):
        raise IntegrityError(f"{saved.folder} lacks {PREPROCESSING}, or has one too many", _RESTORE)

    def half() -> nn.Module:
        bottom = None if shape is None else build_bottom(plan, module, shape)
        built = bottom if plan.role == "passive" else ActiveNetwork(agreement, bottom)
        if built is None:
            raise LookupError("a passive party always has a bottom model")
        return built

    voting = SideBySide if plan.role == "passive" else Voters
    built = half() if shards == 1 else voting(half() for _ in range(shards))
    return loaded(saved, built.to(DTYPES[agreement.dtype]))


def loaded(saved: Saved, built: nn.Module) -> nn.Module:
    """A network with the parameters that were kept; it is not trained any more.

    Raises:
        IntegrityError: the parameters are not those of such a network, or not finite.
    """
    _refuse_other_parameters(saved, built)
    built.load_state_dict(saved.parameters)
    return built.eval().requires_grad_(requires_grad=False)


def _manifest(folder: Path) -> Mapping[str, Any]:
    path = folder / MANIFEST
    try:
        content = path.read_bytes()[: _LONGEST_MANIFEST + 1]
    except FileNotFoundError:
        raise StorageError(
            f"no trained model in {folder}", "train first, or name the folder of runs with --runs"
        ) from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path} is no JSON", _RESTORE) from error
    if not isinstance(manifest, dict):
        raise IntegrityError(f"{path} is no JSON object", _RESTORE)
    return manifest


def _refuse_other_agreement(folder: Path, manifest: Mapping[str, Any], agreement: Built) -> None:
    """Classes, parties and layers must be those of the training; rates and limits need not."""
    ours = json.dumps(agreement.architecture)
    found = differences(ours, json.dumps(manifest.get("architecture") or {}))
    if found:
        fields = ", ".join(field for field, *_ in found[:10])
        raise ConfigError(
            f"the model in {folder} was trained for another agreement: {fields}",
            "predict with the file that it was trained with",
        )


def _run(folder: Path, manifest: Mapping[str, Any]) -> bytes:
    try:
        run = bytes.fromhex(manifest["run"])
    except (KeyError, TypeError, ValueError):
        run = b""
    if len(run) != RUN:
        raise IntegrityError(f"{folder / MANIFEST} names no run", _RESTORE)
    return run


def _digests(folder: Path, manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a file's name and the digest that it must have."""
    kept = manifest.get("sha256")
    legal = isinstance(kept, dict) and all(
        isinstance(digest, str) and file == Path(file).name for file, digest in kept.items()
    )
    if not isinstance(kept, dict) or not legal:
        raise IntegrityError(f"{folder / MANIFEST} lists no files", _RESTORE)
    return sorted(kept.items())


def _checked(folder: Path, file: str, kept: str) -> bytes:
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise IntegrityError(f"cannot read {folder / file}: {error.strerror}", _RESTORE) from error
    if not compare_digest(sha256(content).hexdigest().encode(), kept.encode()):
        raise IntegrityError(f"{folder / file} is not what the run wrote", _RESTORE)
    return content


def _parameters(folder: Path, content: bytes) -> dict[str, Tensor]:
    try:
        parameters: dict[str, Tensor] = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"{folder / MODEL} is no safetensors file", _RESTORE) from error
    return parameters


def _fitted(folder: Path, content: bytes) -> Fitted:
    try:
        return read_statistics(json.loads(content))
    except (ValueError, RecursionError, DataError) as error:
        raise IntegrityError(f"{folder / PREPROCESSING} holds no statistics", _RESTORE) from error


def _refuse_other_parameters(saved: Saved, built: nn.Module) -> None:
    """Name, shape and type of every parameter; loading alone would cast types in silence."""
    wanted = {name: (each.shape, each.dtype) for name, each in built.state_dict().items()}
    found = {name: (each.shape, each.dtype) for name, each in saved.parameters.items()}
    if wanted != found:
        raise IntegrityError(f"{saved.folder / MODEL} holds another network", _RESTORE)
    if not all_finite(saved.parameters.values()):
        raise IntegrityError(f"{saved.folder / MODEL} holds numbers that are not finite", _RESTORE)
