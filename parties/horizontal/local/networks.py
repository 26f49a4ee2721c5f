"""The agreed network, whole, with weights that the seed alone gives."""

from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from configs.errors import ConfigError
from configs.horizontal import Gpfl, Horizontal, MimirPrompts, WholeMlp
from models.gpfl import GpflNetwork
from models.prompts import Prompted, PromptGenerator
from models.seeded import seeded
from models.whole import lenet5, two_convolutions, whole_mlp
from parties.common.shared_randomness import torch_seed


def build(agreement: Horizontal, stream: str) -> nn.Module:
    """The network with the weights that ``stream`` names.

    Raises:
        ConfigError: rows of the agreed shape do not fit into it.
    """
    seed = torch_seed(agreement.seed, "weights", stream)
    try:
        return seeded(seed, lambda: _built(agreement))
    except ValueError as error:
        plan = agreement.model
        raise ConfigError(f"model kind '{plan.kind}': {error}", "choose another model") from error


def fresh(agreement: Horizontal, stream: str) -> Tensor:
    """Its parameters as one vector, ``[d]``."""
    return parameters_to_vector(build(agreement, stream).parameters()).detach()


def _built(agreement: Horizontal) -> nn.Module:
    whole = _whole(agreement)
    match agreement.personal:
        case MimirPrompts(keys=keys, values=values):
            backbone, head = cut_head(whole)
            return Prompted(backbone, head, PromptGenerator(keys, values))
        case Gpfl(weight=weight):
            return GpflNetwork(*cut_head(whole), weight)
        case _:
            return whole


def cut_head(network: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """A network without its last layer, and that layer.

    Raises:
        ValueError: it does not end in a linear layer.
    """
    names = [name for name, each in network.named_modules() if isinstance(each, nn.Linear)]
    path, _, last = names[-1].rpartition(".")
    head = network.get_submodule(names[-1])
    setattr(network.get_submodule(path), last, nn.Identity())
    if not isinstance(head, nn.Linear):
        raise ValueError("needs a network that ends in a linear layer")
    return network, head


def _whole(agreement: Horizontal) -> nn.Module:
    plan, shape, classes = agreement.model, agreement.shape, len(agreement.labels.classes)
    if isinstance(plan, WholeMlp):
        return whole_mlp(shape, plan.hidden, classes)
    if plan.kind == "lenet5":
        return lenet5(shape, classes)
    if plan.kind == "cnn":
        return two_convolutions(shape, classes)
    from models.backbones import BACKBONES  # noqa: PLC0415  large

    if len(shape) != 3:
        raise ValueError("needs images")
    return BACKBONES[plan.kind]((shape[0], shape[1], shape[2]), classes)
