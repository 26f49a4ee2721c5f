"""Likelihood-ratio audits per example: unlearned, or never seen.

Many models are trained, half of them with x; each that saw it unlearns it. For every example x two
Gaussians are fitted to the models' confidences φ(x), one per arm, and held-out models are scored by
the logarithm of the likelihood ratio. Between "unlearned" and "never seen" this is U-LiRA (Hayes et
al., arXiv 2403.01218); between "unlearned" and "retrained without" it is the definition of
unlearning put to the test. An AUC of 0.5 is no difference; below it is as good as above, reversed.
Examples of one model are no independent trials, so an ε is proved by whole models, a trial each.

Shapes: ``values`` are φ, ``[runs, rows]``; ``taken`` says which of them belong to the arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unlearning.audit.epsilon import Tally, best_cut, count

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Runs = NDArray[np.int64]

FOLDS = 4  # models are scored by Gaussians that were fitted to the other folds of both arms
LEAST = 16  # runs that an arm needs for every example
FLOOR = 1e-3  # of a variance, in squared units of φ


@dataclass(frozen=True, slots=True)
class Arm:
    """Confidences of one kind of model, ``[runs, rows]``; ``taken`` marks those that count.

    Raises:
        ValueError: a confidence is not finite, so a model diverged; no rank could tell.
    """

    values: Floats
    taken: Mask

    def __post_init__(self) -> None:
        runs = len(self.values)
        bad = runs - int(np.isfinite(self.values).all(axis=1).sum())
        if bad:
            raise ValueError(f"{bad} of {runs} models diverged: φ is not finite")

    @classmethod
    def whole(cls, values: Floats) -> "Arm":
        """Every run counts for every row."""
        return cls(values, np.ones(values.shape, np.bool_))

    @property
    def least(self) -> int:
        """Runs behind the example that has fewest."""
        return int(self.taken.sum(axis=0).min())

    def of(self, runs: Runs) -> "Arm":
        """Some of the runs."""
        return Arm(self.values[runs], self.taken[runs])

    def gaussians(self) -> tuple[Floats, Floats]:
        """Mean and variance of every row, ``[rows]`` each."""
        count = self.taken.sum(axis=0)
        mean = np.where(self.taken, self.values, 0.0).sum(axis=0) / np.maximum(count, 1)
        square = np.where(self.taken, (self.values - mean) ** 2, 0.0).sum(axis=0)
        return mean, np.maximum(square / np.maximum(count - 1, 1), FLOOR)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the audit found.

    Attributes:
        auc: of telling the first arm from the second.
        error: one standard error of it, by bootstrap over models.
        balanced_accuracy: at the threshold 0 of the log ratio.
        tpr: true positive rate at each of ``rates`` false positives.
        worst: AUC at the 90th percentile of examples, by distance from 0.5.
        runs: models behind the example that has fewest, of both arms.
        rows: examples.
    """

    auc: float
    error: float
    balanced_accuracy: float
    tpr: tuple[float, ...]
    rates: tuple[float, ...]
    worst: float
    runs: int
    rows: int


def audit(
    first: Arm,
    second: Arm,
    generator: np.random.Generator,
    *,
    resamples: int = 100,
    pairs: bool = True,
) -> Verdict:
    """Tell models of the ``first`` arm from those of the ``second``.

    ``pairs``: runs 2k and 2k + 1 share what they were trained on and stay in one fold.

    Raises:
        ValueError: an example has fewer than ``LEAST`` runs in an arm, or the rows differ.
    """
    if first.values.shape[1] != second.values.shape[1]:
        raise ValueError("the arms have other rows")
    least = min(first.least, second.least)
    if least < LEAST:
        raise ValueError(f"an example has {least} runs in an arm; at least {LEAST} are needed")
    folds = [_folds(len(arm.values), pairs) for arm in (first, second)]
    scores = [_scored(first, second, *folds)]
    drawn = (tuple(_resampled(fold, generator) for fold in folds) for _ in range(resamples))
    aucs = [_auc(*_flat(_scored(first, second, a, b))) for a, b in drawn]
    ours, theirs = _flat(scores[0])
    rates = (0.001, 0.01)
    return Verdict(
        auc=_auc(ours, theirs),
        error=float(np.std(aucs, ddof=1)),
        balanced_accuracy=float(((ours > 0).mean() + (theirs <= 0).mean()) / 2),
        tpr=tuple(float((ours > np.quantile(theirs, 1 - rate)).mean()) for rate in rates),
        rates=rates,
        worst=_worst(scores[0]),
        runs=least,
        rows=first.values.shape[1],
    )


