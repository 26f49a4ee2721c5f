"""Label leakage: attacks that infer labels from the gradients that a passive party receives.

The cosine attack and the norm attack score every row, and neither attack needs a model. The AUC of
an attack over the rows measures the leakage: 0.5 means no leakage. An AUC below 0.5 is leakage too,
because the attacker can reverse the sign of the scores. The AUC is always measured and reported,
never assumed to be 0.5.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import cosine_similarity


@dataclass(frozen=True, slots=True)
class LabelLeakage:
    """AUC of attacks that use received gradients to separate rows of one label from the rest."""

    cosine: float
    norm: float
    rows: int


def label_leakage(gradients: Tensor, labels: Tensor, known: int) -> LabelLeakage:
    """Attack the labels with ``gradients``; the attacker knows only the label of row ``known``.

    ``gradients`` are ``[rows, width]`` and ``labels`` are ``[rows]``.

    Raises:
        ValueError: all other rows have the label of row ``known``, or no other row has this label.
    """
    others = np.arange(len(labels)) != known
    truth = (labels == labels[known]).numpy()[others]
    if truth.all() or not truth.any():
        raise ValueError(
            "no AUC can be computed: either all other rows have the label of row "
            f"{known}, or no other row has this label; pass rows with and rows without this label"
        )
    scores = cosine_scores(gradients, known), norm_scores(gradients)
    cosine, norm = (float(roc_auc_score(truth, score[others])) for score in scores)
    return LabelLeakage(cosine, norm, len(truth))


def cosine_scores(gradients: Tensor, known: int) -> NDArray[np.float64]:
    """Return the cosine between each row's gradient and the gradient of row ``known``, ``[rows]``.

    ``gradients`` are ``[rows, width]``.
    """
    own = gradients[known].double()[None]
    scores: NDArray[np.float64] = cosine_similarity(gradients.double(), own, dim=1).numpy()
    return scores


def norm_scores(gradients: Tensor) -> NDArray[np.float64]:
    """Return the norm of each row's gradient, ``[rows]``.

    ``gradients`` are ``[rows, width]``. The model fits rows with rare labels worse, so these rows
    have larger gradients.
    """
    scores: NDArray[np.float64] = gradients.double().norm(dim=1).numpy()
    return scores
