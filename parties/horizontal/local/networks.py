"""Build the agreed network; the agreement's seed determines the network's initial weights."""

from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from configs.errors import ConfigError
from configs.horizontal import Gpfl, HorizontalAgreement, MimirPrompts, WholeMlp
from models.full_networks import full_mlp, lenet5, mimir_cnn, two_convolution_cnn
from models.gpfl import GpflNetwork
from models.initialisation import build_seeded
from models.prompts import PromptedNetwork, PromptGenerator
from parties.common.shared_randomness import torch_seed

_CONVOLUTIONAL = {"lenet5": lenet5, "cnn": two_convolution_cnn, "mimir-cnn": mimir_cnn}


def build_whole_network(agreement: HorizontalAgreement, stream: str) -> nn.Module:
    """Build the network; its initial weights are sampled with the random stream ``stream``.

    Raises:
        ConfigError: the network cannot take rows of the agreed shape.
    """
    seed = torch_seed(agreement.seed, "weights", stream)
    try:
        return build_seeded(seed, lambda: _personalised(agreement))
    except ValueError as error:
        plan = agreement.model
        raise ConfigError(
            f"model.kind = '{plan.kind}': {error}", "choose another model.kind"
        ) from error


def initial_parameters(agreement: HorizontalAgreement, stream: str) -> Tensor:
    """Return the initial parameters as a vector, ``[d]``; ``stream`` names the random stream."""
    return parameters_to_vector(build_whole_network(agreement, stream).parameters()).detach()


def _personalised(agreement: HorizontalAgreement) -> nn.Module:
    whole = _whole(agreement)
    match agreement.personal:
        case MimirPrompts(keys=keys, values=values):
            backbone, head = cut_head(whole)
            return PromptedNetwork(backbone, head, PromptGenerator(keys, values))
        case Gpfl(weight=weight):
            return GpflNetwork(*cut_head(whole), weight)
        case _:
            return whole


def cut_head(network: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """Return two modules: the network without the last layer, and the last layer.

    Raises:
        ValueError: the network does not end in a linear layer.
    """
    names = [name for name, each in network.named_modules() if isinstance(each, nn.Linear)]
    path, _, last = names[-1].rpartition(".")
    head = network.get_submodule(names[-1])
    setattr(network.get_submodule(path), last, nn.Identity())
    if not isinstance(head, nn.Linear):
        raise ValueError("the network cannot be personalised: its last layer is not linear")
    return network, head


def _whole(agreement: HorizontalAgreement) -> nn.Module:
    plan, shape, classes = agreement.model, agreement.shape, len(agreement.labels.classes)
    if isinstance(plan, WholeMlp):
        return full_mlp(shape, plan.hidden, classes)
    if plan.kind in _CONVOLUTIONAL:
        return _CONVOLUTIONAL[plan.kind](shape, classes)
    from models.backbones import BACKBONES  # noqa: PLC0415  large

    if len(shape) != 3:
        raise ValueError(
            f"the network needs rows of shape [channels, height, width]; the agreement has shape = "
            f"{list(shape)}"
        )
    return BACKBONES[plan.kind]((shape[0], shape[1], shape[2]), classes)
