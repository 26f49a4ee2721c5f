"""Gradient ascent, a baseline: raise the loss on D_u to the loss of a uniform guess."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from configs.agreement import VerticalAgreement
from configs.table import Count, Positive
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
from parties.vertical.engine.training_loop import SentGradients
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import PLAIN, VerticalRun, hold_forget_gradient
from unlearning.baselines import clip_factor, reaches_uniform_loss


class AscentSettings(MethodSettings):
    """Baseline: gradient ascent on the forgotten rows."""

    learning_rate: Positive = 0.005
    steps: Count = 10
    clip: Positive = 1.0  # largest norm of the gradient of all parties together


@dataclass(frozen=True, slots=True)
class AscentState:
    """The state before a step."""

    losses: list[float]  # mean cross entropy of each model on its D_u
    # The gradients that were sent for the last batch of D_u before the first step.
    sent: SentGradients | None


class GradientAscentMethod(MethodDefaults):
    """Gradient ascent on D_u by all parties; the norm of the joint gradient is clipped."""

    name: ClassVar = "gradient-ascent"
    only_classes: ClassVar = "it stops at the loss of a uniform guess over the classes"
    label: ClassVar = Label("Gradient ascent", "on the loss of the forgotten rows")
    settings: ClassVar = AscentSettings
    state: ClassVar = AscentState

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Steps along the held gradient of the original model."""
        plan = agreement.unlearning.of(AscentSettings)
        return Orders(starts=((PLAIN, None),), ascent=plan.learning_rate)

    def count(self, run: VerticalRun) -> int:
        """The number of passes over D_u."""
        return run.settings(AscentSettings).steps

    def init(self, run: VerticalRun) -> AscentState:
        """Start from the original model, and hold the gradient of the loss on D_u."""
        run.start(ORIGINAL, ORIGINAL)
        losses = hold_forget_gradient(run)
        return AscentState(losses, run.sent_gradients)

    def step(self, run: VerticalRun, state: AscentState, k: int) -> StepResult[AscentState]:
        """Ascend along the held gradient, then hold the gradient at the new point."""
        plan, classes = run.settings(AscentSettings), len(run.agreement.labels.classes)
        uniform = [reaches_uniform_loss(loss, classes) for loss in state.losses]
        if k == plan.steps or all(uniform):
            return Stop()
        factors = [
            0.0 if ready else plan.learning_rate * clip_factor(norms.held, plan.clip)
            for ready, norms in zip(uniform, run.norms(), strict=True)
        ]
        run.ascend(factors)
        losses = hold_forget_gradient(run)
        return AscentState(losses, state.sent), StepRecord({"loss": _mean(state.losses)})

    def finish(
        self, _run: VerticalRun, state: AscentState, records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Return the loss on D_u before each step, and after the last one."""
        figures = {"losses": [each["loss"] for each in records], "last_loss": _mean(state.losses)}
        return MethodResult(figures, stopped=stop.reason, sent_gradients=state.sent)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
