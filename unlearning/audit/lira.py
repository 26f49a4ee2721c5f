"""Likelihood-ratio audits (LiRA), which decide whether an example was unlearned or never used.

Many models are trained; half of the models are trained with example x and then unlearn x. For each
x and for each arm (group of models) a Gaussian is fitted to the models' confidences φ(x), and
held-out models are scored by the logarithm of the likelihood ratio. This is the per-row attack. The
pooled attack fits one shift and one spread to all rows: it finds weak shifts that the rows have in
common, and the per-row attack finds shifts that differ between rows. The result is the larger AUC.

The comparison of "unlearned" with "never seen" is U-LiRA (Hayes et al., arXiv 2403.01218); the
comparison of "unlearned" with "retrained without x" tests the definition of unlearning. An AUC of
0.5 means no difference. The sign of the scores is fitted to other folds, so an AUC below 0.5 is
chance and not a difference of the other sign. The scores of several examples on one model are not
independent. A bound of ε needs independent trials, so each model counts as one trial.

Shapes: ``values`` are φ, ``[runs, rows]``; ``taken`` marks the entries that belong to the arm.
"""

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
PER_ROW, POOLED = 0, 1  # positions of the attacks on the first axis


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
class AuditLayout:
    """Design of a likelihood-ratio audit: all that the estimator reads except the confidences.

    ``first`` and ``second`` mark the entries that belong to each arm, ``[runs, rows]``. If
    ``pairs`` is True, the models of the runs 2k and 2k + 1 were trained on the same rows; these two
    runs are then put into the same fold. If ``same_models`` is True, the models of both arms are
    the same, as in U-LiRA.
    """

    first: Mask
    second: Mask
    pairs: bool = True
    same_models: bool = False

    def __post_init__(self) -> None:
        """Check the numbers of runs and rows.

        Raises:
            ValueError: an example has fewer than ``MIN_RUNS`` runs in an arm, or the arms have
                different numbers of rows.
        """
        if self.first.shape[1] != self.second.shape[1]:
            raise ValueError(
                "the two arms (groups of models) of a likelihood-ratio audit must have the same "
                "rows, but have different numbers of rows"
            )
        least = int(min(arm.sum(axis=0).min() for arm in (self.first, self.second)))
        if least < MIN_RUNS:
            raise ValueError(
                f"an example has {least} runs in one of the two arms; expected {MIN_RUNS} or more"
            )

    @classmethod
    def vs_retrain(cls, learned: Mask, retrains: int) -> "AuditLayout":
        """Return the layout of models that forgot ``learned``, ``[runs, rows]``, and of Retrains.

        ``retrains`` is the number of Retrain models.
        """
        return cls(learned, np.ones((retrains, learned.shape[1]), np.bool_))

    @classmethod
    def u_lira(cls, learned: Mask) -> "AuditLayout":
        """Return the layout of the rows ``learned``, ``[runs, rows]``, and all other rows."""
        return cls(learned, ~learned, same_models=True)


def attack_aucs(first: Floats, second: Floats, layout: AuditLayout) -> Floats:
    """Return the AUCs of the per-row and of the pooled attack, ``[2, ...]``.

    ``first`` and ``second`` are the confidences of both arms, ``[..., runs, rows]``: one
    population, or several of the same layout.
    """
    return _aucs(*_scores(first, second, layout), layout)


def stronger_auc(aucs: Floats) -> Floats:
    """Return the larger AUC, ``[...]``, of the attacks' AUCs, ``[2, ...]``."""
    stronger: Floats = aucs.max(axis=0)
    return stronger


