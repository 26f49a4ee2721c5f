"""The strong audits of a population: unlearned models before a court of Retrains."""

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from models.ensemble import Ensemble
from parties.common.shared_randomness import torch_seed
from parties.experiments.population.forget_sets import Draw
from parties.experiments.population.pooled_data import Together
from parties.experiments.population.trained import Trained
from unlearning.audit.epsilon import Tally
from unlearning.audit.forgetting import label_odds
from unlearning.audit.lira import Arm, audit, tally, wasserstein


@dataclass(frozen=True, slots=True)
class Figure:
    """One audit of one kind of model, as the tables show it."""

    auc: float
    error: float
    balanced_accuracy: float
    tpr: tuple[float, ...]
    rates: tuple[float, ...]
    worst: float
    runs: int
    rows: int


@dataclass(frozen=True, slots=True)
class Judged:
    """How one kind of model fared.

    Attributes:
        vs_retrain: unlearned models against Retrains, on rows that the former forgot.
        u_lira: rows that a model forgot against rows that it never saw.
        accuracies: on test rows, of every model.
        gap: of their mean to Retrain's.
        distance: 2-Wasserstein between the arms' Gaussians, mean and 95th percentile over rows.
        confidence_gap: mean φ on forgotten rows minus Retrain's.
        taken: how often whole models, each one trial, were taken for unlearned ones, against
            Retrains that were: a lower bound of ε follows from it.
    """

    vs_retrain: Figure
    u_lira: Figure
    accuracies: tuple[float, ...]
    gap: float
    distance: tuple[float, float]
    confidence_gap: float
    taken: Tally


class Court:
    """Judges models against the Retrains of one draw."""

    def __init__(self, draw: Draw, retrained: Trained) -> None:
        self._draw, self._together = draw, draw.together
        self._labels = draw.together.labels[draw.pool]
        self._retrains = Arm.whole(self._confidences(retrained.original))
        self.accuracies = accuracies(draw.together, retrained.original)  # of the Retrains
        self._seed = torch_seed(draw.together.agreement.seed, "population audit")

    def null(self) -> Figure:
        """One half of the Retrains against the other: what chance alone gives."""
        return self._figure(*self._halves())

    def null_taken(self) -> Tally:
        """The same halves as whole models, each one trial."""
        return tally(*self._halves())

    def _halves(self) -> tuple[Arm, Arm]:
        half = len(self._retrains.values) // 4 * 2
        runs = np.arange(2 * half)
        return self._retrains.of(runs[:half]), self._retrains.of(runs[half:])

    def judge(self, models: Ensemble) -> Judged:
        """All figures of one kind of model."""
        values, learned = self._confidences(models), self._draw.learned
        forgot, spared = Arm(values, learned), Arm(values, ~learned)
        distances = wasserstein(forgot, self._retrains)
        right = accuracies(self._together, models)
        gap = forgot.gaussians()[0].mean() - self._retrains.gaussians()[0].mean()
        return Judged(
            vs_retrain=self._figure(forgot, self._retrains),
            u_lira=self._figure(forgot, spared),
            accuracies=right,
            gap=fmean(right) - fmean(self.accuracies),
            distance=(float(distances.mean()), float(np.quantile(distances, 0.95))),
            confidence_gap=float(gap),
            taken=tally(forgot, self._retrains),
        )

    def _figure(self, first: Arm, second: Arm) -> Figure:
        return Figure(**asdict(audit(first, second, np.random.default_rng(self._seed))))

    def _confidences(self, models: Ensemble) -> Any:
        logits = self._together.logits(models, self._draw.pool)
        return label_odds(logits, self._labels).numpy()


def accuracies(together: Together, models: Ensemble) -> tuple[float, ...]:
    """Share of right answers on test rows, of every model."""
    rows = together.rows.test
    right = together.logits(models, rows).argmax(dim=2) == together.labels[rows]
    return tuple(right.double().mean(dim=1).tolist())
