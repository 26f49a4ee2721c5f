"""ICO-like, a baseline: subtract an estimate of D_u's effect, then train on a part of D_r.

ICO-like follows the description of ICO (Li et al., J. Supercomputing 81:845, 2025), whose code is
not public. K = number of correction steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from torch.nn.functional import cross_entropy

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import (
    DESCEND,
    LAST_FINITE,
    hold_forget_gradient,
    validation_metrics,
)
from parties.vertical.engine.training_loop import BatchLoss, SentGradients, TrainingBatch
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.baselines import Contribution
from unlearning.guarantee import Guarantee

TASK = vfl_pb2.CORRECT


@dataclass(frozen=True, slots=True)
class IcoLikeResult:
    """The measured values of one run of the method ICO-like.

    Attributes:
        contribution: the gradient on D_u times this factor was added to the parameters.
        losses: the loss of each correction step.
        finite: whether all values were finite; otherwise the original model was restored.
        sent_gradients: the gradients that were sent for the last batch of D_u.
    """

    contribution: float
    losses: list[float]
    finite: bool
    sent_gradients: SentGradients


@dataclass(frozen=True, slots=True)
class IcoLikeMethod:
    """ICO-like: one pass over D_u, then K correction steps with SGD on a part of D_r.

    The estimated effect of D_u is clipped by its joint norm over all parties.
    """

    name: str = "ico-like"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Subtract an estimate of D_u's effect, then take correction steps on a part of D_r."""
        split_model.restore_copy(ORIGINAL, self.name, TASK)
        result = split_model.once("ico-like", IcoLikeResult, lambda: run_ico_like(split_model))
        figures = {"contribution": result.contribution, "losses": result.losses}
        return MethodResult(
            figures,
            stopped=None if result.finite else "not finite",
            sent_gradients=result.sent_gradients,
        )


def run_ico_like(split_model: SplitModel) -> IcoLikeResult:
    """Run ICO-like on the current model; restore this model if a value is not finite."""
    plan = split_model.agreement.unlearning.ico_like
    split_model.party.progress.phase("ico-like", plan.steps + 1)
    split_model.keep_copy(LAST_FINITE, TASK)
    hold_forget_gradient(split_model, TASK)
    sent_gradients = split_model.loop.sent_gradients
    factor = 0.0 if split_model.diverged else _subtract_contribution(split_model)
    losses = [] if split_model.diverged else _correct(split_model)
    if not split_model.diverged:
        validation_metrics(split_model, TASK)
    finite = not split_model.diverged
    if not finite:
        split_model.restore_copy(LAST_FINITE, split_model.stream, TASK)
    split_model.drop_copy(LAST_FINITE, TASK)
    return IcoLikeResult(factor, losses, finite, sent_gradients)


def _subtract_contribution(split_model: SplitModel) -> float:
    """Subtract the estimated contribution at all parties; return the factor of the gradient."""
    plan, rows = split_model.agreement.unlearning.ico_like, split_model.rows
    share = len(rows.forgotten) / len(rows.train)
    reports = [*split_model.report_norms(TASK), split_model.local_model.report_norms()]
    factor = Contribution(step=plan.step, share=share, limit=plan.limit).factor(
        sum(report.held_square for report in reports),
        sum(report.norm_square for report in reports),
    )
    split_model.ascent_step(factor, TASK)
    return factor


def _correct(split_model: SplitModel) -> list[float]:
    """Take K steps on a fixed sample of D_r; return their losses."""
    losses: list[float] = []

    def descend(batch: TrainingBatch) -> BatchLoss:
        loss = cross_entropy(batch.logits, batch.labels)
        losses.append(loss.item())
        return BatchLoss(loss, DESCEND)

    split_model.loop.run_batches(TASK, _requests(split_model), descend)
    return losses


def _requests(split_model: SplitModel) -> Iterator[vfl_pb2.BatchRequest]:
    """Requests for the K batches, epoch after epoch."""
    plan = split_model.agreement
    steps, size = plan.unlearning.ico_like.steps, plan.training.batch
    epochs = (
        split_model.loop.epoch_requests(vfl_pb2.CORRECTION_SAMPLE, epoch, size)
        for epoch in count(1)
    )
    yield from islice((request for epoch in epochs for request in epoch), steps)
