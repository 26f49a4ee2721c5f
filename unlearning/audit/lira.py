"""Likelihood-ratio audits (LiRA), which decide whether an example was unlearned or never used.

Many models are trained; half of the models are trained with example x and then unlearn x. For each
x and for each arm (group of models) a Gaussian is fitted to the models' confidences φ(x), and
held-out models are scored by the logarithm of the likelihood ratio. The comparison of "unlearned"
with "never seen" is U-LiRA (Hayes et al., arXiv 2403.01218); the comparison of "unlearned" with
"retrained without x" tests the definition of unlearning. An AUC of 0.5 means no difference. An AUC
below 0.5 is a difference too, because the sign of the scores can be reversed. The scores of
several examples on one model are not independent. A bound of ε needs independent trials, so each
model counts as one trial.

Shapes: ``values`` are φ, ``[runs, rows]``; ``taken`` marks the entries that belong to the arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unlearning.audit.epsilon import AttackCounts, best_threshold, count_above

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Runs = NDArray[np.int64]

FOLDS = 4  # models are scored by Gaussians that were fitted to the other folds of both arms
MIN_RUNS = 16  # per arm, for each example
MIN_VARIANCE = 1e-3  # in squared units of φ


@dataclass(frozen=True, slots=True)
class Arm:
    """Confidences of models, ``[runs, rows]``; ``taken`` marks the entries that belong to the arm.

    Raises:
        ValueError: a confidence is not finite, because a model diverged.
    """

    values: Floats
    taken: Mask

    def __post_init__(self) -> None:
        """Check that all confidences are finite.

        Raises:
            ValueError: a confidence is not finite.
        """
        runs = len(self.values)
        bad = runs - int(np.isfinite(self.values).all(axis=1).sum())
        if bad:
            raise ValueError(
                f"{bad} of {runs} models diverged (φ is not finite); leave out these models"
            )

    @classmethod
    def whole(cls, values: Floats) -> "Arm":
        """Return an arm to which all entries of ``values``, ``[runs, rows]``, belong."""
        return cls(values, np.ones(values.shape, np.bool_))

    @property
    def least(self) -> int:
        """Smallest number of runs that an example has in this arm."""
        return int(self.taken.sum(axis=0).min())

    def of(self, runs: Runs) -> "Arm":
        """Return the arm with only the runs at the positions ``runs``, ``[chosen]``."""
        return Arm(self.values[runs], self.taken[runs])

    def gaussians(self) -> tuple[Floats, Floats]:
        """Return mean and variance of φ of each row over the runs in the arm, ``[rows]`` each."""
        count = self.taken.sum(axis=0)
        mean = np.where(self.taken, self.values, 0.0).sum(axis=0) / np.maximum(count, 1)
        square = np.where(self.taken, (self.values - mean) ** 2, 0.0).sum(axis=0)
        return mean, np.maximum(square / np.maximum(count - 1, 1), MIN_VARIANCE)


@dataclass(frozen=True, slots=True)
class LiraResult:
    """Result of a likelihood-ratio audit."""

    auc: float  # AUC of separating the first arm from the second
    error: float  # standard error of the AUC, by bootstrap over models
    balanced_accuracy: float  # balanced accuracy at the threshold 0 of the log ratio
    tpr: tuple[float, ...]  # true positive rate at each of the false positive rates ``rates``
    rates: tuple[float, ...]
    worst: float  # 0.5 plus the 90th percentile over examples of |AUC of the example − 0.5|
    runs: int  # smallest number of runs that an example has in one of the two arms
    rows: int  # number of examples


def likelihood_ratio_audit(
    first: Arm,
    second: Arm,
    generator: np.random.Generator,
    *,
    resamples: int = 100,
    pairs: bool = True,
) -> LiraResult:
    """Measure how well models of the ``first`` arm and of the ``second`` arm can be told apart.

    If ``pairs`` is True, the models of the runs 2k and 2k + 1 were trained on the same rows. These
    two runs are then put into the same fold.

    Raises:
        ValueError: an example has fewer than ``MIN_RUNS`` runs in an arm, or the arms have
            different numbers of rows.
    """
    if first.values.shape[1] != second.values.shape[1]:
        raise ValueError(
            "the two arms (groups of models) of a likelihood-ratio audit must have the same rows, "
            "but have different numbers of rows"
        )
    least = min(first.least, second.least)
    if least < MIN_RUNS:
        raise ValueError(
            f"an example has {least} runs in one of the two arms; expected {MIN_RUNS} or more"
        )
    folds = [_folds(len(arm.values), pairs) for arm in (first, second)]
    scores = [_scored(first, second, *folds)]
    drawn = (tuple(_resampled(fold, generator) for fold in folds) for _ in range(resamples))
    aucs = [_auc(*_flat(_scored(first, second, a, b))) for a, b in drawn]
    ours, theirs = _flat(scores[0])
    rates = (0.001, 0.01)
    return LiraResult(
        auc=_auc(ours, theirs),
        error=float(np.std(aucs, ddof=1)),
        balanced_accuracy=float(((ours > 0).mean() + (theirs <= 0).mean()) / 2),
        tpr=tuple(float((ours > np.quantile(theirs, 1 - rate)).mean()) for rate in rates),
        rates=rates,
        worst=_worst(scores[0]),
        runs=least,
        rows=first.values.shape[1],
    )


def whole_model_counts(forgot: Arm, retrained: Arm) -> AttackCounts:
    """Count the models that the audit classifies as unlearned; the counts give a bound of ε.

    In both arms, the score of run n is the mean log ratio over the same examples: those that the
    model of run n of ``forgot`` unlearned. Given these examples, all models are independent of each
    other. The Gaussians and the threshold are fitted to the first half of the runs. Only the runs
    of the second half are counted.

    Raises:
        ValueError: the arms differ in shape, or an example has fewer than ``MIN_RUNS`` / 2 runs in
            the first half.
    """
    if forgot.values.shape != retrained.values.shape:
        raise ValueError(
            "the two arms (groups of models) have different numbers of runs or of rows"
        )
    runs = np.arange(len(forgot.values))
    half = len(runs) // 4 * 2  # an even number, so that pairs stay together
    fitted, counted = runs[:half], runs[half:]
    least = min(arm.of(fitted).least for arm in (forgot, retrained))
    if least < MIN_RUNS // 2:
        raise ValueError(
            f"an example has {least} runs in the first half of one of the two arms; expected "
            f"{MIN_RUNS // 2} or more"
        )
    folds = [fitted[fold] for fold in _folds(half, True)]
    rest = [np.setdiff1d(fitted, fold) for fold in folds]
    scored = [_means(forgot, retrained, *each) for each in zip(rest, folds, strict=True)]
    ours, theirs = (np.concatenate(side) for side in zip(*scored, strict=True))
    threshold = best_threshold(ours, theirs)
    return count_above(*_means(forgot, retrained, fitted, counted), threshold)


def _means(first: Arm, second: Arm, fitted: Runs, scored: Runs) -> tuple[Floats, Floats]:
    """Return the mean log ratio of each scored run of both arms, over the first arm's rows."""
    a, b = first.of(fitted).gaussians(), second.of(fitted).gaussians()
    taken = first.taken[scored]
    ours, theirs = (
        (_log_ratio(arm.values[scored], a, b) * taken).sum(axis=1) / taken.sum(axis=1)
        for arm in (first, second)
    )
    return ours, theirs


