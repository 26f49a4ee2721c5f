"""Comparison of a model with Retrain: distance of predictions, and similarity of embeddings.

Predictions of classes are log-probabilities, ``[rows, classes]``. All logarithms are natural. This
module uses the Jensen-Shannon divergence, not the Jensen-Shannon distance, which is the square root
of the divergence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid


def kl_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p‖q) of each row in nats, ``[rows]``; a class with p = 0 adds nothing.

    ``log_p`` and ``log_q`` are log-probabilities, ``[rows, classes]``.
    """
    p = log_p.exp()
    return torch.where(p > 0, p * (log_p - log_q), 0.0).sum(dim=1)


def js_divergence(log_p: Tensor, log_q: Tensor) -> float:
    """Return the mean over rows of JS(p, q), between 0 and log 2.

    ``log_p`` and ``log_q`` are log-probabilities, ``[rows, classes]``.
    """
    log_p, log_q = log_p.double(), log_q.double()
    # Lin 1991: JS(p, q) = ½ KL(p‖m) + ½ KL(q‖m) with m = (p + q) / 2, computed in logarithms.
    log_m = torch.logaddexp(log_p, log_q) - math.log(2.0)
    return float((kl_divergence(log_p, log_m) + kl_divergence(log_q, log_m)).mean() / 2.0)


def class_distance(left: Tensor, right: Tensor) -> float:
    """Return the mean Jensen-Shannon divergence of two models that predict one of several classes.

    ``left`` and ``right`` are their logits for the same rows, ``[rows, classes]``.
    """
    return js_divergence(log_softmax(left, dim=1), log_softmax(right, dim=1))


def label_distance(left: Tensor, right: Tensor) -> float:
    """Return the mean Jensen-Shannon divergence of two models that predict several binary labels.

    It is the mean over rows and labels of JS(Bernoulli(p), Bernoulli(q)), between 0 and log 2.
    ``left`` and ``right`` are their logits for the same rows, ``[rows, labels]``.
    """
    return js_divergence(*(_both_answers(each) for each in (left, right)))


def _both_answers(logits: Tensor) -> Tensor:
    """Return log p and log(1 − p) of each label, ``[rows · labels, 2]``."""
    flat = logits.double().flatten()
    return torch.stack([logsigmoid(flat), logsigmoid(-flat)], dim=1)


def number_distance(left: Tensor, right: Tensor) -> float:
    """Return the root mean squared difference of two models that predict a number, in its unit.

    ``left`` and ``right`` are their predictions for the same rows, ``[rows, 1]``.
    """
    return float((left.double() - right.double()).square().mean().sqrt())


def total_variation(log_p: Tensor, log_q: Tensor) -> float:
    """Return the mean over rows of ½ Σ |p − q|, between 0 and 1.

    ``log_p`` and ``log_q`` are log-probabilities, ``[rows, classes]``.
    """
    return float((log_p.double().exp() - log_q.double().exp()).abs().sum(dim=1).mean() / 2)


def prediction_agreement(log_p: Tensor, log_q: Tensor) -> float:
    """Return the fraction of rows for which two models predict the same class.

    ``log_p`` and ``log_q`` are log-probabilities, ``[rows, classes]``.
    """
    return float((log_p.argmax(dim=1) == log_q.argmax(dim=1)).double().mean())


@dataclass(frozen=True, slots=True)
class DistanceRatio:
    """Distance between a model and the Retrain models, and among the Retrain models."""

    to_retrain: float  # mean over the independent Retrains
    between_retrains: float  # mean over their pairs

    @property
    def value(self) -> float:
        """Distance from the Retrain models, divided by the distance among these models."""
        return self.to_retrain / self.between_retrains if self.between_retrains else math.inf


def distance_ratio(
    outputs: Tensor, retrains: Sequence[Tensor], distance: Callable[[Tensor, Tensor], float]
) -> DistanceRatio:
    """Compare a model's outputs with those of independent Retrain models on the same rows.

    Args:
        outputs: the model's outputs, ``[rows, outputs]``.
        retrains: those of each Retrain model, ``[rows, outputs]`` each.
        distance: the distance between two models, by their outputs.

    Raises:
        ValueError: there are fewer than two Retrain models, so that the distance between them is
            undefined.
    """
    if len(retrains) < 2:
        raise ValueError(
            f"a ratio of distances needs 2 or more independent Retrain models (got {len(retrains)})"
        )
    return DistanceRatio(
        fmean(distance(outputs, retrain) for retrain in retrains),
        fmean(distance(a, b) for a, b in combinations(retrains, 2)),
    )


def linear_cka(left: Tensor, right: Tensor) -> float | None:
    """Return the linear CKA of two models' embeddings of the same rows, between 0 and 1.

    ``left`` and ``right`` are ``[rows, width]``; the widths may differ. The result is 1 if one
    embedding is a rotation and scaling of the other, and None if an embedding is the same for
    every row.
    """
    # Kornblith et al., ICML 2019, Eq. 3: ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖), columns centred.
    x, y = (side.double() - side.double().mean(dim=0) for side in (left, right))
    scale = (x.T @ x).norm() * (y.T @ y).norm()
    return float((y.T @ x).norm().square() / scale) if scale > 0 else None
