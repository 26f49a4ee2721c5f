"""Label leakage: what the gradients a passive party receives say about the labels of its rows.

Both attacks score every row and need no model; their AUC over the rows tells how much leaked
(0.5 is nothing; below it the same attack works with its sign turned). Measured and printed,
never claimed to be chance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import cosine_similarity


@dataclass(frozen=True, slots=True)
class Leakage:
    """AUC of telling rows of one label from the others, by what the passive party received."""

    cosine: float
    norm: float
    rows: int


def leakage(gradients: Tensor, labels: Tensor, known: int) -> Leakage:
    """Attack ``[rows, width]`` gradients, the label of row ``known`` being the attacker's only one.

    Raises:
        ValueError: if all other rows share one label, so that there is nothing to tell apart.
    """
    others = np.arange(len(labels)) != known
    truth = (labels == labels[known]).numpy()[others]
    if truth.all() or not truth.any():
        raise ValueError(f"row {known}: the other rows are all of one kind, no AUC can be formed")
    scores = cosine_scores(gradients, known), norm_scores(gradients)
    cosine, norm = (float(roc_auc_score(truth, score[others])) for score in scores)
    return Leakage(cosine, norm, len(truth))


def cosine_scores(gradients: Tensor, known: int) -> NDArray[np.float64]:
    """Score rows by the cosine of their gradient with that of the row whose label is known."""
    own = gradients[known].double()[None]
    scores: NDArray[np.float64] = cosine_similarity(gradients.double(), own, dim=1).numpy()
    return scores


def norm_scores(gradients: Tensor) -> NDArray[np.float64]:
    """Score rows by the length of their gradient: rarer labels are fitted worse, so longer."""
    scores: NDArray[np.float64] = gradients.double().norm(dim=1).numpy()
    return scores
