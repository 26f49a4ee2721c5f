"""Audits of a population: comparison of unlearned models with Retrain models."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from models.ensemble import Ensemble
from parties.common.shared_randomness import torch_seed
from parties.experiments.population.forget_sets import ForgetSet
from parties.experiments.population.pooled_data import PooledData
from parties.experiments.population.trained import TrainedPopulation
from unlearning.audit.epsilon import AttackCounts
from unlearning.audit.forgetting import label_log_odds
from unlearning.audit.lira import (
    Arm,
    LiraResult,
    likelihood_ratio_audit,
    wasserstein_distances,
    whole_model_counts,
)


@dataclass(frozen=True, slots=True)
class MethodAudit:
    """All audits of one method."""

    # Attack that distinguishes unlearned models from Retrain models, on rows that the unlearned
    # models forgot.
    vs_retrain: LiraResult
    # Attack that distinguishes rows that a model forgot from rows on which the model was never
    # trained.
    u_lira: LiraResult
    accuracies: tuple[float, ...]  # test accuracy of every model
    gap: float  # mean test accuracy minus the mean test accuracy of the Retrain models
    # For each row, a Gaussian is fitted to the confidences of the unlearned models and another to
    # those of the Retrain models; mean and 95th percentile, over rows, of the 2-Wasserstein
    # distance between both.
    distance: tuple[float, float]
    # Mean log-odds of the label on forgotten rows, minus the same mean of the Retrain models.
    confidence_gap: float
    # Two counts: how many unlearned models, and how many Retrain models, the attack classifies as
    # unlearned. A lower bound of ε is computed from these counts.
    taken: AttackCounts


class PopulationAudit:
    """Compares unlearned models with models that were retrained without the same rows."""

    def __init__(self, draw: ForgetSet, retrained: TrainedPopulation) -> None:
        self._draw, self._pooled = draw, draw.pooled
        self._labels = draw.pooled.labels[draw.pool]
        self._retrains = Arm.whole(self._confidences(retrained.original))
        self.accuracies = population_accuracies(draw.pooled, retrained.original)  # of the Retrains
        self._seed = torch_seed(draw.pooled.agreement.seed, "population audit")

    def null(self) -> LiraResult:
        """Return the null result: the attack compares two halves of the Retrain models."""
        return self._figure(*self._halves())

    def null_counts(self) -> AttackCounts:
        """Return the null result of the attack that classifies whole models, as counts.

        The attack compares two halves of the Retrain models.
        """
        return whole_model_counts(*self._halves())

    def _halves(self) -> tuple[Arm, Arm]:
        half = len(self._retrains.values) // 4 * 2
        runs = np.arange(2 * half)
        return self._retrains.of(runs[:half]), self._retrains.of(runs[half:])

    def audit_method(self, models: Ensemble) -> MethodAudit:
        """Return all audit results of one method's models."""
        values, learned = self._confidences(models), self._draw.learned
        forgot, spared = Arm(values, learned), Arm(values, ~learned)
        distances = wasserstein_distances(forgot, self._retrains)
        right = population_accuracies(self._pooled, models)
        gap = forgot.gaussians()[0].mean() - self._retrains.gaussians()[0].mean()
        return MethodAudit(
            vs_retrain=self._figure(forgot, self._retrains),
            u_lira=self._figure(forgot, spared),
            accuracies=right,
            gap=fmean(right) - fmean(self.accuracies),
            distance=(float(distances.mean()), float(np.quantile(distances, 0.95))),
            confidence_gap=float(gap),
            taken=whole_model_counts(forgot, self._retrains),
        )

    def _figure(self, first: Arm, second: Arm) -> LiraResult:
        return likelihood_ratio_audit(first, second, np.random.default_rng(self._seed))

    def _confidences(self, models: Ensemble) -> Any:
        logits = self._pooled.logits(models, self._draw.pool)
        return label_log_odds(logits, self._labels).numpy()


def population_accuracies(pooled: PooledData, models: Ensemble) -> tuple[float, ...]:
    """Return the test accuracy of every model, ``[N]``."""
    rows = pooled.rows.test
    right = pooled.logits(models, rows).argmax(dim=2) == pooled.labels[rows]
    return tuple(right.double().mean(dim=1).tolist())
