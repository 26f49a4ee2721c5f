"""Threshold policies: how forgotten is forgotten enough, that is, FedORA's γ.

The paper gives no γ. A score lies in [−ω log C, +ω log C] (C = classes, ω = ``weight``), so a
threshold outside is either met already or can never be met.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def uniform(classes: int, weight: float, fraction: float = 0.95) -> float:
    """Return γ at ``fraction`` of the largest score: forget until outputs are nearly uniform.

    The paper's aim; it over-forgets, which makes the forgotten rows detectable.
    """
    return _legal("uniform", fraction * weight * math.log(classes), classes, weight)


@dataclass(frozen=True, slots=True)
class Level:
    """A mean score and its standard error."""

    mean: float
    error: float


def class_matched(scores: Tensor, truth: Tensor, wanted: Tensor, compared: int) -> Level:
    """Return the level of held-out ``scores``, ``[rows]``, in the class mix of ``wanted``.

    The error is that of its difference to a mean over so many ``compared`` rows of the same kind. A
    class without held-out rows teaches nothing, and the others stand for it.

    Raises:
        ValueError: no held-out row has one of the wanted classes.
    """
    classes, counts = torch.unique(wanted, return_counts=True)
    groups = [scores[truth == label].double() for label in classes]
    known = [(group, int(count)) for group, count in zip(groups, counts, strict=True) if len(group)]
    if not known:
        raise ValueError("no held-out row has a class of the rows to forget")
    total = sum(count for _, count in known)
    mean = sum(count / total * float(group.mean()) for group, count in known)
    variance = sum(
        count / total * float(group.var(correction=0)) * (count / total / len(group) + 1 / compared)
        for group, count in known
    )
    return Level(mean, math.sqrt(variance))


def heldout(level: Level, classes: int, weight: float, margin: float = 0.0) -> float:
    """Return γ from a model's level on validation rows of the forgotten classes.

    ``margin`` standard errors below it, so that the constraint only presses where the model is
    surer of D_u than chance explains; never below the smallest score.
    """
    gamma = max(no_pressure(classes, weight), level.mean - margin * level.error)
    return _legal("heldout", gamma, classes, weight)


def no_pressure(classes: int, weight: float) -> float:
    """Return the smallest score there is: a threshold that every model meets."""
    return -weight * math.log(classes)


def proxy(scores: Tensor, classes: int, weight: float, factor: float = 1.0) -> float:
    """Return γ from the scores on D_u of a small reference model that never saw D_u."""
    return _legal("proxy", _scaled(scores, classes, weight, factor), classes, weight)


def _scaled(scores: Tensor, classes: int, weight: float, factor: float) -> float:
    """Return the score at ``factor`` times the mean entropy behind ``scores``, at most uniform."""
    # FedORA Eq 28 read backwards: H = (S/ω + log C) / 2, and S = ω (2 H − log C).
    ceiling = math.log(classes)
    mean_entropy = (float(scores.double().mean()) / weight + ceiling) / 2.0
    # In this order a NaN survives min() and is refused below.
    return weight * (2.0 * min(factor * mean_entropy, ceiling) - ceiling)


def _legal(policy: str, threshold: float, classes: int, weight: float) -> float:
    ceiling = weight * math.log(classes)
    if not -ceiling * (1 + 1e-6) <= threshold <= ceiling * (1 + 1e-6):  # NaN fails as well
        raise ValueError(
            f"policy {policy!r} gave {threshold}, legal is [{-ceiling:.4f}, {ceiling:.4f}] "
            f"for {classes} classes at weight {weight}; were the scores taken at this weight?"
        )
    return threshold
