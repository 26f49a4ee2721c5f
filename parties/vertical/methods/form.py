"""FedORA as it was agreed: which of its forms runs, and with which step sizes."""

from typing import Any

from configs.agreement import Training
from configs.unlearning import Fedora
from unlearning.step_sizes import StepRule, StepSizes


def form(plan: Fedora) -> dict[str, Any]:
    """Which of its forms ran, for the report."""
    return {
        "dual": plan.dual,
        "start": plan.start,
        "score": plan.score,
        "primal": plan.primal,
        "anneal": plan.anneal is not None,
        "adaptive": plan.adaptive is not None,
        "extrapolate": plan.extrapolate,
        "retain_share": plan.retain_share,
    }


def step_sizes(plan: Fedora, training: Training) -> StepSizes:
    """The initial step sizes and the rule that moves them; without a rule they stay."""
    rule, primal = plan.adaptive, plan.first_step(training.learning_rate)
    if rule is None:
        still = StepRule(
            primal_range=(primal, primal),
            dual_range=(plan.dual_step, plan.dual_step),
        )
        return StepSizes(primal=primal, dual=plan.dual_step, rule=still)
    moving = StepRule(
        calm=rule.slow,
        restless=rule.fast,
        grow=rule.growth,
        shrink=rule.decay,
        primal_range=(primal * rule.smallest, primal * rule.largest),
        dual_range=(plan.dual_step * rule.smallest, plan.dual_step * rule.largest),
    )
    return StepSizes(primal=primal, dual=plan.dual_step, rule=moving)
