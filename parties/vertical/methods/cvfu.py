"""CVFU, a baseline that trains on D_r with a cached sum of the parties' votes (logits).

Notation of CVFU (Wang & Wang, arXiv 2502.17081): Ĥ = the confidence matrix, the cached sum of the
parties' votes h_k; η = learning rate. The authors' code adds the gradient on D_u to the first
descent step, so that the model is trained on D_u once more. This implementation subtracts that
gradient.
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
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import HOLD, LAST_FINITE
from parties.vertical.engine.training_loop import BatchLoss, SentGradients, TrainingBatch
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.cvfu import EarlyStopping, estimate_full_change, online_shares
from unlearning.guarantee import Guarantee

TASK = vfl_pb2.CVFU


@dataclass(frozen=True, slots=True)
class CvfuResult:
    """The measured values of one run of the method CVFU.

    Attributes:
        losses: the loss at Ĥ after each epoch.
        gradients: the norm of the gradient of the loss with respect to Ĥ, after each epoch.
        kept: number of the epoch after which the final model was saved; 0 for the original model.
        sent_gradients: the gradients that were sent for the last batch of D_u.
    """

    losses: list[float]
    gradients: list[float]
    kept: int
    sent_gradients: SentGradients


@dataclass(frozen=True, slots=True)
class CvfuMethod:
    """CVFU, a heuristic: its (ε, δ) claim would need strong convexity and bounded gradients."""

    name: str = "cvfu"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Cache the sum of the parties' votes, then train on D_r with the cached sum."""
        split_model.restore_copy(ORIGINAL, self.name, TASK)
        result = split_model.once("cvfu", CvfuResult, lambda: run_cvfu(split_model))
        figures = {"losses": result.losses, "gradients": result.gradients, "kept": result.kept}
        return MethodResult(figures, sent_gradients=result.sent_gradients)


def run_cvfu(split_model: SplitModel) -> CvfuResult:
    """Run CVFU on the current model; if values are not finite, restore the last finite model."""
    return _Run(split_model).run()


@dataclass(frozen=True, slots=True)
class _Progress:
    """Loss and gradient at Ĥ on D_r, which the active party computes without messages.

    Attributes:
        loss: mean cross entropy.
        gradient: norm of its gradient by Ĥ.
    """

    loss: float
    gradient: float


