"""Membership inference: attacks that find which rows were in the training set.

* The attack of FedORA's paper is fitted to the outputs of the trained model ("original"). For
  fitting, members are retained rows, never D_u, and non-members are the first half of the held-out
  rows. The attack is scored on another model's outputs, by comparing D_u with held-out rows of the
  second half that have the same class mix. Validation rows are never attacked.
* The shadow attack is fitted to shadow models, without the list of the rows on which the attacked
  model was trained (Shokri et al., S&P 2017). Each shadow model was trained on one half of the
  remaining rows, but not on the other half.
* Canaries are planted rows with a wrong label. Only a model that was trained on a canary gives the
  wrong label a high probability. If the generalisation gap of a model is small, attacks on ordinary
  rows fail. Attacks on canaries can succeed even on such a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from unlearning.audit.intervals import ConfidenceInterval, auc_interval
from unlearning.audit.scores import tpr_at_fpr
from unlearning.objectives import softmax_entropy

RESAMPLES = 500
MIN_SHADOWS = 4
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Outputs:
    """A model's outputs on some rows, with the labels of these rows."""

    logits: Tensor  # [rows, classes]; of a number the number itself, [rows, 1]
    labels: Tensor  # [rows], or [rows, labels] of several binary labels


@dataclass(frozen=True, slots=True)
class MembershipResult:
    """Result of a membership attack; 0.5 is random guessing, and an AUC below 0.5 is a leak too."""

    balanced_accuracy: ConfidenceInterval
    auc: ConfidenceInterval
    members: int  # rows of D_u
    non_members: int
    tpr: float  # share of D_u found at 1 % false positives


def membership_features(outputs: Outputs) -> Floats:
    """Return the features from which the attack predicts membership, ``[rows, classes + 4]``.

    The features are sorted softmax, loss, margin, entropy and correctness. The softmax is sorted
    because the attack could learn the class from unsorted probabilities.
    """
    log_p = log_softmax(outputs.logits.double(), dim=1)
    ranked = log_p.exp().sort(dim=1, descending=True).values
    loss = cross_entropy(log_p, outputs.labels, reduction="none")
    right = (log_p.argmax(dim=1) == outputs.labels).double()
    columns = [loss, _margin(log_p, outputs.labels), softmax_entropy(log_p), right]
    table: Floats = torch.cat([ranked, torch.stack(columns, dim=1)], dim=1).detach().numpy()
    return table


def fit_attack(members: Outputs, non_members: Outputs) -> Pipeline:
    """Fit the attack to a model's outputs; members and non-members have the same total weight."""
    table = np.concatenate([membership_features(members), membership_features(non_members)])
    attack = make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000)
    )
    return attack.fit(table, _truth(len(members.labels), len(non_members.labels)))


def score_attack(
    attack: Pipeline, forgotten: Outputs, non_members: Outputs, generator: np.random.Generator
) -> MembershipResult:
    """Score the attack on D_u; ``non_members`` must have the same class mix as D_u."""
    table = np.concatenate([membership_features(forgotten), membership_features(non_members)])
    truth = _truth(len(forgotten.labels), len(non_members.labels))
    chances = attack.predict_proba(table)[:, 1]
    return MembershipResult(
        _balanced_accuracy(truth, chances, generator),
        _auc(truth, chances, generator),
        int(truth.sum()),
        int((1 - truth).sum()),
        tpr_at_fpr(chances[truth == 1], chances[truth == 0]),
    )


