"""Divergences of predictions, and the JS ratio: how far from Retrain, in Retrains' own spread.

All take log-probabilities ``[rows, classes]`` and use the natural logarithm. The Jensen-Shannon
divergence is the divergence, not its root.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
import torch
from torch import Tensor


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p‖q) per row, ``[rows]``, in nats; where p is 0 a class adds nothing."""
    p = log_p.exp()
    return torch.where(p > 0, p * (log_p - log_q), 0.0).sum(dim=1)


def js_divergence(log_p: Tensor, log_q: Tensor) -> float:
    """Return the mean over rows of JS(p, q), between 0 and log 2."""
    log_p, log_q = log_p.double(), log_q.double()
    # JS(p, q) = ½ KL(p‖m) + ½ KL(q‖m) with m = (p + q) / 2, formed in logarithms.
    log_m = torch.logaddexp(log_p, log_q) - math.log(2.0)
    return float((kl(log_p, log_m) + kl(log_q, log_m)).mean() / 2.0)


def total_variation(log_p: Tensor, log_q: Tensor) -> float:
    """Return the mean over rows of ½ Σ |p - q|, between 0 and 1."""
    return float((log_p.double().exp() - log_q.double().exp()).abs().sum(dim=1).mean() / 2)


def agreement(log_p: Tensor, log_q: Tensor) -> float:
    """Return the share of rows on which both predict the same class."""
    return float((log_p.argmax(dim=1) == log_q.argmax(dim=1)).double().mean())


@dataclass(frozen=True, slots=True)
class JsRatio:
    """One seed's distance to Retrain beside the distance of Retrains to each other."""

    to_retrain: float  # mean over the independent Retrains
    between_retrains: float  # mean over their pairs

    @property
    def value(self) -> float:
        """Return the ratio; 1 is as near to Retrain as another Retrain would be."""
        return self.to_retrain / self.between_retrains if self.between_retrains else math.inf


def js_ratio(log_p: Tensor, retrains: Sequence[Tensor]) -> JsRatio:
    """Compare outputs with those of independent Retrains on the same rows.

    Raises:
        ValueError: with fewer than two Retrains, as their spread is the unit.
    """
    if len(retrains) < 2:
        raise ValueError(f"a JS ratio needs 2 or more independent Retrains, got {len(retrains)}")
    return JsRatio(
        fmean(js_divergence(log_p, retrain) for retrain in retrains),
        fmean(js_divergence(a, b) for a, b in combinations(retrains, 2)),
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % bootstrap interval and the number of things resampled."""

    value: float
    low: float
    high: float
    n: int


def ratio_over_seeds(
    ratios: Sequence[JsRatio], generator: np.random.Generator, resamples: int = 2000
) -> Interval:
    """Return the ratio of means over seeds; the interval resamples seeds."""
    pairs = np.array([(ratio.to_retrain, ratio.between_retrains) for ratio in ratios])
    drawn = generator.integers(len(pairs), size=(resamples, len(pairs)))
    means = pairs[drawn].mean(axis=1)
    low, high = np.quantile(means[:, 0] / means[:, 1], [0.025, 0.975])
    over, under = pairs.mean(axis=0)
    return Interval(float(over / under), float(low), float(high), len(pairs))
