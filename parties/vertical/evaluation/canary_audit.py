"""The canary audit: whether a model predicts the wrong labels of canaries.

Canaries are training rows with wrong labels. A model predicts such a label only if the model has
memorised the canary.
"""

from typing import Any

from parties.report.method_names import RETRAIN
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.evaluation.model_outputs import (
    ModelOutputs,
    ratio_or_none,
    ratio_to_retrains,
)
from parties.vertical.evaluation.outcomes import MethodOutcome
from unlearning.audit.divergence import DistanceRatio
from unlearning.audit.intervals import auc_interval, distance_spread, further_value_margin
from unlearning.audit.membership import Outputs, canary_loss_auc, class_matched_rows
from unlearning.audit.metric import Measurement


def canary_metrics(models: ModelOutputs, outcome: MethodOutcome) -> dict[str, Measurement]:
    """The AUC of the attack that classifies rows with a small loss as canaries.

    Canaries are compared with test rows that were given wrong labels in the same way. Without
    canaries the result is empty.
    """
    groups = models.row_groups
    if not len(groups.canaries):
        return {}
    wrong = (groups.labels["test"] + 1) % outcome.logits["test"].shape[1]
    truth = groups.labels["forgotten"][groups.canaries]
    matched = class_matched_rows(truth, wrong, groups.generator)
    value = canary_loss_auc(
        Outputs(outcome.logits["forgotten"][groups.canaries], truth),
        Outputs(outcome.logits["test"][matched], wrong[matched]),
    )
    interval = auc_interval(value, len(truth), len(matched))
    return {"canary_auc": Measurement(value, len(truth), interval)}


def canary_audit(models: ModelOutputs, title: str) -> dict[str, Any]:
    """Compare the models' losses on canaries, and their distances from Retrain on canaries.

    Without Retrains there are no distances. ``title`` is the name of the chosen method in the
    report.
    """
    comparison, canaries = models.comparison, models.row_groups.canaries
    names = [ORIGINAL, comparison.chosen, *([RETRAIN] if models.retrains else [])]
    auc = {
        name: canary_metrics(models, comparison.outcome(name))["canary_auc"].value for name in names
    }
    if not models.retrains:
        return {"count": len(canaries), "auc": auc}

    def ratio(outcome: MethodOutcome) -> DistanceRatio:
        return ratio_to_retrains(outcome, comparison, "forgotten", canaries)

    found = {name: ratio(comparison.outcome(name)) for name in (ORIGINAL, comparison.chosen)}
    ratios = {name: ratio_or_none(each) for name, each in found.items()}
    limit = _ratio_limit([ratio(each) for each in models.retrains])
    return {
        "count": len(canaries),
        "between_retrains": found[ORIGINAL].between_retrains,
        "auc": auc,
        "ratio": ratios,
        "limit": limit,
        "js": {name: each.to_retrain for name, each in found.items()},
        "result": canary_result(ratios[ORIGINAL], ratios[comparison.chosen], limit, title),
    }


def _ratio_limit(retrains: list[DistanceRatio]) -> float | None:
    """The largest ratio of a further Retrain; None with fewer than three or with equal Retrains."""
    spread = distance_spread([each.to_retrain for each in retrains])
    if spread is None or not retrains[0].between_retrains:
        return None
    margin = further_value_margin(spread, len(retrains))
    return 1 + margin / retrains[0].between_retrains


def canary_result(
    before: float | None, after: float | None, limit: float | None, title: str
) -> str:
    """A sentence for the report: how near the delivered model is to Retrain on the canaries.

    Args:
        before: JS ratio of the original on the canaries.
        after: JS ratio of the delivered model on the canaries.
        limit: largest JS ratio of a further Retrain on the canaries.
        title: name of the delivered model's method in the report.
    """
    if before is None or after is None:
        return "the Retrains do not differ on the canaries, so the ratio has no unit"
    if limit is None:
        return "the interval of a further Retrain needs three or more independent Retrains"
    if before <= limit:
        return (
            f"on the canaries the original is within the interval of a further Retrain (up to "
            f"{limit:.1f}): this run shows nothing"
        )
    word = "within" if after <= limit else "outside"
    return (
        f"on the canaries {title} is {word} the interval of a further Retrain (up to {limit:.1f})"
    )
