"""Figures of the backdoor: does the trigger still work, on test rows that bear it."""

from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from unlearning.audit import backdoor as of
from unlearning.audit.figure import Direction, Measured
from unlearning.audit.intervals import of_share

INVALID = "the original did not learn the trigger: this run shows nothing"


def backdoor(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """Success with the trigger, without it, and the excess; nothing where none was planted."""
    plan = seen.found.request.backdoor
    if plan is None:
        return {}
    target = seen.classes.index(plan.target)

    def measure(each: Outcome) -> of.Backdoor:
        logits, labels = each.logits, seen.where.labels["test"]
        return of.backdoor(logits["triggered"], logits["test"], labels, target)

    found, note = measure(outcome), "" if of.is_valid(measure(seen.original)) else INVALID
    shares = {"backdoor_success": found.success, "backdoor_base": found.base}
    figures = {
        name: Measured(
            value, found.rows, of_share(round(value * found.rows), found.rows), note=note
        )
        for name, value in shares.items()
    }
    excess = Measured(found.excess, found.rows, direction=Direction.RETRAIN, note=note)
    return figures | {"backdoor_excess": excess}
