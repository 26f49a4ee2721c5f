"""FedORA as it was agreed: which of its forms runs, and with which step sizes."""

from typing import Any

from configs.unlearning import Fedora
from unlearning.step_sizes import StepRule, StepSizes


def form(plan: Fedora) -> dict[str, Any]:
    """Which of its forms ran, for the report."""
    return {
        "dual": plan.dual,
        "start": plan.start,
        "score": plan.score,
        "adaptive": plan.adaptive is not None,
        "extrapolate": plan.extrapolate,
        "retain_share": plan.retain_share,
    }


def step_sizes(plan: Fedora) -> StepSizes:
    """The initial step sizes and the rule that moves them; without a rule they stay."""
    rule = plan.adaptive
    if rule is None:
        still = StepRule(
            primal_range=(plan.primal_step, plan.primal_step),
            dual_range=(plan.dual_step, plan.dual_step),
        )
        return StepSizes(primal=plan.primal_step, dual=plan.dual_step, rule=still)
    moving = StepRule(
        calm=rule.slow,
        restless=rule.fast,
        grow=rule.growth,
        shrink=rule.decay,
        primal_range=(plan.primal_step * rule.smallest, plan.primal_step * rule.largest),
        dual_range=(plan.dual_step * rule.smallest, plan.dual_step * rule.largest),
    )
    return StepSizes(primal=plan.primal_step, dual=plan.dual_step, rule=moving)
