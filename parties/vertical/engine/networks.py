"""The networks of a vertical model: bottom models, and the active party's top model."""

import copy
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import cast
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from configs.agreement import (
    BackboneBottom,
    CnnBottom,
    MlpBottom,
    MlpTop,
    ModuleBottom,
    ModuleTop,
    PartyEntry,
    SumTop,
    VerticalAgreement,
)
from configs.errors import ConfigError
from models.bottoms import cnn, mlp
from models.initialisation import build_seeded
from models.targets import Target, build_target
from models.tops import ConcatHead, OwnHead, SumHead
from parties.common.device import device_of, embed
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import torch_seed
from parties.session.party import BaseVersion
from parties.vertical.engine.features import DTYPES, ModelInputs
from parties.vertical.engine.party import VerticalParty
from unlearning.sharding import mean_shard_logits


class ActiveNetwork(nn.Module):
    """The top model and the active party's own bottom model, as one module.

    One optimiser trains both models. A kept copy of the module contains the parameters of both.

    Attributes:
        bottom: the bottom model; None if the active party has no features.
        top: the top model.
        target: what the model predicts: unit, loss, and written prediction of its outputs.
        mean_weight: with agreed weights of the rows, their mean over the training rows, ``[1]``;
            else None.
    """

    mean_weight: Tensor | None

    def __init__(
        self,
        agreement: VerticalAgreement,
        bottom: nn.Module | None,
        own_top: "OwnModule | None" = None,
    ) -> None:
        """Use the ``bottom`` model, and build the top model, from ``own_top`` if that is agreed."""
        super().__init__()
        self.bottom = bottom
        self.top = _build_top(agreement, own_top)
        weighted = len(agreement.labels.classes) if agreement.training.class_weights else None
        self.target = build_target(agreement.labels.task, agreement.labels.loss, weighted)
        mean = torch.ones(1) if agreement.training.sample_weights else None
        self.register_buffer("mean_weight", mean)

    def embed(self, features: Tensor) -> Tensor:
        """The active party's own embeddings, [batch, width], of ``features``, [batch, ...].

        Raises:
            LookupError: the party has no features.
        """
        if self.bottom is None:
            raise LookupError("the active party has no bottom model")
        return embed(self.bottom, features)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Outputs, [batch, outputs], from all parties' embeddings in the order of the agreement.

        Each party's embeddings are [batch, width]. The outputs are the logits of classes or labels,
        or a number in its unit.
        """
        device = device_of(self.top)
        outputs: Tensor = self.target(self.top([each.to(device) for each in embeddings]))
        return outputs.cpu()


def _build_top(
    agreement: VerticalAgreement, own: "OwnModule | None"
) -> ConcatHead | SumHead | OwnHead:
    """The agreed top model; ``own`` builds it if the active party has a network of its own."""
    outputs = agreement.labels.outputs
    widths = [party.width or 0 for party in agreement.feature_parties.values()]
    match agreement.top:
        case MlpTop(hidden=hidden):
            return ConcatHead(widths, hidden, outputs)
        case SumTop():
            return SumHead(outputs)
        case ModuleTop(source=source):
            name = "the top model"
            return OwnHead(widths, _own(name, own, source, (sum(widths),), outputs))


FIRST_TOP_LAYER = "top.perceptron.0.weight"  # [hidden, sum of the widths], in ActiveNetwork


@dataclass(frozen=True, slots=True)
class KeptPart(BaseVersion):
    """One party's part of the version from which a training goes on."""

    # Why the training uses no parameter of the version; empty: it does, if the rows allow it.
    anew: str
    digest: str  # SHA-256 of its parameters, 64 hexadecimal digits; empty if it has none
    ids: frozenset[bytes]  # own IDs of the common rows that the version knows
    trained: frozenset[bytes]  # those of its training rows
    widths: dict[str, int]  # widths of the embeddings, in the order of the top model
    statistics: object  # of the preprocessing, as JSON; None without features
    parameters: Tensors  # of the party's network, by name

    def used(self, common: Collection[bytes]) -> bool:
        """Return whether the training starts from the parameters of the version.

        It does not if rows of the version are not among the ``common`` rows any more, given by
        their own IDs: the parameters depend on them, but nobody could forget them later.
        """
        return not self.anew and self.ids <= set(common)

    def fitted_to(self, widths: Mapping[str, int]) -> Tensors:
        """The parameters for a network whose top model reads embeddings of these ``widths``.

        The columns of a new party are zero, so that the model's outputs do not change before the
        first step. The order of ``widths`` is that of the top model.

        Returns:
            The parameters by name, each [...] as in the network.
        """
        found = dict(self.parameters)
        kept = found.get(FIRST_TOP_LAYER)
        if kept is None:
            return found
        parts = dict(zip(self.widths, torch.split(kept, [*self.widths.values()], 1), strict=True))
        rows = kept.shape[0]
        columns = [parts.get(each, kept.new_zeros(rows, width)) for each, width in widths.items()]
        found[FIRST_TOP_LAYER] = torch.cat(columns, dim=1)
        return found


