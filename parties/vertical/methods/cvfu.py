"""CVFU between the parties, a baseline for a sum of votes: descent at a cached sum without D_u.

Letters of CVFU (Wang & Wang, arXiv 2502.17081): Ĥ = the confidence matrix, the cached sum of the
parties' votes h_k; η = learning rate. In their code the gradient on D_u is added to the first
descent step, which learns D_u once more; here it is subtracted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from models.tops import SumHead
from parties.common.shared_randomness import torch_seed
from parties.vertical.engine.active_network import ActiveNetwork
from parties.vertical.engine.batch import Answered, Batch, Use
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import HOLD, SOUND
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.confidence import Watcher, estimated_change, online_shares
from unlearning.guarantee import Guarantee

TASK = vfl_pb2.CVFU


@dataclass(frozen=True, slots=True)
class Unlearned:
    """How it went."""

    losses: list[float]  # after every epoch, at Ĥ
    gradients: list[float]  # norms, by Ĥ
    kept: int  # the epoch whose model was kept; 0 is the original
    answered: Answered  # the last gradients of D_u


@dataclass(frozen=True, slots=True)
class Cvfu:
    """Its (ε, δ) claim needs strong convexity and bounded gradients, so here it is a heuristic."""

    name: str = "cvfu"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Cache the sum, then descend at it."""
        federation.restore(ORIGINAL, self.name, TASK)
        went = federation.once("cvfu", Unlearned, lambda: unlearn(federation))
        figures = {"losses": went.losses, "gradients": went.gradients, "kept": went.kept}
        return Facts(figures, answered=went.answered)


def unlearn(federation: Federation) -> Unlearned:
    """Run it from the present model; at worst end there again."""
    return _Run(federation).run()


@dataclass(frozen=True, slots=True)
class _Figures:
    """What Ĥ amounts to on D_r; the active party knows it without asking."""

    loss: float  # mean cross entropy
    gradient: float  # norm of its gradient by Ĥ


class _Run:
    """One run of CVFU: Ĥ, and with what it is estimated."""

    def __init__(self, federation: Federation) -> None:
        self._federation, self._plan = federation, federation.agreement.unlearning.cvfu
        offline = frozenset(self._plan.offline)
        self._present = federation.passes.without(offline)  # passes over those who take part
        read = federation.passes.read(vfl_pb2.LEARN, TASK)  # the cache: all have been there
        parties = federation.agreement.feature_parties
        each = dict(
            zip(parties, torch.split(read.embeddings, read.logits.shape[1], dim=1), strict=True)
        )
        self._confidence = read.logits  # Ĥ, [rows of D, classes]
        self._stay = np.searchsorted(federation.rows.learn, federation.rows.retain)
        self._shares = online_shares(each, offline)[self._stay]  # [rows of D_r, classes]
        online = [each[name] for name in parties if name not in offline]
        self._votes = torch.stack(online).sum(dim=0)[self._stay]  # [rows of D_r, classes]
        self._bias = self._top_bias()

    def run(self) -> Unlearned:
        """Hold the gradient on D_u, then pass over D_r until nothing gets better."""
        federation, watcher = self._federation, Watcher(patience=self._plan.patience)
        federation.party.watch.phase("cvfu", self._plan.epochs)
        federation.keep(SOUND, TASK)
        self._hold()
        answered, epochs, kept = self._present.answered, list[_Figures](), 0
        for number in range(1, self._plan.epochs + 1):
            if self._present.diverged or watcher.ends:
                break
            self._pass(number)
            self._follow()
            epochs.append(self._figures())
            watcher = watcher.see(epochs[-1].loss, epochs[-1].gradient)
            if watcher.progressed and not self._present.diverged:
                federation.keep(SOUND, TASK)
                kept = number
        federation.restore(SOUND, federation.stream, TASK)
        federation.drop(SOUND, TASK)
        losses, gradients = ([each.loss for each in epochs], [each.gradient for each in epochs])
        return Unlearned(losses, gradients, kept, answered)

    def _hold(self) -> None:
        """Have the parties that take part hold their gradients of the mean loss on D_u, at Ĥ."""
        count = len(self._federation.rows.forgotten)

        def climb(batch: Batch) -> Use:
            total = cross_entropy(self._at_confidence(batch), batch.labels, reduction="sum")
            return Use(total / count, HOLD)

        self._present.sweep(TASK, self._present.parts(vfl_pb2.FORGOTTEN), climb)

    def _pass(self, number: int) -> None:
        """One epoch over D_r at a fixed Ĥ."""

        def descend(batch: Batch) -> Use:
            loss = cross_entropy(self._at_confidence(batch), batch.labels)
            if self._plan.noise:
                loss = loss + (self._noise(number, batch) * batch.logits).sum()
            return Use(loss, vfl_pb2.Gradient(primal=self._order(number, batch)))

        self._present.sweep(TASK, self._asks(), descend)

    def _figures(self) -> _Figures:
        logits, rows = self._confidence[self._stay], self._federation.rows.retain
        labels = self._federation.labels[rows]
        residual = logits.softmax(dim=1) - one_hot(labels, logits.shape[1])
        gradient = residual.square().sum().sqrt().item() / len(rows)
        return _Figures(cross_entropy(logits, labels).item(), gradient)

    def _asks(self) -> Iterator[vfl_pb2.Ask]:
        size = self._plan.batch
        for index in range(math.ceil(len(self._stay) / size)):
            yield vfl_pb2.Ask(rows=vfl_pb2.RETAIN, order=vfl_pb2.BY_INDEX, size=size, index=index)

    def _order(self, number: int, batch: Batch) -> vfl_pb2.Primal:
        """Descend on D_r; the first step of all also climbs the loss on D_u."""
        # CVFU with its sign put right: θ ← θ − η_t (∇L_r − a ∇CE(D_u)), a = 0 after the first
        # step, and η_t = η / √t in epoch t.
        first = number == 1 and batch.ask.index == 0
        rate = self._plan.learning_rate / math.sqrt(number)
        return vfl_pb2.Primal(step_size=rate, price=self._plan.ascent if first else 0.0)

    def _follow(self) -> None:
        """Take the change of the votes into Ĥ, an estimate of the offline parties' included."""
        read = self._present.read(vfl_pb2.RETAIN, TASK)
        votes = torch.stack(torch.split(read.embeddings, read.logits.shape[1], dim=1)).sum(dim=0)
        bias = self._top_bias()
        change = estimated_change(votes - self._votes, self._shares) + bias - self._bias
        self._confidence[self._stay] += change
        self._votes, self._bias = votes, bias

    def _at_confidence(self, batch: Batch) -> Tensor:
        """Ĥ of a batch, with the derivatives of the fresh sum."""
        places = np.searchsorted(self._federation.rows.learn, batch.rows)
        return self._confidence[places] + (batch.logits - batch.logits.detach())

    def _noise(self, number: int, batch: Batch) -> Tensor:
        """Gaussian noise for the gradient by Ĥ of a batch."""
        seed = self._federation.agreement.seed
        drawn = torch_seed(seed, "cvfu noise", number, batch.ask.index)
        like, generator = batch.logits, torch.Generator().manual_seed(drawn)
        return self._plan.noise * torch.randn(like.shape, generator=generator, dtype=like.dtype)

    def _top_bias(self) -> Tensor:
        top = cast(ActiveNetwork, self._federation.half.model.network).top
        return cast(SumHead, top).bias.detach().clone()