def wasserstein_distances(first: Arm, second: Arm) -> Floats:
    """Return, for each row, the 2-Wasserstein distance of the two arms' Gaussians, ``[rows]``."""
    (mean_a, var_a), (mean_b, var_b) = first.gaussians(), second.gaussians()
    # Gaussians in one dimension (Givens and Shortt 1984): W2² = (μ_a − μ_b)² + (σ_a − σ_b)².
    distances: Floats = np.hypot(mean_a - mean_b, np.sqrt(var_a) - np.sqrt(var_b))
    return distances


def _folds(runs: int, pairs: bool) -> list[Runs]:
    unit = np.arange(runs) // 2 if pairs else np.arange(runs)
    return [np.flatnonzero(unit % FOLDS == fold) for fold in range(FOLDS)]


def _resampled(folds: Sequence[Runs], generator: np.random.Generator) -> list[Runs]:
    """Draw runs with replacement within each fold, so that no model is scored by its own fit."""
    return [generator.choice(fold, len(fold)) for fold in folds]


_Scores = list[tuple[Floats, Mask, Floats, Mask]]


def _scored(first: Arm, second: Arm, ours: Sequence[Runs], theirs: Sequence[Runs]) -> _Scores:
    """Return each fold's log ratios by Gaussians of the other folds, and which of them count."""
    found: _Scores = []
    for fold in range(FOLDS):
        rest = [
            np.concatenate([part for place, part in enumerate(parts) if place != fold])
            for parts in (ours, theirs)
        ]
        a, b = first.of(rest[0]).gaussians(), second.of(rest[1]).gaussians()
        held = (first.of(ours[fold]), second.of(theirs[fold]))
        ratios = [_log_ratio(arm.values, a, b) for arm in held]
        found.append((ratios[0], held[0].taken, ratios[1], held[1].taken))
    return found


def _log_ratio(
    values: Floats, first: tuple[Floats, Floats], second: tuple[Floats, Floats]
) -> Floats:
    """Return log N(φ; first) − log N(φ; second), ``[runs, rows]``."""
    (mean_a, var_a), (mean_b, var_b) = first, second
    ratios: Floats = (
        0.5 * np.log(var_b / var_a)
        - 0.5 * (values - mean_a) ** 2 / var_a
        + 0.5 * (values - mean_b) ** 2 / var_b
    )
    return ratios


def _flat(scores: _Scores) -> tuple[Floats, Floats]:
    ours = np.concatenate([ratio[taken] for ratio, taken, _, _ in scores])
    theirs = np.concatenate([ratio[taken] for _, _, ratio, taken in scores])
    return ours, theirs


def _auc(ours: Floats, theirs: Floats) -> float:
    """Return the probability that one of ``ours`` is above one of ``theirs``; a tie counts half."""
    order = np.sort(theirs)
    below = np.searchsorted(order, ours, "left") + np.searchsorted(order, ours, "right")
    return float(below.mean() / (2 * len(order)))


def _worst(scores: _Scores) -> float:
    """Return the AUC of single examples at the 90th percentile of their distance from 0.5."""
    rows = scores[0][0].shape[1]
    each = [
        _auc(*_flat([tuple(part[:, [row]] for part in fold) for fold in scores]))  # type: ignore[misc]
        for row in range(rows)
    ]
    return 0.5 + float(np.quantile(np.abs(np.array(each) - 0.5), 0.9))
