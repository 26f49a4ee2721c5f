"""Policies that choose FedORA's threshold γ.

The rows D_u count as forgotten if their mean forgetting score is at least γ. FedORA's paper gives
no value of γ. A score lies in [−ω log C, +ω log C] (C = number of classes, ω = ``weight``), so a γ
below this range is always met, and a γ above this range can never be met.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def uniform_threshold(classes: int, weight: float, fraction: float = 0.95) -> float:
    """Return γ = ``fraction`` · the largest score, which only nearly uniform outputs reach.

    The goal of FedORA's paper is uniform outputs on D_u. Such outputs are over-forgetting: they
    make the forgotten rows detectable.

    Raises:
        ValueError: γ is outside the range of the score.
    """
    return _checked("uniform", fraction * weight * math.log(classes), classes, weight)


@dataclass(frozen=True, slots=True)
class ScoreLevel:
    """A mean score and its standard error."""

    mean: float
    error: float


def class_matched_level(scores: Tensor, truth: Tensor, wanted: Tensor, compared: int) -> ScoreLevel:
    """Return the mean of held-out ``scores``, weighted to the class mix of the rows to forget.

    ``scores`` and ``truth`` are the scores and labels of the held-out rows, ``[rows]``; ``wanted``
    are the labels of the rows to forget, ``[forgotten]``. The ``error`` of the result is the
    standard error of the difference between two means: the mean of the result, and the mean over
    ``compared`` other rows with the same class mix. Classes without a held-out row are left out of
    the mean.

    Raises:
        ValueError: no held-out row has one of the wanted classes.
    """
    classes, counts = torch.unique(wanted, return_counts=True)
    groups = [scores[truth == label].double() for label in classes]
    known = [(group, int(count)) for group, count in zip(groups, counts, strict=True) if len(group)]
    if not known:
        raise ValueError(
            "no class of the rows to forget has held-out rows; choose a threshold policy other "
            "than 'heldout'"
        )
    total = sum(count for _, count in known)
    mean = sum(count / total * float(group.mean()) for group, count in known)
    variance = sum(
        count / total * float(group.var(correction=0)) * (count / total / len(group) + 1 / compared)
        for group, count in known
    )
    return ScoreLevel(mean, math.sqrt(variance))


def heldout_threshold(level: ScoreLevel, classes: int, weight: float, margin: float = 0.0) -> float:
    """Return γ from a model's mean score on validation rows of the forgotten classes.

    γ is ``margin`` standard errors below the mean, so a mean score on D_u that is lower by fewer
    standard errors still meets the constraint. γ is never below the smallest score.

    Raises:
        ValueError: γ is outside the range of the score.
    """
    gamma = max(lowest_threshold(classes, weight), level.mean - margin * level.error)
    return _checked("heldout", gamma, classes, weight)


def lowest_threshold(classes: int, weight: float) -> float:
    """Return the smallest possible score: a threshold that every model meets."""
    return -weight * math.log(classes)


def proxy_threshold(scores: Tensor, classes: int, weight: float, factor: float = 1.0) -> float:
    """Return γ from the scores on D_u of a small reference model, which was trained without D_u.

    ``scores`` are ``[rows]``; ``factor`` multiplies the mean entropy from which γ is computed.

    Raises:
        ValueError: γ is outside the range of the score, or a score is NaN.
    """
    return _checked("proxy", _scaled_score(scores, classes, weight, factor), classes, weight)


def _scaled_score(scores: Tensor, classes: int, weight: float, factor: float) -> float:
    """Return the score at ``factor`` times the mean entropy behind ``scores``, at most uniform."""
    # FedORA Eq 28 solved for H: H = (S/ω + log C) / 2, and S = ω (2 H − log C).
    ceiling = math.log(classes)
    mean_entropy = (float(scores.double().mean()) / weight + ceiling) / 2.0
    # In this order min() keeps a NaN, which _checked refuses.
    return weight * (2.0 * min(factor * mean_entropy, ceiling) - ceiling)


def _checked(policy: str, threshold: float, classes: int, weight: float) -> float:
    ceiling = weight * math.log(classes)
    if not -ceiling * (1 + 1e-6) <= threshold <= ceiling * (1 + 1e-6):  # NaN fails as well
        raise ValueError(
            f"threshold policy {policy!r} gave {threshold} as the threshold, but for {classes} "
            f"classes and weight {weight} the threshold must be in "
            f"[{-ceiling:.4f}, {ceiling:.4f}]; if the threshold was "
            "computed from scores, compute these scores with the same weight"
        )
    return threshold
