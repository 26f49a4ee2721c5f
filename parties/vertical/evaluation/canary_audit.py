"""The canary audit: planted rows, on which a model that never saw them cannot do well."""

from typing import Any

from parties.report.comparison import label
from parties.vertical.evaluation.compare import Comparison
from parties.vertical.evaluation.js import known, to_retrains
from parties.vertical.evaluation.model_outputs import RETRAIN
from parties.vertical.evaluation.row_groups import Ground
from parties.vertical.methods.method import ORIGINAL
from unlearning.audit.canaries import loss_auc
from unlearning.audit.divergence import JsRatio
from unlearning.audit.membership import Outputs, class_matched


def canary_audit(found: Comparison, where: Ground) -> dict[str, Any]:
    """Loss of the planted rows against held-out rows with labels made wrong alike."""
    classes = found.outcome(ORIGINAL).logits["test"].shape[1]
    wrong = (where.labels["test"] + 1) % classes

    def auc(name: str) -> float:
        outcome = found.outcome(name)
        truth = where.labels["forgotten"][where.canaries]
        generator = where.generator
        matched = class_matched(truth, wrong, generator)
        return loss_auc(
            Outputs(outcome.logits["forgotten"][where.canaries], truth),
            Outputs(outcome.logits["test"][matched], wrong[matched]),
        )

    def ratio(name: str) -> JsRatio:
        return to_retrains(found.outcome(name), found, "forgotten", where.canaries)

    ratios = {name: ratio(name) for name in (ORIGINAL, found.chosen)}
    audit = {
        "count": len(where.canaries),
        "between_retrains": ratios[ORIGINAL].between_retrains,
        **{f"{name}_auc": auc(name) for name in (ORIGINAL, found.chosen, RETRAIN)},
        **{f"{name}_ratio": known(each) for name, each in ratios.items()},
        **{f"{name}_js": each.to_retrain for name, each in ratios.items()},
    }
    return {**audit, "verdict": verdict(audit, found.chosen)}


def verdict(audit: dict[str, Any], chosen: str) -> str:
    """What the JS ratios on the planted rows amount to, as a sentence."""
    before, after = audit["original_ratio"], audit[f"{chosen}_ratio"]
    if before is None:
        return "the Retrains do not differ on the canaries: there is no unit to measure in"
    if before < 2:
        return "the original is too near to Retrain on the canaries: this run proves nothing"
    word = "at most" if after <= before / 2 else "more than"
    return f"{label(chosen)}'s distance to Retrain on the canaries is {word} half of the original's"