class ActiveEnsemble(nn.ModuleList):
    """The active party's networks, one for each shard; the outputs of the networks are averaged."""

    @property
    def target(self) -> Target:
        """What every network predicts."""
        return cast(ActiveNetwork, self[0]).target

    def embed(self, features: Tensor) -> Tensor:
        """Embeddings of all networks, [batch, networks * width], of ``features``, [batch, ...]."""
        return torch.cat([cast(ActiveNetwork, each).embed(features) for each in self], dim=1)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return the mean of the networks' logits, [batch, classes].

        ``embeddings`` has one tensor per party, [batch, networks * width].
        """
        parts = zip(*(each.chunk(len(self), dim=1) for each in embeddings), strict=True)
        return mean_shard_logits([each(part) for each, part in zip(self, parts, strict=True)])


def build_active_network(
    party: VerticalParty, stream: str, inputs: ModelInputs | None
) -> ActiveNetwork:
    """A fresh network for the active party, with weights from the random stream ``stream``."""
    name, agreement = party.name, party.agreement

    def build() -> ActiveNetwork:
        shape = None if inputs is None else tuple(inputs.values.shape[1:])
        own = OwnModule(name, party.settings.module)
        bottom = None if shape is None else build_bottom(agreement.parties[name], own, shape)
        return ActiveNetwork(agreement, bottom, OwnModule(name, party.settings.top_module))

    seed = torch_seed(agreement.seed, "weights", stream, name)
    return build_seeded(seed, build).to(
        torch.device(party.settings.device), DTYPES[agreement.dtype]
    )


@dataclass(frozen=True, slots=True)
class OwnModule:
    """Where a party finds its own bottom or top model, if the agreed kind is ``module``."""

    party: str  # name of the party, for errors
    # Import path, "package.module:Class"; None: the party was given an object in this process.
    path: str | None


def build_bottom(plan: PartyEntry, module: OwnModule | None, shape: tuple[int, ...]) -> nn.Module:
    """A bottom model that maps features of ``shape`` to embeddings of the party's agreed width.

    Args:
        plan: the party's entry in the agreement.
        module: the party's own module; None if the agreed kind of bottom model is another one.
        shape: shape of one row's features.

    Raises:
        ConfigError: the kind of bottom model does not fit the features, or the module cannot be
            imported, differs from the agreed module, or has no embeddings of the agreed width.
        LookupError: ``module`` is None, but the agreed kind is ``module``.
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
            owner = "" if module is None else module.party
            return _own(f"the bottom model of {owner}", module, source, shape, width)


