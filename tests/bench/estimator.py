"""Figures: bias and coverage of the corrected AUC of likelihood-ratio audits.

Synthetic studies with five seeds are audited, corrected and given an interval, as the forgetting
tables are. Their shifts have a known true AUC, and the rows of one model share two components.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from bench.ledger import Row, shown
from numpy.typing import NDArray

from unlearning.audit.bias_curve import (
    BiasCurve,
    CorrectedAuc,
    RowCorrelation,
    SeedEstimate,
    bias_curve,
    corrected_auc,
    shifts_of_auc,
)
from unlearning.audit.lira import AuditLayout, attack_aucs, squared_shifts, stronger_auc

Floats = NDArray[np.float64]
Report = Callable[[str], None]

DRAWS = 200
TRUE = (0.50, 0.55, 0.60, 0.65)
MIXED = 0.5
SHARES = {MIXED: "half of the shift common", 1.0: "all common", 0.0: "none common"}
SIMULATIONS = 4  # per seed; the error of the curve is a part of the interval
TOLERANCE, COVERAGE = 0.01, (90.0, 98.0)
CORRELATION = 0.25  # mean correlation of two rows, from two components of each model


@dataclass(frozen=True, slots=True)
class Design:
    """Number of models per arm and number of rows of each seed."""

    name: str
    runs: int
    rows: tuple[int, ...]


DESIGNS = (
    Design("64 models, 60 to 130 rows", 64, (60, 80, 96, 112, 130)),
    Design("32 models, 200 rows", 32, (200,) * 5),
    Design("32 models, 300 rows", 32, (300,) * 5),
)
_Key = tuple[str, float, float]  # audit, share, true AUC


def estimator(report: Report) -> Iterator[Row]:
    """Measure mean and coverage of the corrected AUC, for each design, audit and true AUC."""
    for design in DESIGNS:
        found: list[Mapping[_Key, CorrectedAuc]] = []
        seeds = np.random.SeedSequence(2026).spawn(DRAWS)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for study in pool.map(partial(corrected_study, design), seeds):
                found.append(study)
                report(f"estimator: {design.name}, draw {len(found)} of {DRAWS}")
        yield from _rows(design, found)


def corrected_study(design: Design, seed: np.random.SeedSequence) -> Mapping[_Key, CorrectedAuc]:
    """Return the corrected AUCs of one synthetic study."""
    generator = np.random.default_rng(seed)
    estimates: dict[_Key, list[SeedEstimate]] = {}
    curves: dict[str, list[BiasCurve]] = {}
    for rows in design.rows:
        learned = _halves(design.runs, rows, generator)
        forgot, retrains = _models(design.runs, rows, generator)
        correlation = RowCorrelation.of(retrains)
        for audit, layout, other in (
            ("vs-Retrain", AuditLayout.vs_retrain(learned, design.runs), retrains),
            ("U-LiRA", AuditLayout.u_lira(learned), forgot),
        ):
            curve = bias_curve(layout, correlation, generator, SIMULATIONS)
            curves.setdefault(audit, []).append(curve)
            for share in SHARES:
                order = generator.permutation(rows)
                for true in TRUE:
                    shifted = forgot + shifts_of_auc(rows, share, true)[order]
                    auc = float(stronger_auc(attack_aucs(shifted, other, layout)))
                    estimate = SeedEstimate(auc, *squared_shifts(shifted, other, layout))
                    estimates.setdefault((audit, share, true), []).append(estimate)
    return {key: corrected_auc(each, curves[key[0]]) for key, each in estimates.items()}


def _halves(runs: int, rows: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    first = generator.permuted(np.arange(runs // 2 * rows).reshape(-1, rows) % rows, axis=1)
    taken = first < rows // 2
    return np.stack([taken, ~taken], axis=1).reshape(runs, rows)


def _models(runs: int, rows: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return confidences of two arms from the same distribution, ``[runs, rows]`` each."""
    # One component moves all rows the same way, the other each row its own way.
    loads = np.stack([np.ones(rows), generator.uniform(-1, 1, rows)]) * CORRELATION**0.5
    own = np.sqrt(1 - (loads**2).sum(axis=0))
    shared = generator.standard_normal((2, runs, 2)) @ loads
    values = shared + own * generator.standard_normal((2, runs, rows))
    return values[0], values[1]


def _rows(design: Design, found: Sequence[Mapping[_Key, CorrectedAuc]]) -> Iterator[Row]:
    for audit in ("vs-Retrain", "U-LiRA"):
        for true in TRUE:
            yield from _cell(
                f"{design.name}, {audit}, true AUC {true:.2f}", (audit, MIXED, true), found
            )
        for share, text in SHARES.items():
            if share != MIXED:
                keys = [(audit, share, true) for true in TRUE]
                errors = [abs(_mean(found, key) - key[2]) for key in keys]
                covered = [_covered(found, key) for key in keys]
                yield shown(
                    f"{design.name}, {audit}, {text}: largest error of the corrected mean",
                    max(errors),
                    f"covered in {min(covered):.1f} to {max(covered):.1f} % of {DRAWS} draws",
                )


def _cell(name: str, key: _Key, found: Sequence[Mapping[_Key, CorrectedAuc]]) -> Iterator[Row]:
    true, (low, high) = key[2], COVERAGE
    mean, covered = _mean(found, key), _covered(found, key)
    read = fmean(study[key].estimate for study in found)
    width = fmean(study[key].high - study[key].low for study in found)
    yield Row(
        f"{name}: corrected mean", mean, f"(estimate {read:.3f})",
        f"within {TOLERANCE:g} of {true:.2f}", abs(mean - true) <= TOLERANCE,
    )  # fmt: skip
    yield Row(
        f"{name}: interval covers", covered, f"% of {DRAWS} draws (mean width {width:.3f})",
        f"{low:g} to {high:g}", low <= covered <= high,
    )  # fmt: skip


def _mean(found: Sequence[Mapping[_Key, CorrectedAuc]], key: _Key) -> float:
    return fmean(study[key].value for study in found)


def _covered(found: Sequence[Mapping[_Key, CorrectedAuc]], key: _Key) -> float:
    """Return the percentage of studies whose interval holds the true AUC."""
    return 100 * fmean(study[key].low <= key[2] <= study[key].high for study in found)
