"""The summary of a study: the figures of every method on every population, over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Final, TypeAlias

from parties.vertical.methods.fedora import ConstraintUse
from unlearning.audit.bias_curve import BiasCurve, CorrectedAuc
from unlearning.audit.epsilon import EpsilonBound
from unlearning.audit.equivalence import SeedEquivalence

NULL: Final = "Retrain against Retrain"
MeasurementKey: TypeAlias = tuple[str, int, str]  # population, seed and row


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of a figure over seeds, with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return mean and standard error of one value per seed."""
        error = stdev(values) / sqrt(len(values)) if len(values) > 1 else float("nan")
        return cls(fmean(values), error)


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """One method on a population over all seeds; None where a figure does not exist."""

    population: str
    name: str
    way: str  # name of the method in the study's file
    settings: dict[str, Any]  # settings that differ from the agreement's
    auc: dict[str, CorrectedAuc]  # by audit
    worst: dict[str, float]  # by audit; mean over seeds of ``worst_row_aucs``
    excess: Spread  # AUC against Retrain on forgotten rows minus that on rows never seen
    gap: Spread  # test accuracy minus that of the Retrain models, in percentage points
    changed: Spread  # remaining rows whose class differs from the original model's, in percent
    triggered: Spread | None  # excess success rate of the trigger, in percent
    planted: Spread | None  # forgotten canaries with their planted label, in percent
    rows: float  # rows whose embeddings crossed, relative to Retrain
    distance: float
    models: int  # unlearned models per seed; there are as many Retrain models
    training_rows: int  # of each model before unlearning
    # Lower bound of ε from the attack that classifies whole models, over all seeds.
    bound: EpsilonBound
    # Whether the test accuracy is equivalent to that of Retrain; None for the Retrain models.
    equivalent: SeedEquivalence | None = None
    # How FedORA used its constraint, mean over models and seeds; None for other methods.
    constraint: ConstraintUse | None = None
    # The estimate of U-LiRA before the correction, one per seed; empty if it was not recorded.
    leaks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PopulationSummary:
    """All methods on a population, and the bias curves of its audits, averaged over seeds."""

    name: str
    curves: dict[str, BiasCurve]  # by audit, and ``null``
    methods: list[MethodSummary]

    def method(self, name: str) -> MethodSummary:
        """Return the summary of the method ``name``."""
        return next(each for each in self.methods if each.name == name)
