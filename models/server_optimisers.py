"""What the server does with the clients' mean change: FedAvg and its descendants.

Letters: φ = the model, Δ = Σ_k α_k (φ_k − φ) over those who took part, m and v = first and second
moment, η_s = ``rate``, τ = ``floor``. A step takes φ and Δ, ``[d]`` each, and returns φ and the
optimiser as it is next; nothing is changed in place. Forms of the adaptive ones:

* ``paper`` (Oblivionis, paper 000, Eq 24-33): m begins at Δ, v is of Δ²;
* ``reddi`` (Reddi et al., arXiv 2003.00295, Alg 2): m begins at 0, v is of Δ²;
* ``code`` (what Oblivionis' authors run): m begins at 0, v is of m².
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, TypeAlias

import torch
from torch import Tensor

Form: TypeAlias = Literal["paper", "reddi", "code"]


class ServerOptimiser(Protocol):
    """One rule."""

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, Self]:
        """Return φ after Δ = ``change``, and the rule with its moments after it."""


@dataclass(frozen=True, slots=True)
class FedAvg:
    """McMahan et al. 2017: φ + η_s Δ, where η_s is 1 in the paper."""

    rate: float = 1.0

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAvg"]:
        """See ``ServerOptimiser``."""
        return model + self.rate * change, self


@dataclass(frozen=True, slots=True)
class FedAvgM:
    """Hsu et al. 2019: momentum of the server, m ← β m + Δ."""

    rate: float = 1.0
    momentum: float = 0.9
    m: Tensor | None = None

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAvgM"]:
        """See ``ServerOptimiser``."""
        m = change if self.m is None else self.momentum * self.m + change
        return model + self.rate * m, replace(self, m=m)


@dataclass(frozen=True, slots=True)
class FedAdagrad:
    """v ← v + Δ², without a first moment."""

    rate: float = 1e-3
    floor: float = 1e-3
    v: Tensor | None = None

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAdagrad"]:
        """See ``ServerOptimiser``."""
        v = _begun(self.v, change, self.floor) + change.square()
        return model + self.rate * change / (v.sqrt() + self.floor), replace(self, v=v)


@dataclass(frozen=True, slots=True)
class FedAdam:
    """FedAdam, or with ``yogi`` FedYogi; nothing is corrected for bias.

    v₀ = τ², as Reddi et al. have it; the paper gives none.
    """

    rate: float = 1e-3
    floor: float = 1e-3
    first: float = 0.9  # β₁
    second: float = 0.99  # β₂
    form: Form = "paper"
    yogi: bool = False
    m: Tensor | None = None
    v: Tensor | None = None

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAdam"]:
        """See ``ServerOptimiser``."""
        m = self._momentum(change)
        square = (m if self.form == "code" else change).square()
        v = _begun(self.v, change, self.floor)
        if self.yogi:
            # FedYogi: v ← v − (1 − β₂) Δ² sign(v − Δ²).
            v = v - (1 - self.second) * square * torch.sign(v - square)
        else:
            # FedAdam: v ← β₂ v + (1 − β₂) Δ².
            v = self.second * v + (1 - self.second) * square
        return model + self.rate * m / (v.sqrt() + self.floor), replace(self, m=m, v=v)

    def _momentum(self, change: Tensor) -> Tensor:
        if self.m is None:
            return change if self.form == "paper" else (1 - self.first) * change
        return self.first * self.m + (1 - self.first) * change


def moments(rule: ServerOptimiser) -> dict[str, Tensor]:
    """What a rule remembers of earlier rounds, by name."""
    known = {name: getattr(rule, name, None) for name in ("m", "v")}
    return {name: each for name, each in known.items() if each is not None}


def with_moments(rule: ServerOptimiser, known: Mapping[str, Tensor]) -> ServerOptimiser:
    """The rule as it was when ``moments`` gave these."""
    return replace(rule, **known) if known else rule  # type: ignore[type-var]


def _begun(v: Tensor | None, like: Tensor, floor: float) -> Tensor:
    return torch.full_like(like, floor**2) if v is None else v
