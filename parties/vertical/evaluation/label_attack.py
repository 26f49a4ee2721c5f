"""The label attack: infer labels of D_u from the sent gradients and one known label."""

from typing import Any

import torch

from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.outcomes import Comparison
from unlearning.audit.leakage import label_leakage


def label_attack(split_model: SplitModel, comparison: Comparison) -> dict[str, Any] | None:
    """How well the attack infers labels, by party and for the most revealing party.

    The result is None if no attack is possible.
    """
    sent = comparison.delivered.result.sent_gradients
    if sent is None or not sent.gradients:
        return None
    labels = split_model.labels[sent.rows]
    if len(torch.unique(labels)) < 2:
        return None
    try:
        leaks = {
            name: label_leakage(gradient, labels, known=0)
            for name, gradient in sent.gradients.items()
        }
    except ValueError:  # the others are all of one kind
        return None
    worst = max(leaks.values(), key=lambda leak: abs(leak.cosine - 0.5))
    return {
        "cosine_auc": worst.cosine,
        "norm_auc": max((leak.norm for leak in leaks.values()), key=lambda auc: abs(auc - 0.5)),
        "known_labels": 1,
        "rows": worst.rows,
        "parties": {
            name: {"cosine_auc": leak.cosine, "norm_auc": leak.norm} for name, leak in leaks.items()
        },
    }
