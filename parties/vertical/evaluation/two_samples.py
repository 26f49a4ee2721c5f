"""Figures of two-sample tests: are the outputs on D_u those of a Retrain, as one sample of rows.

A p-value that is not small is no equivalence; Retrain's column shows what two Retrains give.
"""

from torch import Tensor
from torch.nn.functional import softmax

from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from unlearning.audit.figure import Direction, Measured
from unlearning.audit.forgetting import label_odds
from unlearning.audit.membership import Outputs, features
from unlearning.audit.two_samples import (
    FOLDS,
    Floats,
    Test,
    classifier_test,
    energy_test,
    ks_by_class,
)

_NOT_EQUAL = "a p-value that is not small is no equivalence"


def two_samples(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """Tests against one Retrain that is not the model itself."""
    other = seen.other(outcome)
    if other is None:
        return {}
    plan, rows = seen.agreement.evaluation, seen.where.plain
    labels = seen.where.labels["forgotten"][rows]
    sides = [each.logits["forgotten"][rows] for each in (outcome, other)]
    odds = [label_odds(each, labels).numpy() for each in sides]
    chances = [_chances(each) for each in sides]
    generator = seen.where.generator
    figures = _test("ks", ks_by_class(odds[0], odds[1], labels.numpy()))
    figures |= _test("energy", energy_test(chances[0], chances[1], generator, plan.permutations))
    if plan.classifier_permutations and len(rows) >= FOLDS:
        count = plan.classifier_permutations
        # Sorted, with loss and margin: a straight line through softmax vectors of balanced classes
        # does not see that all of them became surer.
        tables = [features(Outputs(each, labels)) for each in sides]
        figures |= _test("c2st", classifier_test(tables[0], tables[1], generator, count))
    else:
        why = "evaluation.classifier_permutations is 0" if len(rows) >= FOLDS else "too few rows"
        figures["c2st"] = figures["c2st_p"] = Measured(None, len(rows), note=why)
    return figures


def _chances(logits: Tensor) -> Floats:
    chances: Floats = softmax(logits.double(), dim=1).numpy()
    return chances


def _test(name: str, found: Test) -> dict[str, Measured]:
    return {
        name: Measured(found.statistic, found.n, direction=Direction.LOWER),
        f"{name}_p": Measured(found.p, found.n, direction=Direction.HIGHER, note=_NOT_EQUAL),
    }
