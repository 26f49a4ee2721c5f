"""ICO-like, a baseline: subtract an estimate of D_u's effect, then train on a part of D_r.

ICO-like follows the description of ICO (Li et al., J. Supercomputing 81:845, 2025), whose code is
not public. K = number of correction steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import ClassVar

from configs.agreement import VerticalAgreement
from configs.table import Count, Fraction, Positive
from configs.unlearning import MethodSettings
from parties.report.method_names import Label
from parties.requests.driver import (
    JsonObject,
    MethodDefaults,
    StepRecord,
    StepResult,
    Stop,
)
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.rows import Sample
from parties.vertical.engine.training_loop import DESCEND, SentGradients
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders, Start
from parties.vertical.methods.run import Batch, Loss, VerticalRun, hold_forget_gradient
from protocol import vfl_pb2
from unlearning.baselines import Contribution


class IcoLikeSettings(MethodSettings):
    """Baseline: subtract the estimated effect of forgotten rows; train on remaining rows."""

    step: Positive = 20.0  # step η_c: the contribution of D_u is (η_c n_u / n) ∇CE(D_u)
    # Largest norm r of the contribution, relative to the norm of all parameters.
    limit: Positive = 0.05
    share: Fraction = 0.25  # fraction ν of D_r, the remaining rows, that the correction uses
    steps: Count = 100  # steps K of the correction
    learning_rate: Positive = 0.05  # learning rate of plain SGD


@dataclass(frozen=True, slots=True)
class IcoLikeState:
    """The state of ICO-like."""

    sent: SentGradients | None  # the gradients that were sent for the last batch of D_u


class IcoLikeMethod(MethodDefaults):
    """ICO-like: one pass over D_u, then K correction steps with SGD on a part of D_r.

    The estimated effect of D_u is clipped by its joint norm over all parties.
    """

    name: ClassVar = "ico-like"
    label: ClassVar = Label(
        "ICO-like", "one gradient subtracted; reimplemented from its description"
    )
    settings: ClassVar = IcoLikeSettings
    state: ClassVar = IcoLikeState

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """A step along the held gradient, then SGD on a sample of D_r."""
        plan = agreement.unlearning.of(IcoLikeSettings)
        # An epoch has at least one batch.
        batches = ((agreement.training.batch, plan.steps),)
        return Orders(starts=(_start(plan),), batches=batches, ascent=plan.step)

    def count(self, run: VerticalRun) -> int:
        """The pass over D_u, and the correction steps."""
        return 1 + run.settings(IcoLikeSettings).steps

    def init(self, run: VerticalRun) -> IcoLikeState:
        """Start from the original model, and hold the gradient of the loss on D_u."""
        plan = run.settings(IcoLikeSettings)
        run.start(ORIGINAL, self.name, *_start(plan))
        hold_forget_gradient(run)
        return IcoLikeState(run.sent_gradients)

    def step(self, run: VerticalRun, state: IcoLikeState, k: int) -> StepResult[IcoLikeState]:
        """First subtract the contribution of D_u, then correct on a part of D_r."""
        if k == 0:  # without a correction, and unchecked: not a model to restore
            return state, StepRecord({"contribution": _subtract_contribution(run)}, good=False)
        if k == 1:
            losses = _correct(run)
            run.logits(vfl_pb2.VALIDATION)  # shows whether all numbers are finite
            return state, StepRecord({"losses": losses})
        return Stop()

    def finish(
        self, _run: VerticalRun, state: IcoLikeState, records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Return the factor of the gradient on D_u, and the loss of each correction step."""
        figures = {"contribution": 0.0, "losses": []}
        for each in records:
            figures |= each
        return MethodResult(figures, stopped=stop.reason, sent_gradients=state.sent)


def _start(plan: IcoLikeSettings) -> Start:
    """The update rule and the sample of the correction steps."""
    return UpdateRule("sgd", plan.learning_rate), Sample("correction", plan.share)


def _subtract_contribution(run: VerticalRun) -> float:
    """Subtract the estimated contribution; return the mean factor of the gradients."""
    plan, rows = run.settings(IcoLikeSettings), run.sets[0]
    share = len(rows.forgotten) / len(rows.train)
    contribution = Contribution(step=plan.step, share=share, limit=plan.limit)
    factors = [contribution.factor(each.held, each.parameters) for each in run.norms()]
    run.ascend(factors)
    return sum(factors) / len(factors)


def _correct(run: VerticalRun) -> list[float]:
    """Take K steps on a fixed sample of D_r; return their losses."""
    losses: list[float] = []

    def descend(batch: Batch) -> Loss:
        loss = batch.loss()
        losses.append(loss.detach().mean().item())
        return Loss(loss, DESCEND)

    run.run_batches(_requests(run), descend)
    return losses


def _requests(run: VerticalRun) -> Iterator[vfl_pb2.BatchRequest]:
    """Requests for the K batches, epoch after epoch."""
    steps, size = run.settings(IcoLikeSettings).steps, run.agreement.training.batch
    epochs = (run.epoch_requests(vfl_pb2.SAMPLE, epoch, size) for epoch in count(1))
    yield from islice((request for epoch in epochs for request in epoch), steps)
