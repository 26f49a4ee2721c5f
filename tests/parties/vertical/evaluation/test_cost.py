"""Costs of methods as shares of the cost of a Retrain."""

from pathlib import Path
from typing import Any

import pytest
from three_parties import agreement
from whole_run import QUICK, TRAINING, run

from configs.config_file import validate_table
from parties.requests.driver import Cost
from parties.vertical.evaluation.metrics import full_cost
from parties.vertical.evaluation.outcomes import MethodOutcome
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.registry import AGREEMENT

MEASURED = Cost(2.0, 100, 300, 200, 10)
FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
SHARES = ("rows", "size", "seconds")


def full(training: dict[str, Any], epochs: int) -> Cost:
    """The full cost of a Retrain with the cost ``MEASURED`` that had some epochs."""
    result = MethodResult({"epochs": [{"epoch": each + 1} for each in range(epochs)]})
    agreed = validate_table(AGREEMENT, agreement(training=training), Path("a.toml"), "")
    return full_cost(agreed, MethodOutcome("retrain", {}, MEASURED, result=result))


def test_cost_of_a_retrain_that_stopped_early_is_that_of_all_epochs() -> None:
    training = TRAINING | {"epochs": 10, "patience": 1}
    assert full(training, 4) == Cost(5.0, 250, 750, 500, 25)
    assert full(training, 10) == MEASURED


def test_cost_of_a_retrain_with_a_local_start_is_the_measured_one() -> None:
    assert full(TRAINING | {"epochs": 100, "start": "local"}, 4) == MEASURED


@pytest.mark.parametrize("patience", [None, 1])
def test_a_retrain_costs_its_part_of_the_agreed_epochs(
    tmp_path: Path, patience: int | None
) -> None:
    """Passes over validation rows count in the cost of a method and in that of Retrain alike."""
    early = {} if patience is None else {"epochs": 40, "patience": 1, "learning_rate": 0.5}
    unlearning = QUICK | {"method": "fine-tune", "compare": ("relabel",)}
    training = TRAINING | early
    metrics = run(tmp_path, unlearn=FORGET, training=training, unlearning=unlearning)
    assert metrics["run"]["rows"]["validation"] > 0
    found = {each["name"]: each for each in metrics["requests"][0]["methods"]}
    cost, epochs = found["retrain"]["cost"], found["retrain"]["details"]["epochs"]
    part = len(epochs) / training["epochs"]
    assert part < 1 if patience else part == 1
    for share in SHARES:
        assert cost[f"{share}_of_retrain"] == pytest.approx(part, rel=1e-3)
    tuned = found["fine-tune"]["cost"]
    expected = tuned["rows"] / cost["rows"] * part
    assert tuned["rows_of_retrain"] == pytest.approx(expected, rel=1e-3)
