"""Server optimisers: update rules for the clients' mean change (FedAvg and its successors).

Notation: φ = the model, Δ = Σ_k α_k (φ_k − φ) over the participating clients, m and v = first and
second moment, η_s = ``rate``, τ = ``tau``, β₁ and β₂ = decay of the moments. A step takes φ and Δ,
``[d]`` each, and returns the next φ and a new optimiser with the next moments; no argument is
changed. The adaptive rules have three forms:

* ``paper`` (Oblivionis, paper 000, Eq 24-33): m is Δ in the first round, and v is computed from Δ².
* ``reddi`` (Reddi et al., arXiv 2003.00295, Alg 2): m starts at 0, and v is computed from Δ².
* ``code`` (the code of Oblivionis' authors): m is Δ in the first round, and v is computed from m².
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, TypeAlias

import torch
from torch import Tensor

Form: TypeAlias = Literal["paper", "reddi", "code"]


class ServerOptimiser(Protocol):
    """An update rule that the server applies to the clients' mean change."""

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, Self]:
        """Return the model after one step, ``[d]``, and the rule with its new moments.

        ``model`` is φ and ``change`` is Δ, both ``[d]``.
        """


@dataclass(frozen=True, slots=True)
class FedAvg:
    """FedAvg adds the mean change times η_s, which is 1 in the paper (McMahan et al. 2017)."""

    rate: float = 1.0

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAvg"]:
        """Return φ + η_s Δ, ``[d]``, and the rule; ``model`` φ and ``change`` Δ are ``[d]``."""
        # McMahan et al. 2017, Alg 1: φ ← φ + η_s Δ.
        return model + self.rate * change, self


@dataclass(frozen=True, slots=True)
class FedAvgM:
    """FedAvgM: FedAvg with server momentum (Hsu et al. 2019)."""

    rate: float = 1.0
    momentum: float = 0.9
    m: Tensor | None = None

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAvgM"]:
        """Return φ + η_s m, ``[d]``, and the new rule; ``model`` φ and ``change`` Δ are ``[d]``."""
        # Hsu et al. 2019: m ← β m + Δ, with m = Δ in the first round.
        m = change if self.m is None else self.momentum * self.m + change
        return model + self.rate * m, replace(self, m=m)


@dataclass(frozen=True, slots=True)
class FedAdagrad:
    """FedAdagrad: step sizes depend on the sum of squared changes; there is no first moment."""

    rate: float = 1e-3
    tau: float = 1e-3
    v: Tensor | None = None

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAdagrad"]:
        """Return φ + η_s Δ / (√v + τ), ``[d]``, and the new rule; φ and Δ are ``[d]``."""
        # Reddi et al. 2020 (arXiv 2003.00295) Alg 2: v ← v + Δ².
        v = _second_moment(self.v, change, self.tau) + change.square()
        return model + self.rate * change / (v.sqrt() + self.tau), replace(self, v=v)


@dataclass(frozen=True, slots=True)
class FedAdam:
    """FedAdam, or FedYogi if ``yogi`` is set, without bias correction.

    The initial v is τ², as in Reddi et al.; Oblivionis gives no initial value.
    """

    rate: float = 1e-3
    tau: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.99
    form: Form = "paper"
    yogi: bool = False
    m: Tensor | None = None
    v: Tensor | None = None

    def step(self, model: Tensor, change: Tensor) -> tuple[Tensor, "FedAdam"]:
        """Return φ + η_s m / (√v + τ), ``[d]``, and the new rule; φ and Δ are ``[d]``."""
        # Reddi et al. 2020 (arXiv 2003.00295) Alg 2, and Oblivionis (paper 000) Eq 24-33.
        m = self._first_moment(change)
        square = (m if self.form == "code" else change).square()
        v = _second_moment(self.v, change, self.tau)
        if self.yogi:
            # FedYogi: v ← v − (1 − β₂) Δ² sign(v − Δ²).
            v = v - (1 - self.beta2) * square * torch.sign(v - square)
        else:
            # FedAdam: v ← β₂ v + (1 − β₂) Δ².
            v = self.beta2 * v + (1 - self.beta2) * square
        return model + self.rate * m / (v.sqrt() + self.tau), replace(self, m=m, v=v)

    def _first_moment(self, change: Tensor) -> Tensor:
        if self.m is None:
            return (1 - self.beta1) * change if self.form == "reddi" else change
        return self.beta1 * self.m + (1 - self.beta1) * change


def optimiser_moments(rule: ServerOptimiser) -> dict[str, Tensor]:
    """Return the moments that ``rule`` stores from earlier rounds, by name, ``[d]`` each."""
    known = {name: getattr(rule, name, None) for name in ("m", "v")}
    return {name: moment for name, moment in known.items() if moment is not None}


def restore_moments(rule: ServerOptimiser, known: Mapping[str, Tensor]) -> ServerOptimiser:
    """Return ``rule`` with the moments that ``optimiser_moments`` returned, ``[d]`` each."""
    return replace(rule, **known) if known else rule  # type: ignore[type-var]


def _second_moment(v: Tensor | None, like: Tensor, tau: float) -> Tensor:
    return torch.full_like(like, tau**2) if v is None else v
