"""Tests of metrics: gaps to Retrain by hand, and metrics without a Retrain."""

import pytest

from unlearning.audit.metric import (
    Direction,
    Measurement,
    Status,
    compare_with_retrains,
    metric_table,
)


def test_a_gap_by_hand() -> None:
    metric = compare_with_retrains("accuracy", Measurement(0.9, 50), [0.6, 0.7, 0.8])
    assert (metric.retrain_mean, metric.retrain_sd) == (pytest.approx(0.7), pytest.approx(0.1))
    assert (metric.gap, metric.gap_in_sd) == (pytest.approx(0.2), pytest.approx(2.0))
    assert metric.status is Status.OK


def test_a_value_stands_alone_if_no_retrain_was_trained() -> None:
    metric = compare_with_retrains("accuracy", Measurement(0.9, 50), None)
    assert (metric.status, metric.retrain_mean, metric.gap) == (Status.OK, None, None)
    absent = compare_with_retrains("accuracy", Measurement(None, 50), None)
    assert absent.status is Status.NOT_RUN


def test_a_metric_that_no_retrain_has_is_not_run() -> None:
    assert compare_with_retrains("accuracy", Measurement(0.9, 50), []).status is Status.NOT_RUN


def test_equal_retrains_give_no_unit() -> None:
    metric = compare_with_retrains("accuracy", Measurement(0.9, 50), [0.7, 0.7])
    assert (metric.retrain_sd, metric.gap_in_sd) == (0.0, None)


def test_too_few_rows_are_insufficient() -> None:
    assert (
        compare_with_retrains("tpr", Measurement(0.5, 99, least=100), [0.1]).status
        is Status.INSUFFICIENT
    )


def test_a_retrain_is_compared_with_the_others() -> None:
    measured = {
        name: {"loss": Measurement(value, 9)}
        for name, value in zip("abc", (1.0, 2.0, 6.0), strict=True)
    }
    metrics = metric_table(measured, ["b", "c"])
    assert metrics["a"][0].gap == pytest.approx(-3.0)  # from the mean of 2 and 6
    assert metrics["b"][0].retrain_mean == 6.0
    assert metrics["b"][0].retrain_sd is None


def test_a_metric_as_json_values() -> None:
    measured = {"a": {"loss": Measurement(1.0, 9, (0.5, 1.5), Direction.LOWER)}}
    [metric] = metric_table(measured, [])["a"]
    assert metric.plain() == {
        "name": "loss",
        "value": 1.0,
        "ci95": [0.5, 1.5],
        "retrain_mean": None,
        "retrain_sd": None,
        "gap": None,
        "gap_in_sd": None,
        "n": 9,
        "direction": "lower",
        "status": "ok",
        "note": "",
    }
