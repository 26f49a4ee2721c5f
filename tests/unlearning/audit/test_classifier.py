"""Figures of a classifier, against scikit-learn and numbers computed by hand."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torch import Tensor

from unlearning.audit.classifier import (
    RankedScores,
    classifier_figures,
    confusion_counts,
    paired_gains,
    probabilities,
    roc_auc,
    youden_threshold,
)
from unlearning.audit.membership import Outputs

# Six rows of two classes; the probability of the second class.
SCORES = (0.1, 0.4, 0.35, 0.8, 0.65, 0.9)
TRUTH = (0, 0, 1, 1, 0, 1)


def two_classes(scores: tuple[float, ...] = SCORES, truth: tuple[int, ...] = TRUTH) -> Outputs:
    found = torch.tensor(scores, dtype=torch.float64)
    return Outputs(torch.stack([(1 - found).log(), found.log()], dim=1), torch.tensor(truth))


def several_classes(rows: int = 60, classes: int = 4) -> Outputs:
    generator = torch.Generator().manual_seed(1)
    truth = torch.arange(rows) % classes
    logits = torch.randn(rows, classes, generator=generator)
    logits[torch.arange(rows), truth] += 0.8
    return Outputs(logits, truth)


def test_figures_of_two_classes_are_those_of_scikit_learn() -> None:
    found = classifier_figures(two_classes())
    area = roc_auc_score(TRUTH, SCORES)
    positive, negative = ([s for s, t in zip(SCORES, TRUTH, strict=True) if t == k] for k in (1, 0))
    assert found.values == pytest.approx(
        {
            "auc": area,
            "gini": 2 * area - 1,
            "average_precision": average_precision_score(TRUTH, SCORES),
            "ks": ks_2samp(positive, negative).statistic,
            "log_loss": log_loss(TRUTH, SCORES),
            "brier": brier_score_loss(TRUTH, SCORES),
            "accuracy": 4 / 6,
            "calibration_error": (0.1 + 0.4 + 0.65 + 0.2 + 0.65 + 0.1) / 6,
        }
    )
    assert found.absent == {}


def test_figures_by_hand() -> None:
    """Of nine pairs of a positive and a negative row, seven are in the right order."""
    found = classifier_figures(two_classes()).values
    assert found["auc"] == pytest.approx(7 / 9)
    assert found["ks"] == pytest.approx(2 / 3)  # two thirds of the positives from 0.8 on


def test_figures_of_several_classes_are_those_of_scikit_learn() -> None:
    outputs = several_classes()
    truth, found = outputs.labels.numpy(), probabilities(outputs.logits)
    figures = classifier_figures(outputs)
    single = [average_precision_score(truth == k, found[:, k]) for k in range(4)]
    squares = (np.eye(4)[truth] - found) ** 2
    areas = [roc_auc_score(truth == k, found[:, k]) for k in range(4)]
    assert figures.values["auc"] == pytest.approx(np.mean(areas))
    assert figures.values["average_precision"] == pytest.approx(np.mean(single))
    assert figures.values["log_loss"] == pytest.approx(log_loss(truth, found))
    assert figures.values["brier"] == pytest.approx(squares.sum(axis=1).mean())
    assert figures.absent == dict.fromkeys(("ks", "gini"), "defined for two classes only")


def test_one_class_leaves_out_the_figures_of_ranks() -> None:
    figures = classifier_figures(two_classes(truth=(1,) * 6))
    assert {*figures.values} == {"log_loss", "calibration_error", "brier", "accuracy"}
    names = ("auc", "average_precision", "ks", "gini")
    assert figures.absent == dict.fromkeys(names, "only one of the classes has rows")
    assert all(np.isfinite([*figures.values.values()]))


def test_missing_class_of_several_leaves_out_the_figures_of_ranks() -> None:
    whole = several_classes()
    chosen = whole.labels != 2
    figures = classifier_figures(Outputs(whole.logits[chosen], whole.labels[chosen]))
    assert figures.absent["auc"] == "at least one class has no row"
    assert "log_loss" in figures.values


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_outputs_that_are_not_finite_have_no_figure(value: float) -> None:
    outputs = two_classes()
    outputs.logits[2, 1] = value
    figures = classifier_figures(outputs)
    assert figures.values == {}
    assert {*figures.absent.values()} == {"the outputs of the model are not finite"}
    assert youden_threshold(outputs) is None


def test_no_row_has_no_figure() -> None:
    figures = classifier_figures(Outputs(torch.empty(0, 2), torch.empty(0, dtype=torch.int64)))
    assert figures.values == {}
    assert {*figures.absent.values()} == {"there is no row"}


def test_threshold_maximises_youdens_j() -> None:
    """From 0.8 on: 2 of 3 positives, no negative; J = 2/3. No other threshold has more."""
    outputs = two_classes()
    assert youden_threshold(outputs) == pytest.approx(0.8)
    assert confusion_counts(outputs, 0.8) == [[3, 0], [1, 2]]
    assert confusion_counts(outputs, None) == [[2, 1], [1, 2]]


def test_threshold_of_a_useless_model_is_finite() -> None:
    """The score falls with the label: the best J is 0, of predicting every row positive."""
    outputs = two_classes(scores=(0.9, 0.8, 0.2, 0.1), truth=(0, 0, 1, 1))
    assert youden_threshold(outputs) == pytest.approx(0.1)


def test_threshold_needs_both_classes() -> None:
    assert youden_threshold(two_classes(truth=(0,) * 6)) is None
    assert youden_threshold(several_classes()) is None


@pytest.mark.parametrize("outputs", [two_classes(), several_classes()], ids=["two", "several"])
def test_auc_of_a_resample_is_that_of_scikit_learn_with_weights(outputs: Outputs) -> None:
    counts = np.random.default_rng(3).integers(1, 4, len(outputs.labels)).astype(np.float64)
    repeated = np.repeat(np.arange(len(counts)), counts.astype(int))
    expected = roc_auc(Outputs(outputs.logits[repeated], outputs.labels[repeated]))
    assert RankedScores(outputs).auc(counts) == pytest.approx(expected)


def test_equal_scores_count_one_half() -> None:
    outputs = two_classes(scores=(0.5,) * 4, truth=(0, 1, 0, 1))
    assert RankedScores(outputs).auc(np.ones(4)) == 0.5


def test_resample_without_a_class_has_no_auc() -> None:
    assert RankedScores(two_classes()).auc(1.0 - np.array(TRUTH)) is None


def drawn(seed: int, strength: float, rows: int = 400) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 2
    score = strength * labels + torch.randn(rows, generator=generator)
    return torch.stack([torch.zeros(rows), score - strength / 2], dim=1), labels


def test_gain_of_a_better_model_has_an_interval_above_zero() -> None:
    (better, labels), (base, _) = drawn(1, 2.5), drawn(2, 0.5)
    gains = paired_gains(better, base, labels, 0)
    for gain in (gains.auc, gains.accuracy):
        assert gain.value is not None
        assert gain.ci95 is not None
        assert 0 < gain.ci95[0] < gain.value < gain.ci95[1]
    areas = [roc_auc(Outputs(each, labels)) for each in (better, base)]
    assert gains.auc.value == pytest.approx(areas[0] - areas[1])  # type: ignore[operator]


def test_pairing_narrows_the_interval_of_models_that_agree() -> None:
    logits, labels = drawn(1, 1.0)
    same = paired_gains(logits, logits, labels, 0)
    assert same.auc.ci95 == (0.0, 0.0)
    near = logits + 0.05 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(5))
    widths = [
        high - low
        for other in (near, drawn(2, 1.0)[0])
        for low, high in [paired_gains(logits, other, labels, 0).auc.ci95 or (0.0, 0.0)]
    ]
    assert all(narrow < wide / 5 for narrow, wide in pairwise(widths))


def test_gain_without_both_classes_is_that_of_the_accuracy_only() -> None:
    logits, labels = drawn(1, 1.0)
    gains = paired_gains(logits, logits, torch.zeros_like(labels), 0)
    assert (gains.auc.value, gains.auc.ci95) == (None, None)
    assert gains.accuracy.value == 0
