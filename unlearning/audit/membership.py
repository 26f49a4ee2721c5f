"""Membership inference in the paper's form: an attack that asks who was in the training set.

The attack is fitted on the ORIGINAL model's outputs (members: retained rows, never D_u;
non-members: the first half of the held-out rows) and scored on another model's outputs for D_u
against rows of the other half with the same class mix. Validation rows are never attacked.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from unlearning.audit.divergence import Interval
from unlearning.audit.scores import tpr_at
from unlearning.objectives import entropy

RESAMPLES = 500
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Outputs:
    """A model's outputs on some rows."""

    logits: Tensor  # [rows, classes]
    labels: Tensor  # [rows]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the attack found; chance is 0.5, and an AUC below it is a leak too."""

    balanced_accuracy: Interval
    auc: Interval
    members: int  # rows of D_u
    non_members: int
    tpr: float  # share of D_u found at 1 % false positives


def features(outputs: Outputs) -> Floats:
    """Return ``[rows, classes + 4]``: sorted softmax, loss, margin, entropy, correctness.

    Sorted, because raw probabilities would let the attack learn the class.
    """
    log_p = log_softmax(outputs.logits.double(), dim=1)
    ranked = log_p.exp().sort(dim=1, descending=True).values
    loss = cross_entropy(log_p, outputs.labels, reduction="none")
    right = (log_p.argmax(dim=1) == outputs.labels).double()
    columns = [loss, _margin(log_p, outputs.labels), entropy(log_p), right]
    table: Floats = torch.cat([ranked, torch.stack(columns, dim=1)], dim=1).detach().numpy()
    return table


def fit_attack(members: Outputs, non_members: Outputs) -> Pipeline:
    """Fit the attack on the original model's outputs; classes are weighted to balance."""
    table = np.concatenate([features(members), features(non_members)])
    attack = make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000)
    )
    return attack.fit(table, _truth(len(members.labels), len(non_members.labels)))


def score_attack(
    attack: Pipeline, forgotten: Outputs, non_members: Outputs, generator: np.random.Generator
) -> Verdict:
    """Score the attack on D_u; ``non_members`` are class-matched by ``class_matched`` first."""
    table = np.concatenate([features(forgotten), features(non_members)])
    truth = _truth(len(forgotten.labels), len(non_members.labels))
    chances = attack.predict_proba(table)[:, 1]
    return Verdict(
        _balanced_accuracy(truth, chances, generator),
        _auc(truth, chances, generator),
        int(truth.sum()),
        int((1 - truth).sum()),
        tpr_at(chances[truth == 1], chances[truth == 0]),
    )


def class_matched(wanted: Tensor, pool: Tensor, generator: np.random.Generator) -> Rows:
    """Return positions in ``pool`` whose class mix is that of ``wanted``; both are labels ``[n]``.

    As many rows as the scarcest class allows, at most ``len(wanted)``, none twice.

    Raises:
        ValueError: if a wanted class has no row in the pool.
    """
    classes, counts = np.unique(wanted.numpy(), return_counts=True)
    candidates = [np.flatnonzero(pool.numpy() == label) for label in classes]
    share = min(1.0, *(len(rows) / n for rows, n in zip(candidates, counts, strict=True)))
    if share == 0.0:
        missing = [int(c) for c, rows in zip(classes, candidates, strict=True) if not len(rows)]
        raise ValueError(
            f"no held-out row of class {missing} to match D_u with; enlarge the test share"
        )
    drawn = [
        generator.choice(rows, max(1, int(share * n)), replace=False)
        for rows, n in zip(candidates, counts, strict=True)
    ]
    return np.sort(np.concatenate(drawn)).astype(np.int64)


def _margin(log_p: Tensor, labels: Tensor) -> Tensor:
    """Return log p_y minus the largest other log p."""
    own = log_p.gather(1, labels[:, None])
    others = log_p.scatter(1, labels[:, None], -torch.inf).max(dim=1).values
    return own.squeeze(1) - others


def _truth(members: int, non_members: int) -> Rows:
    return np.repeat(np.array([1, 0]), [members, non_members])


def _balanced_accuracy(truth: Rows, chances: Floats, generator: np.random.Generator) -> Interval:
    """Return (TPR + TNR) / 2; to resample a proportion is to draw a binomial."""
    drawn, value = np.zeros(RESAMPLES), 0.0
    for side in (0, 1):
        right = (chances[truth == side] > 0.5) == bool(side)
        value += float(right.mean()) / 2
        drawn += generator.binomial(len(right), right.mean(), RESAMPLES) / len(right) / 2
    return _interval(value, drawn, len(truth))


def _auc(truth: Rows, chances: Floats, generator: np.random.Generator) -> Interval:
    """Return the AUC; members and non-members are resampled apart."""
    draws = np.concatenate([np.ones((1, len(truth))), _draws(truth, generator)])
    aucs = _weighted_auc(truth, chances, draws)
    return _interval(float(aucs[0]), aucs[1:], len(truth))


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
    """Return the AUC of every row of weights: the chance that a member outranks, ties by half."""
    order = np.argsort(chances, kind="stable")
    starts = np.flatnonzero(np.diff(chances[order], prepend=-np.inf))  # of equal chances
    members = np.add.reduceat(draws[:, order] * truth[order], starts, axis=1)
    others = np.add.reduceat(draws[:, order] * (1 - truth[order]), starts, axis=1)
    below = np.cumsum(others, axis=1) - others / 2
    aucs: Floats = (members * below).sum(axis=1) / (members.sum(axis=1) * others.sum(axis=1))
    return aucs


def _interval(value: float, drawn: Floats, n: int) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, float(low), float(high), n)
