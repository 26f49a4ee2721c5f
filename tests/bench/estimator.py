"""Figures: bias and coverage of the corrected AUC of likelihood-ratio audits.

Synthetic studies with five seeds are audited, corrected and given an interval, as the forgetting
tables are. Their shifts have a known true AUC, and the rows of one model share two components.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from bench.ledger import Row, shown
from numpy.typing import NDArray

from unlearning.audit.bias_curve import (
    COMMON_SHARE,
    BiasCurve,
    CorrectedAuc,
    RowCorrelation,
    bias_curve,
    corrected_auc,
    shifts_of_auc,
)
from unlearning.audit.lira import AuditLayout, attack_aucs, stronger_auc

Floats = NDArray[np.float64]
Report = Callable[[str], None]

DRAWS = 200
TRUE = (0.50, 0.55, 0.60, 0.65)
SHARES = {COMMON_SHARE: "", 1.0: ", all of the shift common", 0.0: ", no shift common"}
SIMULATIONS = 10  # per seed; the error of the curve is a part of the interval
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
            for study in pool.map(lambda seed: corrected_study(design, seed), seeds):
                found.append(study)
                report(f"estimator: {design.name}, draw {len(found)} of {DRAWS}")
        yield from _rows(design, found)


def corrected_study(design: Design, seed: np.random.SeedSequence) -> Mapping[_Key, CorrectedAuc]:
    """Return the corrected AUCs of one synthetic study."""
    generator = np.random.default_rng(seed)
    estimates: dict[_Key, list[float]] = {}
    curves: dict[str, list[BiasCurve]] = {}
    for rows in design.rows:
        learned = _halves(design.runs, rows, generator)
        forgot, retrains = _models(design.runs, rows, generator)
        correlation = RowCorrelation.of(retrains)
        for audit, layout, other in (
            ("vs-Retrain", AuditLayout.vs_retrain(learned, design.runs), retrains),
            ("U-LiRA", AuditLayout.u_lira(learned), forgot),
        ):
            curve = bias_curve(layout, correlation, generator, simulations=SIMULATIONS)
            curves.setdefault(audit, []).append(curve)
            for share in SHARES:
                order = generator.permutation(rows)
                for true in TRUE:
                    shifted = forgot + shifts_of_auc(rows, share, true)[order]
                    estimate = float(stronger_auc(attack_aucs(shifted, other, layout)))
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
    for key in found[0]:
        audit, share, true = key
        name = f"{design.name}, {audit}, true AUC {true:.2f}{SHARES[share]}"
        each = [study[key] for study in found]
        mean = fmean(one.value for one in each)
        estimate = fmean(one.estimate for one in each)
        covered = 100 * fmean(one.low <= true <= one.high for one in each)
        if share != COMMON_SHARE:
            yield shown(f"{name}: corrected mean", mean, f"covered in {covered:.0f} %")
            continue
        yield shown(f"{name}: mean estimate before the correction", estimate, "")
        yield Row(
            f"{name}: corrected mean", mean, "", f"within {TOLERANCE:g} of {true:g}",
            abs(mean - true) <= TOLERANCE,
        )  # fmt: skip
        low, high = COVERAGE
        yield Row(
            f"{name}: interval covers", covered, f"% of {DRAWS} draws", f"{low:g} to {high:g}",
            low <= covered <= high,
        )  # fmt: skip
        width = fmean(one.high - one.low for one in each)
        yield shown(f"{name}: mean width of the interval", width, "")