def squared_shifts(first: Floats, second: Floats, layout: AuditLayout) -> tuple[float, float]:
    """Return the mean squared shift between both arms, and the square of the mean shift.

    Both are unbiased estimates, which may be negative, in squared standard deviations of φ.

    ``first`` and ``second`` are the confidences of both arms, ``[runs, rows]``.
    """
    means, squares, degrees = [], np.zeros(first.shape[1]), np.zeros(first.shape[1])
    for values, taken in ((first, layout.first), (second, layout.second)):
        places = _fold_of(len(values), layout.pairs)
        own = (places == np.arange(FOLDS)[:, None]).astype(np.float64)
        count = own @ taken
        means.append(own @ np.where(taken, values, 0.0) / np.maximum(count, 1))
        squares += np.where(taken, (values - means[-1][places]) ** 2, 0.0).sum(axis=0)
        degrees += np.maximum(count - 1, 0).sum(axis=0)
    # The variance within folds does not depend on the signs of the folds' shifts. The mean of the
    # inverse of a variance with ν degrees of freedom is ν / (ν − 2) times the inverse.
    variance = np.maximum(squares / np.maximum(degrees - 2, 1), MIN_VARIANCE)
    shifts = (means[0] - means[1]) / np.sqrt(variance)  # [folds, rows]
    # The folds are independent, so products of two folds have the square of the shift as mean.
    return float(_products_of_folds(shifts).mean()), float(_products_of_folds(shifts.mean(axis=1)))


def _products_of_folds(shifts: Floats) -> Floats:
    """Return the mean product of two different folds, ``[...]``, of ``[folds, ...]``."""
    products: Floats = shifts.sum(axis=0) ** 2 - (shifts**2).sum(axis=0)
    return products / (FOLDS * (FOLDS - 1))


def worst_row_aucs(first: Floats, second: Floats, layout: AuditLayout) -> Floats:
    """Return the AUC of the worst rows of each population, ``[populations]``.

    It is 0.5 plus the 90th percentile over rows of |AUC of the row − 0.5|. With few models it is
    high for two equal arms, too.

    ``first`` and ``second`` are the confidences of both arms, ``[populations, runs, rows]``.
    """
    ours, theirs = _scores(first, second, layout)
    pairs = zip(ours[PER_ROW], theirs[PER_ROW], strict=True)
    return np.array([_worst(one, other, layout) for one, other in pairs])


@dataclass(frozen=True, slots=True)
class ExcessAuc:
    """AUC on forgotten rows and on rows that the same models never saw, both against Retrain."""

    forgotten: float
    unseen: float

    @property
    def excess(self) -> float:
        """The first AUC minus the second; 0 if the models treat both kinds of rows alike."""
        return self.forgotten - self.unseen


def excess_auc(forgot: Arm, retrains: Arm) -> ExcessAuc:
    """Compare forgotten rows with the other rows of the pool, each with the Retrain models.

    The entries of ``forgot``, ``[runs, rows]``, outside the arm are those that the model of the run
    never saw. Both AUCs come from the same attack: the one whose two AUCs have the larger sum. The
    choice does not depend on which rows are the forgotten ones, so the excess of models without
    memory has mean 0.
    """
    aucs = np.array(
        [
            attack_aucs(forgot.values, retrains.values, AuditLayout(taken, retrains.taken))
            for taken in (forgot.taken, ~forgot.taken)
        ]
    )  # [forgotten and unseen, attacks]
    chosen = int(np.argmax(aucs.sum(axis=0)))
    return ExcessAuc(float(aucs[0, chosen]), float(aucs[1, chosen]))


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


