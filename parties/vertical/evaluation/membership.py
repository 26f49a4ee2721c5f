"""Figures of membership: who was in the training set, by outputs alone."""

from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from unlearning.audit.figure import Measured
from unlearning.audit.intervals import of_auc
from unlearning.audit.membership import Verdict, features
from unlearning.audit.scores import FEWEST, auc, distinguishability

FEW = 25  # rows of D_u; with fewer the standard error of a balanced accuracy is above 0.05


def membership(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """The paper's attack on D_u, and on rows that stay, whom forgetting may expose."""
    figures = verdict("mia", seen.verdicts[outcome.name])
    figures["retained_mia_auc"] = _retained(seen, outcome)
    if outcome.name in seen.shadow_verdicts:
        figures |= verdict("shadow_mia", seen.shadow_verdicts[outcome.name])
    return figures


def verdict(prefix: str, found: Verdict) -> dict[str, Measured]:
    """What an attack found on D_u; an AUC below 0.5 is a leak too."""
    value, balanced, n = found.auc.value, found.balanced_accuracy, found.members
    apart = distinguishability(value)
    side = "forgotten rows look less like members" if apart.sign < 0 else ""
    return {
        f"{prefix}_balanced_accuracy": Measured(
            balanced.value, n, (balanced.low, balanced.high), least=FEW
        ),
        f"{prefix}_auc": Measured(value, n, (found.auc.low, found.auc.high), least=FEW),
        f"{prefix}_distinguishability": Measured(apart.value, n, least=FEW, note=side),
        f"{prefix}_tpr_at_1_fpr": Measured(
            found.tpr,
            found.non_members,
            least=FEWEST,
            note="" if found.non_members >= FEWEST else "no false positive was allowed",
        ),
    }


def _retained(seen: Seen, outcome: Outcome) -> Measured:
    """The same attack, taught on one half of the members, on the other half."""
    members = seen.outputs(outcome, "retained", seen.untaught)
    unseen = seen.outputs(outcome, "test", seen.where.matched)
    positives, negatives = (
        seen.half_taught.predict_proba(features(side))[:, 1] for side in (members, unseen)
    )
    value = auc(positives, negatives)
    return Measured(value, len(positives), of_auc(value, len(positives), len(negatives)))
