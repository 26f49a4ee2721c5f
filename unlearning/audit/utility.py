"""Utility: what a model is still good for, over all rows and in the forgotten rows' neighbourhood.

Over-forgetting shows in calibration before it shows in accuracy, and around D_u before it shows on
the average.
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


def correct(outputs: Outputs) -> Tensor:
    """Which rows are predicted right, ``[rows]``."""
    return outputs.logits.argmax(dim=1) == outputs.labels


def accuracy(outputs: Outputs) -> float:
    """Share of rows predicted right."""
    return float(correct(outputs).double().mean())


def balanced_accuracy(outputs: Outputs) -> float:
    """The mean over classes, of those that the rows have, of the share predicted right."""
    truth, said = outputs.labels.numpy(), outputs.logits.argmax(dim=1).numpy()
    return float(recall_score(truth, said, labels=np.unique(truth), average="macro"))


def macro_f1(outputs: Outputs) -> float:
    """The mean over classes, of those that the rows have, of F1."""
    truth, said = outputs.labels.numpy(), outputs.logits.argmax(dim=1).numpy()
    return float(f1_score(truth, said, labels=np.unique(truth), average="macro", zero_division=0))


def auroc(outputs: Outputs) -> float | None:
    """AUROC of the second of two classes; None for more classes, or where a class has no row."""
    if outputs.logits.shape[1] != 2 or len(torch.unique(outputs.labels)) < 2:
        return None
    score = outputs.logits[:, 1] - outputs.logits[:, 0]
    return float(roc_auc_score(outputs.labels.numpy(), score.detach().numpy()))


def losses(outputs: Outputs) -> Tensor:
    """Negative log-likelihood of the labels, ``[rows]``, in nats."""
    return cross_entropy(outputs.logits.detach().double(), outputs.labels, reduction="none")


def calibration_error(outputs: Outputs, bins: int = BINS) -> float:
    """ECE: Σ_b (n_b / n) |accuracy_b - confidence_b|, equally wide bins (Guo 2017, Eq. 3)."""
    confidence = log_softmax(outputs.logits.detach().double(), dim=1).exp().max(dim=1).values
    # Bins are open at their lower end, as in the paper.
    place = (confidence * bins).ceil().clamp(1, bins).long() - 1
    surplus = torch.zeros(bins, dtype=torch.float64)
    surplus.index_add_(0, place, correct(outputs).double() - confidence)
    return float(surplus.abs().sum() / len(confidence))


def neighbours(queries: Tensor, pool: Tensor, k: int = NEIGHBOURS) -> NDArray[np.int64]:
    """Positions in ``pool`` of the ``k`` nearest rows of each query, each position once, ascending.

    Both are ``[rows, width]``; distances are Euclidean.
    """
    index = NearestNeighbors(n_neighbors=min(k, len(pool))).fit(pool.detach().numpy())
    found = index.kneighbors(queries.detach().numpy(), return_distance=False)
    return np.unique(found).astype(np.int64)