class _Run:
    """One run of CVFU."""

    def __init__(self, split_model: SplitModel) -> None:
        self._split_model, self._plan = split_model, split_model.agreement.unlearning.cvfu
        offline = frozenset(self._plan.offline)
        self._online_loop = split_model.loop.without_parties(offline)
        outputs = split_model.loop.read(vfl_pb2.TRAIN_ROWS, TASK)  # of all parties
        parties = split_model.agreement.feature_parties
        votes = torch.split(outputs.embeddings, outputs.logits.shape[1], dim=1)
        each = dict(zip(parties, votes, strict=True))  # h_k, [train_rows, classes]
        self._confidence = outputs.logits  # Ĥ, [train_rows, classes]
        self._retained = np.searchsorted(split_model.rows.train, split_model.rows.retain)
        self._shares = online_shares(each, offline)[self._retained]  # [retained, classes]
        online = [each[name] for name in parties if name not in offline]
        self._votes = torch.stack(online).sum(dim=0)[self._retained]  # [retained, classes]
        self._bias = self._top_bias()

    def run(self) -> CvfuResult:
        """Hold the gradient on D_u, then train on D_r until the loss stops falling."""
        split_model, stopping = self._split_model, EarlyStopping(patience=self._plan.patience)
        split_model.party.progress.phase("cvfu", self._plan.epochs)
        split_model.keep_copy(LAST_FINITE, TASK)
        self._hold_forget_gradient()
        sent_gradients, epochs, kept = self._online_loop.sent_gradients, list[_Progress](), 0
        for number in range(1, self._plan.epochs + 1):
            if self._online_loop.diverged or stopping.should_stop:
                break
            self._run_epoch(number)
            self._update_confidence()
            # After the epoch, not before it: the kept model is the judged one (decision 101).
            epochs.append(self._progress())
            stopping = stopping.after_epoch(epochs[-1].loss, epochs[-1].gradient)
            if stopping.progressed and not self._online_loop.diverged:
                split_model.keep_copy(LAST_FINITE, TASK)
                kept = number
        split_model.restore_copy(LAST_FINITE, split_model.stream, TASK)
        split_model.drop_copy(LAST_FINITE, TASK)
        losses, gradients = ([each.loss for each in epochs], [each.gradient for each in epochs])
        return CvfuResult(losses, gradients, kept, sent_gradients)

    def _hold_forget_gradient(self) -> None:
        """Let the online parties hold their gradients of the mean loss on D_u, at Ĥ."""
        count = len(self._split_model.rows.forgotten)

        def forget_loss(batch: TrainingBatch) -> BatchLoss:
            total = cross_entropy(self._at_confidence(batch), batch.labels, reduction="sum")
            return BatchLoss(total / count, HOLD)

        self._online_loop.run_batches(
            TASK, self._online_loop.pass_requests(vfl_pb2.FORGOTTEN), forget_loss
        )

    def _run_epoch(self, number: int) -> None:
        """Run one epoch over D_r at a fixed Ĥ."""

        def descend(batch: TrainingBatch) -> BatchLoss:
            loss = cross_entropy(self._at_confidence(batch), batch.labels)
            if self._plan.noise:
                loss = loss + (self._noise(number, batch) * batch.logits).sum()
            return BatchLoss(loss, vfl_pb2.Gradient(primal_step=self._step(number, batch)))

        self._online_loop.run_batches(TASK, self._requests(), descend)

    def _progress(self) -> _Progress:
        logits, rows = self._confidence[self._retained], self._split_model.rows.retain
        labels = self._split_model.labels[rows]
        residual = logits.softmax(dim=1) - one_hot(labels, logits.shape[1])
        # Instead of the norm of first-layer weights: it takes no message (decision 100).
        gradient = residual.square().sum().sqrt().item() / len(rows)
        return _Progress(cross_entropy(logits, labels).item(), gradient)

    def _requests(self) -> Iterator[vfl_pb2.BatchRequest]:
        size = self._plan.batch
        for index in range(math.ceil(len(self._retained) / size)):
            yield vfl_pb2.BatchRequest(
                rows=vfl_pb2.RETAIN, order=vfl_pb2.BY_INDEX, size=size, index=index
            )

    def _step(self, number: int, batch: TrainingBatch) -> vfl_pb2.PrimalStep:
        """A step down on D_r; the first step of all also goes up on D_u."""
        # CVFU with the corrected sign: θ ← θ − η_t (∇L_r − a ∇CE(D_u)), with a = 0 after the
        # first step, and η_t = η / √t in epoch t.
        first = number == 1 and batch.request.index == 0
        rate = self._plan.learning_rate / math.sqrt(number)
        return vfl_pb2.PrimalStep(step_size=rate, multiplier=self._plan.ascent if first else 0.0)

    def _update_confidence(self) -> None:
        """Add the change of the votes to Ĥ; the offline parties' changes are estimated."""
        outputs = self._online_loop.read(vfl_pb2.RETAIN, TASK)
        votes = torch.stack(torch.split(outputs.embeddings, outputs.logits.shape[1], dim=1)).sum(
            dim=0
        )
        bias = self._top_bias()
        change = estimate_full_change(votes - self._votes, self._shares) + bias - self._bias
        self._confidence[self._retained] += change
        self._votes, self._bias = votes, bias

    def _at_confidence(self, batch: TrainingBatch) -> Tensor:
        """Ĥ of a batch, [batch, classes], with the derivatives of the present sum."""
        places = np.searchsorted(self._split_model.rows.train, batch.rows)
        return self._confidence[places] + (batch.logits - batch.logits.detach())

    def _noise(self, number: int, batch: TrainingBatch) -> Tensor:
        """Gaussian noise for the gradient by Ĥ, [batch, classes]."""
        seed = self._split_model.agreement.seed
        drawn = torch_seed(seed, "cvfu noise", number, batch.request.index)
        like, generator = batch.logits, torch.Generator().manual_seed(drawn)
        return self._plan.noise * torch.randn(like.shape, generator=generator, dtype=like.dtype)

    def _top_bias(self) -> Tensor:
        top = cast(ActiveNetwork, self._split_model.local_model.model.network).top
        return cast(SumHead, top).bias.detach().clone()
