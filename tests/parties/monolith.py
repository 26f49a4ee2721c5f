"""The split model in one process, written independently: the reference for equality tests."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

ORDER = ("hub", "left", "right")


@dataclass
class Monolith:
    """All parties' networks as one module, on all parties' features."""

    networks: dict[str, nn.Module]
    inputs: Mapping[str, Tensor]
    labels: Tensor

    @classmethod
    def copy(
        cls, networks: Mapping[str, nn.Module], inputs: Mapping[str, Tensor], labels: Tensor
    ) -> "Monolith":
        """Return an independent copy of the networks."""
        return cls(
            {name: copy.deepcopy(network) for name, network in networks.items()}, inputs, labels
        )

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All parameters, party by party."""
        return [p for name in ORDER for p in self.networks[name].parameters()]

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Outputs for some common rows."""
        hub = self.networks["hub"]
        embeddings = {
            name: (hub.bottom if name == "hub" else self.networks[name])(self.inputs[name][rows])
            for name in ORDER
        }
        out: Tensor = hub.top([embeddings[name] for name in ORDER])  # type: ignore[operator]
        return out

    def loss(self, rows: Sequence[int]) -> Tensor:
        """Mean cross entropy."""
        return cross_entropy(self.logits(rows), self.labels[rows])

    def score(self, rows: Sequence[int], weight: float) -> Tensor:
        """S_u of FedORA: the mean of ω (H − KL(P‖U)), written as in Eq. 28."""
        log_p = log_softmax(self.logits(rows), dim=1)
        p, classes = log_p.exp(), log_p.shape[1]
        entropy = -(p * log_p).sum(dim=1)
        divergence = (p * (log_p + math.log(classes))).sum(dim=1)
        return (weight * (entropy - divergence)).mean()

    def gradient(self, figure: Tensor) -> list[Tensor]:
        """Gradient of one value with respect to all parameters."""
        return list(torch.autograd.grad(figure, self.parameters))


@dataclass
class Fedora:
    """FedORA with the scalar dual, Alg. 1 and 2, on one vector of parameters."""

    model: Monolith
    gamma: float
    tau: float
    sigma: float
    rho: float = 0.01
    omega: float = 2.0
    cap: float = 5.0
    extrapolate: bool = False
    multiplier: float = 0.0
    steepest: float = 0.0
    scores: tuple[float, ...] = ()
    changes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.start = [p.detach().clone() for p in self.model.parameters]
        self.before: list[Tensor] = []
        self.first = (self.tau, self.sigma)

    def iterate(self, forgotten: Sequence[int], batches: Sequence[Sequence[int]]) -> None:
        """One outer iteration; without batches, one sub-step without the loss."""
        parameters = self.model.parameters
        here = [p.detach().clone() for p in parameters]
        score = self.model.score(forgotten, self.omega)
        held = self.model.gradient(score)
        if self.before:
            self._adapt(math.sqrt(_square([a - b for a, b in zip(here, self.before, strict=True)])))
        self.before = here
        self.steepest = max(self.steepest, _square(held))
        self.sigma = min(self.sigma, 0.9 / (self.tau * self.steepest))
        ahead = score.item()
        if self.extrapolate and self.scores:
            ahead = 2 * score.item() - self.scores[-1]
        self.scores = (*self.scores, score.item())
        self.multiplier = min(
            self.cap, max(0.0, self.multiplier + self.sigma * (self.gamma - ahead))
        )
        for batch in batches or [[]]:
            gradients = [torch.zeros_like(p) for p in parameters]
            if len(batch):
                gradients = self.model.gradient(self.model.loss(batch))
            with torch.no_grad():
                for p, g, u, p0 in zip(parameters, gradients, held, self.start, strict=True):
                    p.sub_(self.tau * (g - self.multiplier * u + self.rho * (p - p0)))

    def _adapt(self, change: float) -> None:
        ratio = change / self.changes[-1] if self.changes else 1.0
        xi = 1.1 if ratio < 0.8 else 0.5 if ratio > 1.5 else 1.0
        tau, sigma = self.first
        self.tau = min(max(self.tau * xi, 0.1 * tau), 2 * tau)
        self.sigma = min(max(self.sigma * xi, 0.1 * sigma), 2 * sigma)
        self.changes = (*self.changes, change)


def _square(tensors: Sequence[Tensor]) -> float:
    return sum(float((t * t).sum()) for t in tensors)
