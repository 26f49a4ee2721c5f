"""The JS ratio of a model to the independent Retrains, in units of what two of them differ by."""

from torch import Tensor
from torch.nn.functional import log_softmax

from parties.common.shared_randomness import Index
from parties.vertical.evaluation.compare import Comparison, Outcome
from parties.vertical.evaluation.model_outputs import is_independent
from unlearning.audit.divergence import JsRatio, js_divergence, js_ratio


def known(ratio: JsRatio) -> float | None:
    """The ratio; None where Retrains do not differ, so that there is no unit."""
    return ratio.value if ratio.between_retrains else None


def to_retrains(outcome: Outcome, found: Comparison, part: str, rows: Index | None) -> JsRatio:
    """On ``rows`` of a row set; a Retrain is compared with the others."""

    def read(each: Outcome) -> Tensor:
        logits = each.logits[part]
        return log_softmax(logits if rows is None else logits[rows], dim=1)

    retrains = [each for each in found.outcomes if is_independent(each.name)]
    ratio = js_ratio(read(outcome), [read(each) for each in retrains])
    if outcome not in retrains:
        return ratio
    others = [js_divergence(read(outcome), read(each)) for each in retrains if each != outcome]
    return JsRatio(sum(others) / len(others), ratio.between_retrains)
