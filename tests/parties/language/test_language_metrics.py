"""Metrics of three language models, computed by hand: against Retrain, and after relearning."""

import math

import pytest
import torch

from parties.horizontal.evaluation.outcome import ModelOutcome
from parties.horizontal.local.local_task import RowMetrics
from parties.horizontal.local.score_histogram import score_histogram
from parties.language.evaluation.metrics import language_metrics
from unlearning.audit.metric import Metric, Status

RATIOS = {
    "original": [0.1, 0.2, 0.3, 0.4],
    "npo": [0.1, 0.2, 0.9, 1.0],
    "retrain": [0.8, 0.9, 1.0, 1.1],
}
GEOMETRIC = {
    "original": [0.1, 0.2, 0.3, 0.4],
    "npo": [0.75, 0.85, 0.95, 1.05],
    "retrain": [0.8, 0.9, 1.0, 1.1],
}
LEAKS = {"original": 0.2, "npo": 0.5, "retrain": 0.4}
RELEARNED = {"original": (0.5, 0.6), "npo": (0.1, 0.4), "retrain": (0.05, 0.2)}


def score(rows: int, right: int, chance: float) -> RowMetrics:
    """Metrics of rows that all have the probability ``chance`` per token."""
    odds = score_histogram(torch.full((rows,), math.log(chance / (1 - chance))))
    return RowMetrics(rows, right, -rows * math.log(chance), odds, rows * chance)


def outcome(name: str, chance: float, right: int) -> ModelOutcome:
    before, after = RELEARNED[name]
    scores = {
        "forgotten": {"ash": score(4, right, chance), "elm": score(12, 0, chance)},
        "retained": {"ash": score(6, 3, 0.5), "elm": RowMetrics(0, 0, 0.0)},
        "test": {"ash": score(10, 0, 0.1), "elm": score(10, 0, 0.1)},
    }
    marks = {
        "ratios": RATIOS[name],
        "geometric_ratios": GEOMETRIC[name],
        "extraction_strength": 0.25,
        "leak_auc": LEAKS[name],
        "leak_texts": 3,
        "questions": 4,
        "relearned_before": before,
        "relearned": after,
        "relearned_texts": 3,
    }
    return ModelOutcome(name, None, 1.0, 1, scores, {}, [], benchmark_metrics=marks)


@pytest.fixture(scope="module")
def metrics() -> dict[str, dict[str, Metric]]:
    outcomes = [outcome("original", 0.9, 4), outcome("npo", 0.2, 1), outcome("retrain", 0.1, 0)]
    return {
        name: {each.name: each for each in some}
        for name, some in language_metrics(outcomes).items()
    }


def test_metrics_of_clients_are_weighted_by_rows(metrics: dict[str, dict[str, Metric]]) -> None:
    original = metrics["original"]
    assert original["text_probability"].value == pytest.approx(0.9)
    assert original["text_probability"].retrain_mean == pytest.approx(0.1)
    assert original["text_probability"].n == 16
    assert original["text_verbatim"].value == 4 / 16
    assert original["text_loss"].value == pytest.approx(-math.log(0.9))
    assert original["text_retained_probability"].value == pytest.approx(0.5)
    assert original["membership_auc"].value == 1.0
    assert metrics["retrain"]["membership_auc"].value == 0.5
    assert original["odds_to_retrain"].value == 1.0


def test_forget_quality_and_privacy_leak_compare_with_retrain(
    metrics: dict[str, dict[str, Metric]],
) -> None:
    distances = [metrics[name]["forget_distance"].value for name in ("original", "npo")]
    assert distances == [1.0, 0.5]
    geometric = [metrics[name]["geometric_forget_distance"].value for name in ("original", "npo")]
    assert geometric == [1.0, 0.25]
    assert metrics["npo"]["forget_quality"].value < metrics["npo"]["geometric_forget_quality"].value
    assert "geometric_forget_quality" not in metrics["retrain"]
    assert "end token of an answer counts" in metrics["npo"]["extraction_strength"].note
    assert metrics["npo"]["privacy_leak"].value == pytest.approx(100 * (0.5 - 0.4) / 0.4)
    assert "forget_distance" not in metrics["retrain"], "there is no other Retrain"


def test_relearned_share_is_relative_to_the_lost_knowledge(
    metrics: dict[str, dict[str, Metric]],
) -> None:
    assert metrics["npo"]["relearned_share"].value == pytest.approx((0.4 - 0.1) / (0.5 - 0.1))
    assert metrics["npo"]["relearned_share"].retrain_mean == pytest.approx(0.15 / 0.45)
    assert metrics["original"]["relearned_share"].value is None, "it lost nothing"
    assert metrics["npo"]["relearned_share"].n == 3
    assert metrics["npo"]["relearned"].gap == pytest.approx(0.2)


def test_values_stand_alone_without_a_retrain() -> None:
    found = language_metrics([outcome("original", 0.9, 4), outcome("npo", 0.2, 1)])
    alone = {each.name: each for each in found["npo"]}
    assert alone["text_probability"].status is Status.OK
    assert alone["text_probability"].retrain_mean is None
    assert not {"odds_to_retrain", "forget_quality", "privacy_leak"} & set(alone)
