"""The label attack: what one known label and the first unlearning gradients give away."""

from typing import Any

import torch

from parties.vertical.engine.split_model import Federation
from parties.vertical.evaluation.compare import Comparison
from unlearning.audit.leakage import leakage


def label_attack(federation: Federation, found: Comparison) -> dict[str, Any] | None:
    """The worst party's figures, and every party's own; None where no gradients were sent."""
    answered = found.delivered.facts.answered
    if answered is None or not answered.gradients:
        return None
    labels = federation.labels[answered.rows]
    if len(torch.unique(labels)) < 2:
        return None
    try:
        each = {
            name: leakage(gradient, labels, known=0)
            for name, gradient in answered.gradients.items()
        }
    except ValueError:  # the others are all of one kind
        return None
    worst = max(each.values(), key=lambda one: abs(one.cosine - 0.5))
    return {
        "cosine_auc": worst.cosine,
        "norm_auc": max((one.norm for one in each.values()), key=lambda auc: abs(auc - 0.5)),
        "known_labels": 1,
        "rows": worst.rows,
        "parties": {
            name: {"cosine_auc": one.cosine, "norm_auc": one.norm} for name, one in each.items()
        },
    }
