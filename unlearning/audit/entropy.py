"""Predictive entropy of forgotten rows: too little is remembering, too much is a scar that shows.

A model pushed to uniform outputs on D_u passes one-sided membership tests, yet its forgotten
rows stand out (Streisand); hence a signed gap to Retrain and an AUC against rows never seen.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score
from torch import Tensor

from unlearning.objectives import entropy


@dataclass(frozen=True, slots=True)
class EntropyAudit:
    """Where the entropy on D_u stands between Retrain's and that of rows never seen."""

    mean: float  # nats, on D_u
    gap: float  # nats, minus Retrain's mean on D_u; positive is over-forgotten
    auc: float  # of "less entropy, so forgotten rather than never seen"; below 0.5 a scar


def predictive_entropy(logits: Tensor) -> Tensor:
    """Return entropies in nats, ``[rows]``, detached: what a histogram is drawn from."""
    return entropy(logits.detach().double())


def entropy_audit(forgotten: Tensor, retrain: Tensor, never_seen: Tensor) -> EntropyAudit:
    """Compare logits on D_u, of Retrain on D_u, and on class-matched held-out rows."""
    on_forgotten, on_unseen = predictive_entropy(forgotten), predictive_entropy(never_seen)
    truth = np.repeat([1, 0], [len(on_forgotten), len(on_unseen)])
    certainty = -np.concatenate([on_forgotten.numpy(), on_unseen.numpy()])
    mean = float(on_forgotten.mean())
    gap = mean - float(predictive_entropy(retrain).mean())
    return EntropyAudit(mean, gap, float(roc_auc_score(truth, certainty)))
