"""Utility of a classifier: accuracy, calibration, and nearest neighbours of the forgotten rows.

Over-forgetting is visible in the calibration earlier than in the accuracy, and on rows close to D_u
earlier than in the average over all rows.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import f1_score, recall_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from unlearning.audit.membership import Outputs

BINS = 15
NEIGHBOURS = 10


def predicted_correctly(outputs: Outputs) -> Tensor:
    """Return whether each row is predicted correctly, boolean, ``[rows]``."""
    return outputs.logits.argmax(dim=1) == outputs.labels


def balanced_accuracy(outputs: Outputs) -> float:
    """Return the mean accuracy over the classes that occur among the rows."""
    truth, predicted = outputs.labels.numpy(), outputs.logits.argmax(dim=1).numpy()
    return float(recall_score(truth, predicted, labels=np.unique(truth), average="macro"))


def macro_f1(outputs: Outputs) -> float:
    """Return the mean F1 over the classes that occur among the rows."""
    truth, predicted = outputs.labels.numpy(), outputs.logits.argmax(dim=1).numpy()
    classes = np.unique(truth)
    return float(f1_score(truth, predicted, labels=classes, average="macro", zero_division=0))


def auroc(outputs: Outputs) -> float | None:
    """Return the AUROC of a binary classifier, with the second class as positive.

    The result is None if there are more than two classes, or if a class has no row.
    """
    if outputs.logits.shape[1] != 2 or len(torch.unique(outputs.labels)) < 2:
        return None
    score = outputs.logits[:, 1] - outputs.logits[:, 0]
    return float(roc_auc_score(outputs.labels.numpy(), score.detach().numpy()))


def row_losses(outputs: Outputs) -> Tensor:
    """Return the negative log-likelihood of each row's label in nats, ``[rows]``."""
    return cross_entropy(outputs.logits.detach().double(), outputs.labels, reduction="none")


def calibration_error(outputs: Outputs, bins: int = BINS) -> float:
    """Return the expected calibration error (ECE) over bins of equal width."""
    # Guo et al. 2017, Eq. 3: Σ_b (n_b / n) |accuracy_b − confidence_b|.
    confidence = log_softmax(outputs.logits.detach().double(), dim=1).exp().max(dim=1).values
    # Bins are open at their lower end, as in the paper.
    place = (confidence * bins).ceil().clamp(1, bins).long() - 1
    surplus = torch.zeros(bins, dtype=torch.float64)
    surplus.index_add_(0, place, predicted_correctly(outputs).double() - confidence)
    return float(surplus.abs().sum() / len(confidence))


def nearest_rows(queries: Tensor, pool: Tensor, k: int = NEIGHBOURS) -> NDArray[np.int64]:
    """Return positions in ``pool`` of the ``k`` rows nearest to each query, ``[positions]``.

    ``queries`` and ``pool`` are ``[rows, width]``. Distances are Euclidean. Positions are unique
    and in ascending order.
    """
    index = NearestNeighbors(n_neighbors=min(k, len(pool))).fit(pool.detach().numpy())
    found = index.kneighbors(queries.detach().numpy(), return_distance=False)
    return np.unique(found).astype(np.int64)
