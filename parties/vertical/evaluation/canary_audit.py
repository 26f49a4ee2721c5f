"""The canary audit: whether a model predicts the wrong labels of canaries.

Canaries are training rows with wrong labels. A model predicts such a label only if the model has
memorised the canary.
"""

from typing import Any

from parties.report.method_names import RETRAIN
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.evaluation.compare import Comparison
from parties.vertical.evaluation.model_outputs import js_ratio_to_retrains, ratio_or_none
from parties.vertical.evaluation.row_groups import RowGroups
from unlearning.audit.divergence import JsRatio
from unlearning.audit.membership import Outputs, canary_loss_auc, class_matched_rows


def canary_audit(comparison: Comparison, groups: RowGroups, title: str) -> dict[str, Any]:
    """Compare the loss of canaries with the loss of test rows that were given wrong labels.

    ``title`` is the name of the chosen method in the report.
    """
    classes = comparison.outcome(ORIGINAL).logits["test"].shape[1]
    wrong = (groups.labels["test"] + 1) % classes

    def auc(name: str) -> float:
        outcome = comparison.outcome(name)
        truth = groups.labels["forgotten"][groups.canaries]
        generator = groups.generator
        matched = class_matched_rows(truth, wrong, generator)
        return canary_loss_auc(
            Outputs(outcome.logits["forgotten"][groups.canaries], truth),
            Outputs(outcome.logits["test"][matched], wrong[matched]),
        )

    def ratio(name: str) -> JsRatio:
        return js_ratio_to_retrains(
            comparison.outcome(name), comparison, "forgotten", groups.canaries
        )

    found = {name: ratio(name) for name in (ORIGINAL, comparison.chosen)}
    ratios = {name: ratio_or_none(each) for name, each in found.items()}
    return {
        "count": len(groups.canaries),
        "between_retrains": found[ORIGINAL].between_retrains,
        "auc": {name: auc(name) for name in (ORIGINAL, comparison.chosen, RETRAIN)},
        "ratio": ratios,
        "js": {name: each.to_retrain for name, each in found.items()},
        "result": canary_result(ratios[ORIGINAL], ratios[comparison.chosen], title),
    }


def canary_result(before: float | None, after: float | None, title: str) -> str:
    """A sentence for the report: how near the delivered model is to Retrain on the canaries.

    Args:
        before: JS ratio of the original on the canaries.
        after: JS ratio of the delivered model on the canaries.
        title: name of the delivered model's method in the report.
    """
    if before is None or after is None:
        return "the Retrains do not differ on the canaries, so the ratio has no unit"
    if before < 2:
        return "the original is too near to Retrain on the canaries: this run shows nothing"
    word = "at most" if after <= before / 2 else "more than"
    return f"{title}'s distance to Retrain on the canaries is {word} half of the original's"