def tally(forgot: Arm, retrained: Arm) -> Tally:
    """Count how often a whole model is taken for one that unlearned: what bounds an ε.

    Run n of both arms is scored on the examples that count in run n of the first, by the mean of
    the log ratios: given these examples, all models are independent. Gaussians and threshold are
    learned from the first half of the runs, and the others are counted.

    Raises:
        ValueError: the arms differ in shape, or an example has fewer than half of ``LEAST`` runs.
    """
    if forgot.values.shape != retrained.values.shape:
        raise ValueError("whole models are counted in arms of equally many runs and rows")
    runs = np.arange(len(forgot.values))
    half = len(runs) // 4 * 2  # pairs stay together
    taught, counted = runs[:half], runs[half:]
    least = min(arm.of(taught).least for arm in (forgot, retrained))
    if least < LEAST // 2:
        raise ValueError(f"an example has {least} runs to learn from; {LEAST // 2} are needed")
    folds = [taught[fold] for fold in _folds(half, True)]
    rest = [np.setdiff1d(taught, fold) for fold in folds]
    scored = [_means(forgot, retrained, *each) for each in zip(rest, folds, strict=True)]
    ours, theirs = (np.concatenate(side) for side in zip(*scored, strict=True))
    cut = best_cut(ours, theirs)
    return count(*_means(forgot, retrained, taught, counted), cut)


def _means(first: Arm, second: Arm, taught: Runs, scored: Runs) -> tuple[Floats, Floats]:
    """The mean log ratio of whole models of both arms, over the rows that count in the first."""
    a, b = first.of(taught).gaussians(), second.of(taught).gaussians()
    taken = first.taken[scored]
    ours, theirs = (
        (_log_ratio(arm.values[scored], a, b) * taken).sum(axis=1) / taken.sum(axis=1)
        for arm in (first, second)
    )
    return ours, theirs


def wasserstein(first: Arm, second: Arm) -> Floats:
    """Return the 2-Wasserstein distance of the two Gaussians of every row, ``[rows]``."""
    (mean_a, var_a), (mean_b, var_b) = first.gaussians(), second.gaussians()
    # W2² = (μ_a − μ_b)² + (σ_a − σ_b)².
    found: Floats = np.hypot(mean_a - mean_b, np.sqrt(var_a) - np.sqrt(var_b))
    return found


def _folds(runs: int, pairs: bool) -> list[Runs]:
    unit = np.arange(runs) // 2 if pairs else np.arange(runs)
    return [np.flatnonzero(unit % FOLDS == fold) for fold in range(FOLDS)]


def _resampled(folds: Sequence[Runs], generator: np.random.Generator) -> list[Runs]:
    """Runs drawn anew within every fold, so that no model is on both sides of a fit."""
    return [generator.choice(fold, len(fold)) for fold in folds]


_Scores = list[tuple[Floats, Mask, Floats, Mask]]


def _scored(first: Arm, second: Arm, ours: Sequence[Runs], theirs: Sequence[Runs]) -> _Scores:
    """Log likelihood ratios of every fold by Gaussians of the others, and which of them count."""
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
    """Log N(φ; first) − log N(φ; second), ``[runs, rows]``."""
    (mean_a, var_a), (mean_b, var_b) = first, second
    found: Floats = (
        0.5 * np.log(var_b / var_a)
        - 0.5 * (values - mean_a) ** 2 / var_a
        + 0.5 * (values - mean_b) ** 2 / var_b
    )
    return found


def _flat(scores: _Scores) -> tuple[Floats, Floats]:
    ours = np.concatenate([ratio[taken] for ratio, taken, _, _ in scores])
    theirs = np.concatenate([ratio[taken] for _, _, ratio, taken in scores])
    return ours, theirs


def _auc(ours: Floats, theirs: Floats) -> float:
    """Probability that one of ours is above one of theirs; a tie is half."""
    order = np.sort(theirs)
    below = np.searchsorted(order, ours, "left") + np.searchsorted(order, ours, "right")
    return float(below.mean() / (2 * len(order)))


def _worst(scores: _Scores) -> float:
    """The AUC of single examples at the 90th percentile of their distance from 0.5."""
    rows = scores[0][0].shape[1]
    each = [
        _auc(*_flat([tuple(part[:, [row]] for part in fold) for fold in scores]))  # type: ignore[misc]
        for row in range(rows)
    ]
    return 0.5 + float(np.quantile(np.abs(np.array(each) - 0.5), 0.9))
