"""Personalised models: which parameters are personal, and how personal models are trained.

For Mimir, the notation is that of ``models.prompts``. For Per-FedAvg, α is the learning rate of the
inner gradient step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from configs.horizontal import FedPer, Gpfl, HorizontalAgreement, MimirPrompts, PerFedAvg


@dataclass(frozen=True, slots=True)
class Personalisation:
    """How a client's model differs from the other clients' models."""

    # Prefixes of the names of the personal parameters, which never leave the client.
    prefixes: tuple[str, ...] = ()
    # Prefixes of the names of those parameters that are trained after all others. These parameters
    # are frozen while the other parameters are trained; then one further pass trains only these
    # parameters (Mimir, paper 003, Alg 1, lines 14 and 15).
    last: tuple[str, ...] = ()
    # λ of the penalty λ ‖θ‖², which the further pass adds to the loss; θ are the parameters that
    # the further pass trains.
    decay: float = 0.0
    # Standard deviation of the normal distribution from which each client samples its initial
    # personal parameters; None: the first model that the server sends contains the initial personal
    # parameters.
    spread: float | None = None
    # α of first-order Per-FedAvg: after an inner step on the first half of a batch, the gradient is
    # computed on the second half; None: no inner step.
    inner: float | None = None


SHARED = Personalisation()  # one model for all clients


def personalisation_of(agreement: HorizontalAgreement, network: nn.Module) -> Personalisation:
    """Return the personalisation that the agreement sets for the network."""
    match agreement.personal:
        case FedPer():
            return Personalisation(prefixes=(last_linear_name(network),))
        case PerFedAvg(inner=inner):
            return Personalisation(inner=inner)
        case MimirPrompts(decay=decay, spread=spread):
            last = ("generator.", "base")
            return Personalisation(prefixes=("descriptor",), last=last, decay=decay, spread=spread)
        case Gpfl():
            return Personalisation(prefixes=("head.",))
        case _:
            return SHARED


def has_personal_parameters(agreement: HorizontalAgreement) -> bool:
    """Return whether the agreement gives clients personal parameters."""
    return isinstance(agreement.personal, FedPer | MimirPrompts | Gpfl)


def select_parameters(network: nn.Module, prefixes: tuple[str, ...]) -> Iterator[nn.Parameter]:
    """Yield the parameters whose names begin with one of the prefixes."""
    for name, each in network.named_parameters():
        if name.startswith(prefixes):
            yield each


def parameter_mask(network: nn.Module, prefixes: tuple[str, ...]) -> Tensor:
    """Return a mask, ``[d]``: true for parameters whose names begin with one of the prefixes."""
    parts = [
        torch.full((each.numel(),), bool(prefixes) and name.startswith(prefixes))
        for name, each in network.named_parameters()
    ]
    return torch.cat(parts)


def pack_personal(network: nn.Module, plan: Personalisation, vector: Tensor) -> Tensor:
    """Return only the personal parameters, ``[personal]``, of a parameter vector, ``[d]``."""
    return vector[parameter_mask(network, plan.prefixes)]


def unpack_personal(network: nn.Module, plan: Personalisation, packed: Tensor) -> Tensor:
    """Return a vector, ``[d]``, with the personal parameters in place and 0 elsewhere.

    ``packed`` are the personal parameters, ``[personal]``.
    """
    place = parameter_mask(network, plan.prefixes)
    found = packed.new_zeros(len(place))
    found[place] = packed
    return found


def initial_personal(network: nn.Module, plan: Personalisation, seed: int) -> Tensor | None:
    """Return a client's random initial personal parameters.

    Returns:
        A vector, ``[d]``, with the personal parameters at their positions and 0 elsewhere; None if
        the first model that the server sends contains the initial personal parameters.
    """
    if plan.spread is None:
        return None
    place = parameter_mask(network, plan.prefixes)
    random = torch.Generator().manual_seed(seed)
    return place * plan.spread * torch.randn(len(place), generator=random)


def last_linear_name(network: nn.Module) -> str:
    """Return the name of a classifier's last linear layer (its head), followed by a dot."""
    names = [name for name, each in network.named_modules() if isinstance(each, nn.Linear)]
    return f"{names[-1]}."
