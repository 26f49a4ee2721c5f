"""Gradient ascent, a baseline: raise the loss on D_u to the loss of a uniform guess."""

from dataclasses import dataclass

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import LAST_FINITE, hold_forget_gradient, validation_metrics
from parties.vertical.engine.training_loop import SentGradients
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.baselines import clip_factor, reaches_uniform_loss
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class AscentResult:
    """The measured values of one run of gradient ascent.

    Attributes:
        losses: mean cross entropy on D_u before each step.
        sent_gradients: the gradients that were sent for the last batch of the first step.
    """

    losses: list[float]
    sent_gradients: SentGradients


@dataclass(frozen=True, slots=True)
class GradientAscentMethod:
    """Gradient ascent on D_u by all parties; the norm of the joint gradient is clipped."""

    name: str = "gradient-ascent"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Take ascent steps; if values are not finite, restore the last finite model."""
        split_model.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.GRADIENT_ASCENT)
        result = split_model.once("ascent", AscentResult, lambda: run_gradient_ascent(split_model))
        return MethodResult({"losses": result.losses}, sent_gradients=result.sent_gradients)


def run_gradient_ascent(split_model: SplitModel) -> AscentResult:
    """Run gradient ascent on the current model."""
    plan = split_model.agreement.unlearning.ascent
    split_model.party.progress.phase("gradient ascent", plan.steps)
    losses: list[float] = []
    sent_gradients = SentGradients(split_model.rows.forgotten[:0], {})
    split_model.keep_copy(LAST_FINITE, vfl_pb2.GRADIENT_ASCENT)
    for _ in range(plan.steps):
        loss = hold_forget_gradient(split_model, vfl_pb2.GRADIENT_ASCENT)
        if split_model.diverged:
            break
        sent_gradients = sent_gradients if losses else split_model.loop.sent_gradients
        losses.append(loss)
        if reaches_uniform_loss(loss, len(split_model.agreement.labels.classes)):
            break
        split_model.keep_copy(LAST_FINITE, vfl_pb2.GRADIENT_ASCENT)  # this pass was finite
        reports = split_model.report_norms(vfl_pb2.GRADIENT_ASCENT)
        reports.append(split_model.local_model.report())
        factor = clip_factor(sum(report.held_square for report in reports), plan.clip)
        split_model.ascent_step(plan.learning_rate * factor, vfl_pb2.GRADIENT_ASCENT)
    validation_metrics(split_model, vfl_pb2.GRADIENT_ASCENT)
    if split_model.diverged:
        split_model.restore_copy(LAST_FINITE, split_model.stream, vfl_pb2.GRADIENT_ASCENT)
    split_model.drop_copy(LAST_FINITE, vfl_pb2.GRADIENT_ASCENT)
    return AscentResult(losses, sent_gradients)