def _image(kind: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ConfigError(
            f"a bottom model of kind '{kind}' needs images, but the features are not images",
            "use kind 'mlp' for tables",
        )
    return shape[0], shape[1], shape[2]


def _backbone(kind: str, shape: tuple[int, int, int], width: int) -> nn.Module:
    from models.backbones import BACKBONES  # noqa: PLC0415  large

    try:
        return BACKBONES[kind](shape, width)
    except ValueError as error:
        raise ConfigError(
            str(error), "give the party a larger part of the image, or agree on a ResNet"
        ) from error


def _own(
    name: str, module: OwnModule | None, source: str, shape: tuple[int, ...], width: int
) -> nn.Module:
    """Build a party's own network, and check it with two rows of zeros; ``name`` is for errors."""
    if module is None:
        raise LookupError(f"{name} has kind 'module', but no module is given")
    given = _GIVEN.get(source) if module.path is None else None
    if given is None:
        with torch.random.fork_rng(devices=[]):  # an import may draw numbers, at its first time
            kind = load_own_module(module.path, source)
        try:
            built: nn.Module = kind(shape, width)
        except Exception as error:  # of any code
            raise ConfigError(
                f"{name}: {module.path} failed with the arguments {shape} and {width}: {error}",
                "its arguments are the shape of a row and the width of the output",
            ) from error
    else:
        built = copy.deepcopy(given)
    refuse_unsuitable_layers(name, built)
    dtype = next((each.dtype for each in built.parameters()), torch.float32)
    expected = f"rows of shape {list(shape)} into rows of width {width}"
    try:
        with torch.no_grad():
            found = built(torch.zeros(2, *shape, dtype=dtype))
    except Exception as error:  # of any code
        raise ConfigError(
            f"{name} failed on two rows of zeros; it must turn {expected}: {error}", _SHAPES
        ) from error
    if not isinstance(found, Tensor) or found.shape != (2, width):
        is_tensor = isinstance(found, Tensor)
        got = f"a tensor of shape {list(found.shape)}" if is_tensor else type(found).__name__
        raise ConfigError(
            f"{name} must turn {expected}, but its output for two rows is {got}", _SHAPES
        )
    return built.requires_grad_(requires_grad=True)


_SHAPES = (
    "a categorical column is several inputs; the width of a bottom model is that of its party in "
    "the agreement, and a top model turns all embeddings of a row into its outputs"
)


def refuse_unsuitable_layers(name: str, module: nn.Module) -> None:
    """Refuse an own network that no seed controls, that may store rows, or that learns nothing.

    ``name`` is the name of the network in the error.

    Raises:
        ConfigError: the network has no parameters, or a layer has buffers, dropout, parameters
            without a shape, or a state that is no tensor.
    """
    for part in module.modules():
        if any(True for _ in part.buffers(recurse=False)) or isinstance(part, _DropoutNd):
            raise ConfigError(
                f"{name} contains the layer {type(part).__name__}; the output of this layer is "
                "random, or the layer has buffers, which could store statistics of rows",
                "replace BatchNorm by GroupNorm or LayerNorm, and remove buffers and dropout",
            )
    if lazy := [key for key, each in module.named_parameters() if is_lazy(each)]:
        raise ConfigError(
            f"{name} has the parameter {lazy[0]!r} without a shape",
            "apply the network to a row first, or use a layer with a stated number of inputs",
        )
    others = [key for key, each in module.state_dict().items() if not isinstance(each, Tensor)]
    if others:
        raise ConfigError(
            f"the state of {name} has the entry {others[0]!r}, which is no tensor",
            "remove get_extra_state from the network",
        )
    if not any(True for _ in module.parameters()):
        raise ConfigError(f"{name} has no parameters", "add a layer with parameters")


# Own networks that were given to this process as objects, by digest. Who gave one keeps it alive.
_GIVEN: WeakValueDictionary[str, nn.Module] = WeakValueDictionary()


def give_module(name: str, module: nn.Module) -> tuple[str, nn.Module]:
    """Let the parties of this process build copies of an own network, with its present weights.

    Args:
        name: name of the network in errors.
        module: the network; a copy of it is given.

    Returns:
        The digest of the network for the agreement, and the copy. Parties can build the network as
        long as the copy exists.

    Raises:
        ConfigError: the network cannot be copied or trained.
    """
    refuse_unsuitable_layers(name, module)
    try:
        given = copy.deepcopy(module).cpu()
    except Exception as error:  # of any code
        raise ConfigError(f"{name} cannot be copied: {error}", "remove what it stores") from error
    content, digest, number = _object_digest(given), "", 0
    while not digest or digest in _GIVEN:  # each object has an entry of its own
        digest = f"sha256:{sha256(content + number.to_bytes(8)).hexdigest()}"
        number += 1
    _GIVEN[digest] = given
    return digest, given


def _object_digest(module: nn.Module) -> bytes:
    """The digest of a network's layers, plain attributes, code and weights, 32 bytes."""
    found = sha256(repr(module).encode())
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    own = [kind for kind in kinds if not kind.__module__.startswith(("torch.", "builtins"))]
    for kind in sorted(own, key=lambda kind: (kind.__module__, kind.__qualname__)):
        for name, each in sorted(vars(kind).items()):
            if isinstance(each, FunctionType):
                found.update(name.encode() + _code(each.__code__))
    for place, part in module.named_modules():
        for name, value in sorted(vars(part).items()):
            if not name.startswith("_"):
                found.update(f"{place} {name} {_attribute(value)}".encode())
    for name, tensor in module.state_dict().items():
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.digest()


def _attribute(value: object) -> str:
    """An attribute of a layer as text that does not depend on the process."""
    if isinstance(value, bool | int | float | str | tuple | list | None):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def _code(code: CodeType) -> bytes:
    """The instructions, names and constants of a function, without the place of its source."""
    constants = [
        _code(each) if isinstance(each, CodeType) else repr(each).encode()
        for each in code.co_consts
    ]
    return b" ".join((code.co_code, repr(code.co_names).encode(), *constants))


def load_own_module(path: str | None, source: str) -> type[nn.Module]:
    """The class of the party's own module, whose source file must have the agreed digest.

    Raises:
        ConfigError: the module cannot be imported, is not an ``nn.Module``, or its source file
            differs from the agreed file.
    """
    if path is None:
        raise ConfigError(
            "an agreed bottom or top model has kind 'module', but the party settings lack the key "
            "'module' or 'top_module', and this process has no object with the agreed digest",
            'add to the party settings: module = "package.module:Class"',
        )
    name, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"cannot import {path}: {error}",
            "install the package, or add its folder to PYTHONPATH",
        ) from error
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise ConfigError(f"{path} is not a subclass of torch.nn.Module")
    digest = module_source_digest(found)
    if digest != source:
        raise ConfigError(
            f"the source file of {path} has digest {digest}, but the agreement has digest {source}",
            "install the agreed version of the module, or agree on the new digest",
        )
    return found


def module_source_digest(module: type[nn.Module]) -> str:
    """The digest of the source file of a module, in the format of the agreement."""
    return "sha256:" + sha256(Path(inspect.getfile(module)).read_bytes()).hexdigest()
