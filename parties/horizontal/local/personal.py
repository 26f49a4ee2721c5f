"""Personalised learning: which parameters are a client's own, and how it learns beside them.

Letters as in ``models.prompts`` for Mimir; α = Per-FedAvg's inner step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from configs.horizontal import FedPer, Gpfl, Horizontal, MimirPrompts, PerFedAvg


@dataclass(frozen=True, slots=True)
class Personal:
    """How a client's model differs from the others'.

    Attributes:
        own: beginnings of the names of parameters that never leave the client.
        last: of those that stay as they are while the others learn, and then learn alone in one
            further pass (Mimir, Alg 1, lines 14 and 15).
        decay: λ of that pass: λ ‖·‖² is added to the loss.
        spread: every client's own parameters begin as numbers that it draws, normal with this
            standard deviation; None: as in the first model that it is sent.
        inner: α, of a step on half of each batch, after which the other half gives the gradient
            (Per-FedAvg, first order); None: none.
    """

    own: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    decay: float = 0.0
    spread: float | None = None
    inner: float | None = None


SHARED = Personal()  # one model for all


def personal(agreement: Horizontal, network: nn.Module) -> Personal:
    """As agreed."""
    match agreement.personal:
        case FedPer():
            return Personal(own=(last_linear(network),))
        case PerFedAvg(inner=inner):
            return Personal(inner=inner)
        case MimirPrompts(decay=decay, spread=spread):
            last = ("generator.", "base")
            return Personal(own=("descriptor",), last=last, decay=decay, spread=spread)
        case Gpfl():
            return Personal(own=("head.",))
        case _:
            return SHARED


def has_own(agreement: Horizontal) -> bool:
    """Whether clients have parameters of their own."""
    return isinstance(agreement.personal, FedPer | MimirPrompts | Gpfl)


def chosen(network: nn.Module, beginnings: tuple[str, ...]) -> Iterator[nn.Parameter]:
    """Parameters whose names begin with one of these."""
    for name, each in network.named_parameters():
        if name.startswith(beginnings):
            yield each


def mask(network: nn.Module, beginnings: tuple[str, ...]) -> Tensor:
    """Which entries of the vector ``[d]`` belong to these parameters."""
    parts = [
        torch.full((each.numel(),), bool(beginnings) and name.startswith(beginnings))
        for name, each in network.named_parameters()
    ]
    return torch.cat(parts)


def part(network: nn.Module, plan: Personal, own: Tensor) -> Tensor:
    """Of all parameters ``[d]`` the client's own: no more of them need be kept."""
    return own[mask(network, plan.own)]


def whole(network: nn.Module, plan: Personal, kept: Tensor) -> Tensor:
    """``[d]`` with what was kept in its places, and 0 elsewhere."""
    place = mask(network, plan.own)
    found = kept.new_zeros(len(place))
    found[place] = kept
    return found


def drawn(network: nn.Module, plan: Personal, seed: int) -> Tensor | None:
    """A client's own parameters before its first lesson, ``[d]``: they are read in their places."""
    if plan.spread is None:
        return None
    own = mask(network, plan.own)
    random = torch.Generator().manual_seed(seed)
    return own * plan.spread * torch.randn(len(own), generator=random)


def last_linear(network: nn.Module) -> str:
    """The name of the last linear layer: a classifier's head."""
    names = [name for name, each in network.named_modules() if isinstance(each, nn.Linear)]
    return f"{names[-1]}."
