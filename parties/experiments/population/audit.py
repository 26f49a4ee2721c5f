"""Audits of a population: comparison of unlearned models with Retrain models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parties.experiments.population.measured import Measured
from unlearning.audit.bias_curve import BiasCurve, RowCorrelation, SeedEstimate, bias_curve
from unlearning.audit.epsilon import AttackCounts
from unlearning.audit.lira import (
    Arm,
    AuditLayout,
    attack_aucs,
    excess_auc,
    squared_shifts,
    stronger_auc,
    wasserstein_distances,
    whole_model_counts,
    worst_row_aucs,
)

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
VS_RETRAIN, U_LIRA = "vs_retrain", "u_lira"
DIVISIONS: Final = 20  # divisions of the Retrain models into halves, for the null
AUDITS: Final[Mapping[str, str]] = MappingProxyType(
    {U_LIRA: "leak (U-LiRA AUC)", VS_RETRAIN: "closeness (vs-Retrain AUC)"}
)


@dataclass(frozen=True, slots=True)
class SeedEstimates:
    """The audits of one method on the models of one seed, before any correction."""

    auc: dict[str, SeedEstimate]  # by audit; AUC of the stronger of two attacks, and the shifts
    worst: dict[str, float]  # by audit; ``worst_row_aucs``
    # vs-Retrain AUC on forgotten rows minus that on rows that the same models never saw.
    excess: float
    # For each row, a Gaussian is fitted to the confidences of the unlearned models and another to
    # those of the Retrain models; mean over rows of the 2-Wasserstein distance between both.
    distance: float
    # How many unlearned models, and how many Retrain models, an attack on whole models classifies
    # as unlearned. A lower bound of ε is computed from these counts.
    taken: AttackCounts


class PopulationAudit:
    """Audits the methods of one population and one seed against its Retrain models."""

    def __init__(self, learned: Mask, retrain: Measured) -> None:
        """Use the rows ``learned`` by each run, ``[runs, pool]``, and its Retrain models."""
        self._learned = learned
        self._retrains = Arm.whole(retrain.calibrated)
        self._raw = retrain.confidences
        self._seed = len(learned)  # of the synthetic populations, equal for all seeds

    def estimates(self, method: Measured) -> SeedEstimates:
        """Return the audits of one method.

        ``vs_retrain`` compares calibrated confidences, because the audit is about what the models
        know of the rows. ``u_lira`` compares confidences as the models give them.
        """
        forgot, layout = Arm(method.calibrated, self._learned), self._layouts()
        values = {
            VS_RETRAIN: (method.calibrated, self._retrains.values),
            U_LIRA: (method.confidences, method.confidences),
        }
        return SeedEstimates(
            {name: _estimate(*values[name], layout[name]) for name in AUDITS},
            {name: _worst(*values[name], layout[name]) for name in AUDITS},
            excess_auc(forgot, self._retrains).excess,
            float(wasserstein_distances(forgot, self._retrains).mean()),
            whole_model_counts(forgot, self._retrains),
        )

    def null(self) -> SeedEstimates:
        """Return the audits of two halves of the Retrain models; no difference is to be found.

        The AUC is the mean over several divisions of the models into halves: one division has a
        standard deviation of 0.02.
        """
        generator = np.random.default_rng(self._seed)
        found = [self._null(*self._halves(generator)) for _ in range(DIVISIONS)]
        estimate = SeedEstimate(*np.mean([each.auc[VS_RETRAIN] for each in found], axis=0).tolist())
        worst = float(np.mean([each.worst[VS_RETRAIN] for each in found]))
        return replace(found[0], auc={VS_RETRAIN: estimate}, worst={VS_RETRAIN: worst})

    def _null(self, first: Arm, second: Arm) -> SeedEstimates:
        layout = AuditLayout(first.taken, second.taken)
        return SeedEstimates(
            {VS_RETRAIN: _estimate(first.values, second.values, layout)},
            {VS_RETRAIN: _worst(first.values, second.values, layout)},
            0.0,
            0.0,
            whole_model_counts(first, second),
        )

    def curves(self) -> dict[str, BiasCurve]:
        """Return the bias curves of both audits, and that of the null under the name ``null``."""
        first, second = self._halves(np.random.default_rng(self._seed))
        layouts = self._layouts() | {"null": AuditLayout(first.taken, second.taken)}
        correlation = {name: RowCorrelation.of(self._retrains.values) for name in layouts}
        correlation[U_LIRA] = RowCorrelation.of(self._raw)
        return {
            name: bias_curve(layout, correlation[name], np.random.default_rng(self._seed))
            for name, layout in layouts.items()
        }

    def _layouts(self) -> dict[str, AuditLayout]:
        return {
            VS_RETRAIN: AuditLayout.vs_retrain(self._learned, len(self._raw)),
            U_LIRA: AuditLayout.u_lira(self._learned),
        }

    def _halves(self, generator: np.random.Generator) -> tuple[Arm, Arm]:
        """Divide the Retrain models at random into halves; all of them learned the same rows."""
        half = len(self._retrains.values) // 4 * 2
        runs = generator.permutation(len(self._retrains.values))
        return self._retrains.of(runs[:half]), self._retrains.of(runs[half : 2 * half])


def leak(method: Measured, learned: Mask) -> float:
    """Return the U-LiRA AUC of a method, or 1 minus it: 0.5 means no leak.

    ``learned`` marks the rows that each run forgot, ``[runs, pool]``.
    """
    values, layout = method.confidences, AuditLayout.u_lira(learned)
    return 0.5 + abs(_estimate(values, values, layout).auc - 0.5)


def _estimate(first: Floats, second: Floats, layout: AuditLayout) -> SeedEstimate:
    auc = float(stronger_auc(attack_aucs(first, second, layout)))
    return SeedEstimate(auc, *squared_shifts(first, second, layout))


def _worst(first: Floats, second: Floats, layout: AuditLayout) -> float:
    found: Any = worst_row_aucs(first[None], second[None], layout)[0]
    return float(found)
