"""CVFU, a baseline that trains on D_r with a cached sum of the parties' votes (logits).

Notation of CVFU (Wang & Wang, arXiv 2502.17081): Ĥ = the confidence matrix, the cached sum of the
parties' votes h_k; η = learning rate. The authors' code adds the gradient on D_u to the first
descent step, so that the model is trained on D_u once more. This implementation subtracts that
gradient.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import one_hot

from configs.agreement import VerticalAgreement
from configs.table import Count, Name, Positive
from configs.unlearning import MethodSettings
from models.targets import ClassTarget
from parties.common.shared_randomness import Index, torch_seed
from parties.report.method_names import Label
from parties.requests.driver import (
    JsonObject,
    MethodDefaults,
    StepRecord,
    StepResult,
    Stop,
)
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.training_loop import HOLD, SentGradients
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders, PrimalLimits
from parties.vertical.methods.run import PLAIN, Batch, Loss, VerticalRun
from protocol import vfl_pb2
from unlearning.cvfu import EarlyStopping, estimate_full_change, online_shares


class CvfuSettings(MethodSettings):
    """Baseline CVFU, for top.kind = 'sum': train on the remaining rows; store sums of logits."""

    learning_rate: Positive = 0.1  # learning rate η; epoch i uses η / √i
    batch: Count = 64
    epochs: Count = 8  # number of epochs, each of which passes twice over D_r, the remaining rows
    # Weight of ∇CE(D_u), which is subtracted in the first step; D_u are the forgotten rows.
    ascent: Annotated[float, Field(ge=0)] = 1.0
    patience: Count = 3  # epochs without progress after which the method ends
    # Standard deviation of the noise on the gradients of the sum.
    noise: Annotated[float, Field(ge=0)] = 0.0
    # Passive parties that do not take part; the change of their votes is estimated.
    offline: tuple[Name, ...] = ()

    def check(self, agreement: VerticalAgreement) -> None:
        """Check that the top model is a sum, and that a party which takes part can be trained.

        Raises:
            ValueError: a rule is broken; the message names the key to change.
        """
        if agreement.top.kind != "sum":
            raise ValueError(
                "the method cvfu works only if the top model sums the outputs of the parties' "
                "bottom models: set top.kind = 'sum' and width = number of classes at every party, "
                "or remove 'cvfu' from the table [unlearning]"
            )
        if agreement.privacy.embed_once:
            raise ValueError(
                "with privacy.embed_once the parties' bottom models cannot change, but the method "
                "cvfu must change the bottom models: remove 'cvfu' from the table [unlearning]"
            )
        if not set(self.offline) < set(agreement.passive):
            raise ValueError(
                "unlearning.cvfu.offline must name passive parties, but not all of them (got "
                f"{', '.join(sorted(self.offline))}); the passive parties are "
                f"{', '.join(agreement.passive)}"
            )


@dataclass(frozen=True, slots=True)
class CvfuState:
    """The state after an epoch."""

    confidence: Tensor  # Ĥ of each model, [N, train_rows, classes]
    votes: Tensor  # the sum of the online parties' votes on D_r, [N, retained, classes]
    bias: Tensor  # the bias of the top model, [N, classes]
    shares: Tensor  # shares of the online parties in all votes, [N, retained, classes]
    watchers: list[EarlyStopping]  # decides for each model when to stop
    best: int = 0  # the epoch whose model is kept; 0 for the original model
    sent: SentGradients | None = None  # the gradients that were sent for the last batch of D_u


class CvfuMethod(MethodDefaults):
    """CVFU, a heuristic: its (ε, δ) claim would need strong convexity and bounded gradients."""

    name: ClassVar = "cvfu"
    only_classes: ClassVar = "the votes that it stores are those for classes"
    label: ClassVar = Label("CVFU", "gradient steps on a cached sum of votes")
    settings: ClassVar = CvfuSettings
    state: ClassVar = CvfuState

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Primal steps on D_r in index order; the first one also goes up on D_u."""
        plan = agreement.unlearning.of(CvfuSettings)
        primal = PrimalLimits(step_size=plan.learning_rate, multiplier=plan.ascent)
        return Orders(starts=((PLAIN, None),), passes=(plan.batch,), primal=primal)

    def count(self, run: VerticalRun) -> int:
        """The largest number of batches."""
        plan = run.settings(CvfuSettings)
        return plan.epochs * -(-run.row_count(vfl_pb2.RETAIN) // plan.batch)

    def init(self, run: VerticalRun) -> CvfuState:
        """Cache the sum of the parties' votes, and hold the gradient on D_u."""
        run.start(ORIGINAL, self.name)
        offline = frozenset(run.settings(CvfuSettings).offline)
        all_votes = run.votes(vfl_pb2.TRAIN_ROWS)
        places = torch.from_numpy(_retained_places(run))  # [N, retained]
        shares = torch.stack([online_shares(each.parties, offline) for each in all_votes])
        online = torch.stack([_sum_without(each.parties, offline) for each in all_votes])
        state = CvfuState(
            confidence=torch.stack([each.logits for each in all_votes]),
            votes=_rows_of(online, places),
            bias=torch.stack([each.bias for each in all_votes]),
            shares=_rows_of(shares, places),
            watchers=[EarlyStopping(patience=run.settings(CvfuSettings).patience)] * len(run.sets),
        )
        return replace(state, sent=self._hold_forget_gradient(run, state))

    def step(self, run: VerticalRun, state: CvfuState, k: int) -> StepResult[CvfuState]:
        """Train one epoch on D_r at a fixed Ĥ, then add the change of the votes to Ĥ."""
        plan = run.settings(CvfuSettings)
        if k == plan.epochs or all(each.should_stop for each in state.watchers):
            return Stop(restore=True)
        self._run_epoch(run, state, k + 1)
        after = self._with_new_votes(run, state)
        # After the epoch, not before it: the kept model is the judged one (decision 101).
        losses, norms = _measure(run, after)
        watchers, better = [], []
        for watcher, loss, norm in zip(state.watchers, losses, norms, strict=True):
            moves = not watcher.should_stop
            watchers.append(watcher.after_epoch(loss, norm) if moves else watcher)
            better.append(run.finite and moves and watchers[-1].progressed)
        best = k + 1 if better[0] else state.best
        figures = {"loss": losses[0], "gradient": norms[0]}
        after = replace(after, watchers=watchers, best=best)
        return after, StepRecord(figures, any(better), better)

    def finish(
        self, _run: VerticalRun, state: CvfuState, records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Return the loss and the gradient at Ĥ after each epoch, and the epoch that was kept."""
        figures = {
            "losses": [each["loss"] for each in records],
            "gradients": [each["gradient"] for each in records],
            "kept": state.best,
        }
        return MethodResult(figures, stopped=stop.reason, sent_gradients=state.sent)

    def _hold_forget_gradient(self, run: VerticalRun, state: CvfuState) -> SentGradients | None:
        """Let the online parties hold their gradients of the mean loss on D_u, at Ĥ."""
        count = run.row_count(vfl_pb2.FORGOTTEN)

        def forget_loss(batch: Batch) -> Loss:
            return Loss(batch.loss_sum(_at_confidence(run, state, batch)) / count, HOLD)

        offline = run.settings(CvfuSettings).offline
        run.run_batches(run.pass_requests(vfl_pb2.FORGOTTEN), forget_loss, offline)
        return run.sent_gradients

    def _run_epoch(self, run: VerticalRun, state: CvfuState, number: int) -> None:
        """Run one epoch over D_r at a fixed Ĥ."""
        plan = run.settings(CvfuSettings)

        def descend(batch: Batch) -> Loss:
            logits = _at_confidence(run, state, batch)
            loss = batch.loss(logits=logits)
            if plan.noise:
                noise = _noise(run, number, batch)
                loss = loss + (noise * batch.logits).sum(dim=(1, 2))
            step = _step(plan, number, batch)
            return Loss(loss, vfl_pb2.Gradient(primal_step=step))

        run.run_batches(_requests(run), descend, plan.offline)

    def _with_new_votes(self, run: VerticalRun, state: CvfuState) -> CvfuState:
        """Add the change of the votes to Ĥ; the offline parties' changes are estimated."""
        found = run.votes(vfl_pb2.RETAIN, run.settings(CvfuSettings).offline)
        votes = torch.stack([_sum_without(each.parties, frozenset()) for each in found])
        bias = torch.stack([each.bias for each in found])
        change = estimate_full_change(votes - state.votes, state.shares)
        change = change + (bias - state.bias)[:, None]
        confidence = state.confidence.clone()
        for own, places, added in zip(confidence, _retained_places(run), change, strict=True):
            own[places] += added
        return replace(state, confidence=confidence, votes=votes, bias=bias)


def _retained_places(run: VerticalRun) -> Index:
    """The positions of D_r in the training rows, [N, retained]."""
    return np.stack([np.searchsorted(sets.train, sets.retain) for sets in run.sets])


def _rows_of(values: Tensor, places: Tensor) -> Tensor:
    """``values[n, places[n]]`` of each model: [N, rows, classes] at [N, places]."""
    return values.gather(1, places[:, :, None].expand(-1, -1, values.shape[2]))


def _sum_without(votes: Mapping[str, Tensor], offline: frozenset[str]) -> Tensor:
    """The sum of the online parties' votes, [rows, classes]."""
    return torch.stack([each for name, each in votes.items() if name not in offline]).sum(dim=0)


def _measure(run: VerticalRun, state: CvfuState) -> tuple[list[float], list[float]]:
    """Loss at Ĥ on D_r, and norm of its gradient by Ĥ; the active party sends no message."""
    losses, norms, target = [], [], cast(ClassTarget, run.target)
    retained = _rows_of(state.confidence, torch.from_numpy(_retained_places(run)))
    for logits, sets in zip(retained, run.sets, strict=True):
        labels = run.labels[sets.retain]
        residual = logits.softmax(dim=1) - one_hot(labels, logits.shape[1])
        residual = residual * target.row_weights(labels)[:, None]
        weights = run.weights_of(sets.retain)
        if weights is not None:
            residual = residual * weights[:, None]
        losses.append(target.loss(logits, labels, weights=weights).item())
        # Instead of the norm of first-layer weights: it takes no message (decision 100).
        norms.append(residual.square().sum().sqrt().item() / len(labels))
    return losses, norms


def _requests(run: VerticalRun) -> Iterator[vfl_pb2.BatchRequest]:
    size = run.settings(CvfuSettings).batch
    for index in range(math.ceil(run.row_count(vfl_pb2.RETAIN) / size)):
        yield vfl_pb2.BatchRequest(
            rows=vfl_pb2.RETAIN, order=vfl_pb2.BY_INDEX, size=size, index=index
        )


def _step(plan: CvfuSettings, number: int, batch: Batch) -> vfl_pb2.PrimalStep:
    """A step down on D_r; the first step of all also goes up on D_u."""
    # CVFU with the corrected sign: θ ← θ − η_t (∇L_r − a ∇CE(D_u)), with a = 0 after the
    # first step, and η_t = η / √t in epoch t.
    first = number == 1 and batch.request.index == 0
    rate = plan.learning_rate / math.sqrt(number)
    return vfl_pb2.PrimalStep(step_size=rate, multiplier=plan.ascent if first else 0.0)


def _at_confidence(run: VerticalRun, state: CvfuState, batch: Batch) -> Tensor:
    """Ĥ of a batch, [N, batch, classes], with the derivatives of the present sum."""
    places = torch.from_numpy(np.searchsorted(run.sets[0].train, batch.rows.numpy()))
    return _rows_of(state.confidence, places) + (batch.logits - batch.logits.detach())


def _noise(run: VerticalRun, number: int, batch: Batch) -> Tensor:
    """Gaussian noise for the gradient by Ĥ, [batch, classes]."""
    drawn = torch_seed(run.agreement.seed, "cvfu noise", number, batch.request.index)
    like, generator = batch.logits[0], torch.Generator().manual_seed(drawn)
    noise = torch.randn(like.shape, generator=generator, dtype=like.dtype)
    return run.settings(CvfuSettings).noise * noise