def class_matched_rows(wanted: Tensor, pool: Tensor, generator: np.random.Generator) -> Rows:
    """Return positions in ``pool``, sampled with the class mix of ``wanted``, ``[positions]``.

    ``wanted`` and ``pool`` are the labels of two sets of rows, ``[rows]`` each. Rows are sampled
    without replacement. If ``pool`` has enough rows of each class, ``len(wanted)`` rows are
    sampled. Otherwise the numbers of all classes are reduced by the same factor.

    Raises:
        ValueError: a wanted class has no row in the pool.
    """
    classes, counts = np.unique(wanted.numpy(), return_counts=True)
    candidates = [np.flatnonzero(pool.numpy() == label) for label in classes]
    share = min(1.0, *(len(rows) / n for rows, n in zip(candidates, counts, strict=True)))
    if share == 0.0:
        missing = [int(c) for c, rows in zip(classes, candidates, strict=True) if not len(rows)]
        raise ValueError(
            f"the rows to forget include classes {missing}, but no held-out row has one of these "
            "classes; hold out more rows for the test"
        )
    drawn = [
        generator.choice(rows, max(1, int(share * n)), replace=False)
        for rows, n in zip(candidates, counts, strict=True)
    ]
    return np.sort(np.concatenate(drawn)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ShadowOutputs:
    """A shadow model's outputs on the half of the rows used for training, and on the other half."""

    members: Outputs  # outputs on the half on which the shadow model was trained
    others: Outputs  # outputs on the other half


def fit_shadow_attack(shadows: Sequence[ShadowOutputs]) -> Pipeline:
    """Return an attack for ``score_attack``, fitted to the outputs of all shadow models.

    Raises:
        ValueError: there are fewer than ``MIN_SHADOWS`` shadow models.
    """
    if len(shadows) < MIN_SHADOWS:
        raise ValueError(f"a shadow attack needs {MIN_SHADOWS} or more models, got {len(shadows)}")
    members, others = [each.members for each in shadows], [each.others for each in shadows]
    return fit_attack(_concatenated(members), _concatenated(others))


def canary_loss_auc(planted: Outputs, never_seen: Outputs) -> float:
    """Return the AUC of the attack that classifies rows with a small loss as planted.

    The wrong labels of ``planted`` and ``never_seen`` rows were chosen in the same way.
    """
    sides = [planted, never_seen]
    loss = [cross_entropy(side.logits.double(), side.labels, reduction="none") for side in sides]
    truth = np.repeat([1, 0], [len(side.labels) for side in sides])
    return float(roc_auc_score(truth, -np.concatenate([each.numpy() for each in loss])))


def _concatenated(outputs: Sequence[Outputs]) -> Outputs:
    return Outputs(
        torch.cat([each.logits for each in outputs]), torch.cat([each.labels for each in outputs])
    )


def _margin(log_p: Tensor, labels: Tensor) -> Tensor:
    """Return log p_y minus the largest other log p, ``[rows]``."""
    own = log_p.gather(1, labels[:, None])
    others = log_p.scatter(1, labels[:, None], -torch.inf).max(dim=1).values
    return own.squeeze(1) - others


def _truth(members: int, non_members: int) -> Rows:
    return np.repeat(np.array([1, 0]), [members, non_members])


def _balanced_accuracy(
    truth: Rows, chances: Floats, generator: np.random.Generator
) -> ConfidenceInterval:
    """Return (TPR + TNR) / 2; resampling a proportion means drawing from a binomial."""
    drawn, value = np.zeros(RESAMPLES), 0.0
    for side in (0, 1):
        right = (chances[truth == side] > 0.5) == bool(side)
        value += float(right.mean()) / 2
        drawn += generator.binomial(len(right), right.mean(), RESAMPLES) / len(right) / 2
    return _interval(value, drawn, len(truth))


def _auc(truth: Rows, chances: Floats, generator: np.random.Generator) -> ConfidenceInterval:
    """Return the AUC; members and non-members are resampled separately.

    If the scores of the two groups do not overlap, or are all equal, every resample has the same
    AUC, even with one row in each group. The interval is then the one of ``auc_interval``.
    """
    draws = np.concatenate([np.ones((1, len(truth))), _draws(truth, generator)])
    aucs = _weighted_auc(truth, chances, draws)
    found = _interval(float(aucs[0]), aucs[1:], len(truth))
    if found.low < found.high:
        return found
    members = int(truth.sum())
    low, high = auc_interval(found.value, members, len(truth) - members)
    return replace(found, low=low, high=high)


def _draws(truth: Rows, generator: np.random.Generator) -> Floats:
    """Return how often each row is drawn in each resample, ``[resamples, rows]``."""
    draws = np.empty((RESAMPLES, len(truth)))
    for side in (0, 1):
        rows = np.flatnonzero(truth == side)
        draws[:, rows] = generator.multinomial(
            len(rows), np.full(len(rows), 1 / len(rows)), RESAMPLES
        )
    return draws


def _weighted_auc(truth: Rows, chances: Floats, draws: Floats) -> Floats:
    """Return the AUC for each row of weights, ``[resamples]``; a tie counts half."""
    order = np.argsort(chances, kind="stable")
    starts = np.flatnonzero(np.diff(chances[order], prepend=-np.inf))  # of equal chances
    members = np.add.reduceat(draws[:, order] * truth[order], starts, axis=1)
    others = np.add.reduceat(draws[:, order] * (1 - truth[order]), starts, axis=1)
    below = np.cumsum(others, axis=1) - others / 2
    aucs: Floats = (members * below).sum(axis=1) / (members.sum(axis=1) * others.sum(axis=1))
    return aucs


def _interval(value: float, drawn: Floats, n: int) -> ConfidenceInterval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return ConfidenceInterval(value, float(low), float(high), n)
