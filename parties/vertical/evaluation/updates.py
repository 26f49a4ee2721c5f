"""Figures of update differences: what the model before and after tells who was deleted.

Seen by who asks both models for predictions, and by each party from its own embeddings. A passive
party is told which rows are forgotten; its figure says what its half of the models alone would.
"""

import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.vertical.evaluation.compare import Outcome
from parties.vertical.evaluation.model_outputs import Seen
from unlearning.audit.figure import Measured
from unlearning.audit.intervals import of_auc
from unlearning.audit.scores import FOLDS, Floats, auc, crossfit
from unlearning.audit.update_difference import changes, differences


def update_difference(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """D_u against rows that stay, and against never seen rows of its classes."""
    before, after = seen.original.logits, outcome.logits

    def features(part: str, rows: Index) -> Floats:
        return differences(before[part][rows], after[part][rows])

    forgotten = features("forgotten", seen.asked)
    return {
        "update_auc_retained": _told(seen, forgotten, features("retained", seen.beside)),
        "update_auc_unseen": _told(seen, forgotten, features("test", seen.unseen)),
    }


def party_views(seen: Seen, outcome: Outcome) -> dict[str, Measured]:
    """The same from each party's embeddings: D_u against never seen rows of its classes."""
    before, after = _by_party(seen, seen.original), _by_party(seen, outcome)
    return {
        f"view_auc_{name}": _told(
            seen,
            changes(before[name]["forgotten"][seen.asked], after[name]["forgotten"][seen.asked]),
            changes(before[name]["test"][seen.unseen], after[name]["test"][seen.unseen]),
        )
        for name in before  # in the agreement's order; a set has another in every process
        if name in after
    }


def _told(seen: Seen, forgotten: Floats, others: Floats) -> Measured:
    if min(len(forgotten), len(others)) < FOLDS:
        return Measured(None, len(forgotten), note=f"fewer than {FOLDS} rows of a kind")
    value = auc(*crossfit(forgotten, others, seen.where.seed))
    return Measured(value, len(forgotten), of_auc(value, len(forgotten), len(others)))


def _by_party(seen: Seen, outcome: Outcome) -> dict[str, dict[str, Tensor]]:
    """Embeddings of every party by row set; none where some party took no part in a model."""
    widths = {name: plan.width or 0 for name, plan in seen.agreement.feature_parties.items()}
    parts = {name: each for name, each in outcome.embeddings.items() if name != "retained"}
    if not parts or any(each.shape[1] != sum(widths.values()) for each in parts.values()):
        return {}
    split = {part: torch.split(each, list(widths.values()), 1) for part, each in parts.items()}
    return {
        name: {part: each[place] for part, each in split.items()}
        for place, name in enumerate(widths)
    }