def _fold_of(runs: int, pairs: bool) -> Runs:
    return (np.arange(runs) // 2 if pairs else np.arange(runs)) % FOLDS


def _folds(runs: int, pairs: bool) -> list[Runs]:
    return [np.flatnonzero(_fold_of(runs, pairs) == fold) for fold in range(FOLDS)]


def _scores(first: Floats, second: Floats, layout: AuditLayout) -> tuple[Floats, Floats]:
    """Return both attacks' held-out scores of both arms, each ``[2, ..., runs, rows]``."""
    places = [_fold_of(values.shape[-2], layout.pairs) for values in (first, second)]
    return _scores_by_fold(first, second, layout, places[0], places[1])


def _scores_by_fold(
    first: Floats, second: Floats, layout: AuditLayout, ours: Runs, theirs: Runs
) -> tuple[Floats, Floats]:
    """Return the scores if run n of the arms is in the fold ``ours[n]`` or ``theirs[n]``."""
    # The centre changes no score; it keeps the sums of squares small.
    count = layout.second.sum(axis=0)
    centre = np.where(layout.second, second, 0.0).sum(axis=-2, keepdims=True) / count
    first, second = first - centre, second - centre
    a = _moments_of_other_folds(first, layout.first, ours)
    b = _moments_of_other_folds(second, layout.second, theirs)
    shift, scale = _pooled_fit(a, b)
    found = []
    for values, places in ((first, ours), (second, theirs)):
        mean_a, var_a = a.mean[..., places, :], a.variance[..., places, :]
        mean_b, var_b = b.mean[..., places, :], b.variance[..., places, :]
        own = _log_ratio(values, (mean_a, var_a), (mean_b, var_b))
        centred = (values - mean_b) / scale.row[..., places, :]
        moved = (shift[..., places, None], scale.first[..., places, None])
        still = (np.zeros(1), scale.second[..., places, None])
        found.append(np.stack([own, _log_ratio(centred, moved, still)]))
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class _Moments:
    """Moments of an arm over all folds but one, each ``[..., folds, rows]``."""

    count: Floats
    mean: Floats
    variance: Floats


@dataclass(frozen=True, slots=True)
class _Scale:
    """Scale of the pooled attack: per row, and the variance of each arm in units of the scale."""

    row: Floats  # [..., folds, rows]
    first: Floats  # [..., folds]
    second: Floats  # [..., folds]


def _moments_of_other_folds(values: Floats, taken: Mask, places: Runs) -> _Moments:
    others = (places != np.arange(FOLDS)[:, None]).astype(np.float64)  # [folds, runs]
    kept = np.where(taken, values, 0.0)
    count = np.maximum(others @ taken, 1)
    mean = others @ kept / count
    square = others @ (kept * kept) - count * mean * mean
    variance = np.maximum(square / np.maximum(count - 1, 1), MIN_VARIANCE)
    return _Moments(np.broadcast_to(count, mean.shape), mean, variance)


def _pooled_fit(first: _Moments, second: _Moments) -> tuple[Floats, _Scale]:
    """Return the common shift, ``[..., folds]``, in units of the scale, and the scale."""
    ours, theirs = np.maximum(first.count - 1, 1), np.maximum(second.count - 1, 1)
    variance = (ours * first.variance + theirs * second.variance) / (ours + theirs)
    row = np.sqrt(variance)
    shift = ((first.mean - second.mean) / row * first.count).sum(axis=-1)
    spread = [
        (degrees * arm.variance / variance).sum(axis=-1) / degrees.sum(axis=-1)
        for degrees, arm in ((ours, first), (theirs, second))
    ]
    return shift / first.count.sum(axis=-1), _Scale(row, spread[0], spread[1])


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


def _aucs(ours: Floats, theirs: Floats, layout: AuditLayout) -> Floats:
    """Return the AUC of each score table, ``[...]``, over the entries of both arms.

    ``ours`` and ``theirs`` have the shape ``[..., runs, rows]``.
    """
    batch = ours.shape[:-2]
    first = np.sort(ours[..., layout.first].reshape(-1, layout.first.sum()))
    second = np.sort(theirs[..., layout.second].reshape(-1, layout.second.sum()))
    each = [_auc(one, other) for one, other in zip(first, second, strict=True)]
    return np.array(each).reshape(batch)


def _auc(ours: Floats, theirs: Floats) -> float:
    """Return the probability that one of ``ours`` is above one of ``theirs``, both sorted.

    A tie counts half.
    """
    below = np.searchsorted(theirs, ours, "left")
    tied = theirs[np.minimum(below, len(theirs) - 1)] == ours
    ties = np.searchsorted(theirs, ours[tied], "right") - below[tied]
    return float((below.sum() + ties.sum() / 2) / (len(ours) * len(theirs)))


def _worst(ours: Floats, theirs: Floats, layout: AuditLayout) -> Floats:
    """Return the AUC of single examples at the 90th percentile of their distance from 0.5.

    ``ours`` and ``theirs`` are the scores of the per-row attack, ``[runs, rows]``.
    """
    first = np.where(layout.first, ours, np.nan)[:, None]
    second = np.where(layout.second, theirs, np.nan)[None]
    above = (first > second).sum(axis=(0, 1)) + 0.5 * (first == second).sum(axis=(0, 1))
    each = above / (layout.first.sum(axis=0) * layout.second.sum(axis=0))
    worst: Floats = 0.5 + np.quantile(np.abs(each - 0.5), 0.9)
    return worst
