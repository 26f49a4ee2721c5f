"""Canaries: rows planted with a wrong label, which only a model that saw them finds likely.

On data with a small generalisation gap no population audit sees membership; planted rows show it.
"""

import numpy as np
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy

from unlearning.audit.membership import Outputs


def loss_auc(planted: Outputs, never_seen: Outputs) -> float:
    """Return the AUC of "smaller loss, so planted", both sides bearing labels made wrong alike."""
    sides = [planted, never_seen]
    loss = [cross_entropy(side.logits.double(), side.labels, reduction="none") for side in sides]
    truth = np.repeat([1, 0], [len(side.labels) for side in sides])
    return float(roc_auc_score(truth, -np.concatenate([each.numpy() for each in loss])))
