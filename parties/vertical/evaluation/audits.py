"""Audits of a request as a whole: of parties, parameters, relearning and the backdoor's control."""

from typing import Any

from parties.vertical.evaluation.backdoor import INVALID, backdoor
from parties.vertical.evaluation.membership import verdict
from parties.vertical.evaluation.model_outputs import Seen
from parties.vertical.evaluation.utility import share
from parties.vertical.methods.method import ORIGINAL
from parties.vertical.methods.registry import PAIRED
from unlearning.audit.figure import Direction, Measured, Status, beside
from unlearning.audit.membership import Outputs
from unlearning.audit.relearning import anamnesis


def audits(seen: Seen) -> dict[str, Any]:
    """As plain JSON values; None where an audit was not run."""
    return {
        "completeness": _completeness(seen),
        "parameters": _parameters(seen),
        "relearn": _relearn(seen),
        "backdoor": _validity(seen),
        "reconstruction": _reconstruction(seen),
    }


def _completeness(seen: Seen) -> dict[str, list[dict[str, Any]]] | None:
    """What the delivered model knows of D_u once one party has the original's half again.

    A party whose exchange changes nothing altered nothing: its half forgot nothing, or held
    nothing to forget.
    """
    halves = seen.found.trials.exchanged
    if not halves:
        return None
    retrains = [_known(seen, each.logits) for each in seen.retrains]
    return {
        party: [
            beside(
                name,
                measured,
                [value for each in retrains if (value := each[name].value) is not None],
            ).plain()
            for name, measured in _known(seen, logits).items()
        ]
        for party, logits in halves.items()
    }


def _known(seen: Seen, logits: dict[str, Any]) -> dict[str, Measured]:
    rows, labels = seen.where.plain, seen.where.labels["forgotten"]
    on_forgotten = Outputs(logits["forgotten"][rows], labels[rows])
    attack = verdict("mia", seen.judge(seen.attack, logits))
    return {
        "forgotten_accuracy": share(on_forgotten, Direction.RETRAIN),
        "mia_auc": attack["mia_auc"],
    }


def _parameters(seen: Seen) -> dict[str, dict[str, float | None]]:
    """By party: ‖θ_u - θ_R‖ from the paired Retrain, ‖θ_o - θ_R‖, and their ratio."""
    found = seen.found.trials.distances
    before, after = found.get(ORIGINAL, {}), found.get(seen.found.chosen, {})
    return {
        party: {
            "unlearned": after[party],
            "original": before[party],
            "ratio": _ratio(after[party], before[party]),
        }
        for party in before
    }


def _ratio(after: float | None, before: float | None) -> float | None:
    return after / before if before and after is not None else None


def _relearn(seen: Seen) -> dict[str, Any] | None:
    steps = seen.found.trials.relearned
    if not steps:
        return None
    ratio = anamnesis(steps[seen.found.chosen], steps[PAIRED])
    cap = seen.agreement.evaluation.relearn
    return {"steps": steps, "cap": cap and cap.cap, "ratio": ratio}


def _reconstruction(seen: Seen) -> dict[str, dict[str, dict[str, float]]] | None:
    """By party, for one forgotten row: the first layer's change, by the method and by Retrain."""
    found = seen.found.trials.inverted
    if not found:
        return None
    ours, theirs = found[seen.found.chosen], found[PAIRED]
    return {party: {"unlearned": ours[party], "retrain": theirs[party]} for party in ours}


def _validity(seen: Seen) -> dict[str, Any] | None:
    """The positive control: the original must obey the trigger."""
    plan = seen.found.request.backdoor
    if plan is None:
        return None
    figures = backdoor(seen, seen.original)
    valid = figures["backdoor_success"].note != INVALID
    return {
        "party": plan.party,
        "target": plan.target,
        "original_success": figures["backdoor_success"].value,
        "status": Status.OK.value if valid else "invalid",
    }
