"""Personalised models: which parameters are a client's personal parameters, and how they train.

Letters as in ``models.prompts`` for Mimir; α = the inner step of Per-FedAvg.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from configs.horizontal import FedPer, Gpfl, HorizontalAgreement, MimirPrompts, PerFedAvg


@dataclass(frozen=True, slots=True)
class Personalisation:
    """How a client's model differs from the other clients' models.

    Attributes:
        prefixes: prefixes of the names of the personal parameters, which never leave the client.
        last: prefixes of the names of parameters that are frozen while the others train, and that
            train alone in one further pass (Mimir, paper 003, Alg 1, lines 14 and 15).
        decay: λ of that pass: λ ‖·‖² is added to the loss.
        spread: each client draws its first personal parameters from a normal distribution with this
            standard deviation; None: the first model that the server sends has them.
        inner: α of Per-FedAvg (first order): after a step on one half of a batch, the other half
            gives the gradient; None: no such step.
    """

    prefixes: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    decay: float = 0.0
    spread: float | None = None
    inner: float | None = None


SHARED = Personalisation()  # one model for all clients


def personalisation_of(agreement: HorizontalAgreement, network: nn.Module) -> Personalisation:
    """Return the personalisation of an agreement for its network."""
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
    """Return whether clients have personal parameters under an agreement."""
    return isinstance(agreement.personal, FedPer | MimirPrompts | Gpfl)


def select_parameters(network: nn.Module, prefixes: tuple[str, ...]) -> Iterator[nn.Parameter]:
    """Yield the parameters whose names begin with one of the prefixes."""
    for name, each in network.named_parameters():
        if name.startswith(prefixes):
            yield each


def parameter_mask(network: nn.Module, prefixes: tuple[str, ...]) -> Tensor:
    """Return a mask over the parameter vector, ``[d]``: true for names with one of the prefixes."""
    parts = [
        torch.full((each.numel(),), bool(prefixes) and name.startswith(prefixes))
        for name, each in network.named_parameters()
    ]
    return torch.cat(parts)


def pack_personal(network: nn.Module, plan: Personalisation, vector: Tensor) -> Tensor:
    """Return the personal parameters, ``[personal]``, of a parameter vector ``[d]``."""
    return vector[parameter_mask(network, plan.prefixes)]


def unpack_personal(network: nn.Module, plan: Personalisation, packed: Tensor) -> Tensor:
    """Return a vector ``[d]`` with packed personal parameters, ``[personal]``, and 0 elsewhere."""
    place = parameter_mask(network, plan.prefixes)
    found = packed.new_zeros(len(place))
    found[place] = packed
    return found


def initial_personal(network: nn.Module, plan: Personalisation, seed: int) -> Tensor | None:
    """Return a client's random personal parameters before its first local task.

    Returns:
        A vector with the personal parameters at their positions, ``[d]``; None if the first model
        that the server sends has them.
    """
    if plan.spread is None:
        return None
    place = parameter_mask(network, plan.prefixes)
    random = torch.Generator().manual_seed(seed)
    return place * plan.spread * torch.randn(len(place), generator=random)


def last_linear_name(network: nn.Module) -> str:
    """Return the name of the last linear layer, a classifier's head, with a dot at its end."""
    names = [name for name, each in network.named_modules() if isinstance(each, nn.Linear)]
    return f"{names[-1]}."
