"""Figures beside Retrain: gaps by hand, and what has no Retrain column."""

import json
import math

import pytest

from unlearning.audit.figure import Direction, Measured, Status, beside, canonical, table


def test_a_gap_by_hand() -> None:
    figure = beside("accuracy", Measured(0.9, 50), [0.6, 0.7, 0.8])
    assert (figure.retrain_mean, figure.retrain_sd) == (pytest.approx(0.7), pytest.approx(0.1))
    assert (figure.gap, figure.gap_in_sd) == (pytest.approx(0.2), pytest.approx(2.0))
    assert figure.status is Status.OK


def test_without_a_retrain_there_is_no_figure() -> None:
    assert beside("accuracy", Measured(0.9, 50), []).status is Status.NOT_RUN


def test_retrains_that_do_not_differ_give_no_unit() -> None:
    figure = beside("accuracy", Measured(0.9, 50), [0.7, 0.7])
    assert (figure.retrain_sd, figure.gap_in_sd) == (0.0, None)


def test_too_few_rows_are_said() -> None:
    assert beside("tpr", Measured(0.5, 99, least=100), [0.1]).status is Status.INSUFFICIENT


def test_a_retrain_is_put_beside_the_others() -> None:
    measured = {
        name: {"loss": Measured(value, 9)}
        for name, value in zip("abc", (1.0, 2.0, 6.0), strict=True)
    }
    figures = table(measured, ["b", "c"])
    assert figures["a"][0].gap == pytest.approx(-3.0)  # from the mean of 2 and 6
    assert figures["b"][0].retrain_mean == 6.0
    assert figures["b"][0].retrain_sd is None


def test_canonical_json_holds_every_key_and_refuses_what_is_no_number() -> None:
    figures = table({"a": {"loss": Measured(1.0, 9, (0.5, 1.5), Direction.LOWER)}}, [])
    (plain,) = json.loads(canonical(figures))["a"]
    assert plain == {
        "name": "loss",
        "value": 1.0,
        "ci95": [0.5, 1.5],
        "retrain_mean": None,
        "retrain_sd": None,
        "gap": None,
        "gap_in_sd": None,
        "n": 9,
        "direction": "lower",
        "status": "not_run",
        "note": "",
    }
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(table({"a": {"loss": Measured(math.inf, 9)}}, []))
