"""A party's own bottom model: built from the agreement, or the party's own module."""

import inspect
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from configs.agreement import BackboneBottom, CnnBottom, MlpBottom, ModuleBottom, Party
from configs.errors import ConfigError
from models.bottoms import cnn, mlp


def build_bottom(plan: Party, module: str | None, shape: tuple[int, ...]) -> nn.Module:
    """The network from features of ``shape`` to this party's embeddings.

    Raises:
        ConfigError: the module cannot be had, or is not the one that was agreed on.
    """
    width = plan.width or 0
    match plan.bottom:
        case MlpBottom(hidden=hidden):
            size = 1
            for side in shape:
                size *= side
            return nn.Sequential(nn.Flatten(), mlp(size, hidden, width))
        case CnnBottom(channels=channels):
            return cnn(_image("cnn", shape), channels, width)
        case BackboneBottom(kind=kind):
            return _backbone(kind, _image(kind, shape), width)
        case ModuleBottom(source=source):
            return _own(module, source, shape, width)


def _image(kind: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ConfigError(f"bottom kind '{kind}' needs images", "use kind 'mlp' for tables")
    return shape[0], shape[1], shape[2]


def _backbone(kind: str, shape: tuple[int, int, int], width: int) -> nn.Module:
    from models.backbones import BACKBONES  # noqa: PLC0415  large

    try:
        return BACKBONES[kind](shape, width)
    except ValueError as error:
        raise ConfigError(
            str(error), "give the party a larger part, or agree on a ResNet"
        ) from error


def _own(path: str | None, source: str, shape: tuple[int, ...], width: int) -> nn.Module:
    found = own_class(path, source)
    built: nn.Module = found(shape, width)
    for part in built.modules():
        if any(True for _ in part.buffers(recurse=False)) or isinstance(part, _DropoutNd):
            raise ConfigError(
                f"{path} has a {type(part).__name__}, which would remember rows or draw by chance",
                "GroupNorm or LayerNorm in place of BatchNorm; no buffers, no dropout",
            )
    return built


def own_class(path: str | None, source: str) -> type[nn.Module]:
    """The party's own module, when its source is the one that was agreed on.

    Raises:
        ConfigError: the module cannot be had, or is another one.
    """
    if path is None:
        raise ConfigError(
            "the agreement says bottom kind 'module'", "name it in the seat: module ="
        )
    name, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"cannot import {path}: {error}", "install it, or name its folder in PYTHONPATH"
        ) from error
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise ConfigError(f"{path} is no nn.Module")
    digest = source_digest(found)
    if digest != source:
        raise ConfigError(f"the source of {path} has digest {digest}; agreed is {source}")
    return found


def source_digest(module: type[nn.Module]) -> str:
    """The digest of the file that defines a module, as the agreement bears it."""
    return "sha256:" + sha256(Path(inspect.getfile(module)).read_bytes()).hexdigest()
