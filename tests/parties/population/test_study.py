"""The summary of a study over seeds, and the table that shows it."""

from typing import Any

import pytest

from parties.population.study import Summary, summaries
from parties.population.verdicts import table, verdicts


def figure(auc: float) -> dict[str, Any]:
    return {"auc": auc, "error": 0.01}


def row(auc: float, hits: int) -> dict[str, Any]:
    taken = {"hits": hits, "members": 32, "alarms": 1, "others": 32}
    judged = {"vs_retrain": figure(auc), "u_lira": figure(auc)}
    return judged | {"gap": -0.002, "distance": [0.3, 0.5], "taken": taken}


def record(seed: int) -> dict[str, Any]:
    null = figure(0.5) | {"taken": {"hits": 8, "members": 16, "alarms": 8, "others": 16}}
    rows = {"original": row(0.7, 32), "FedORA": row(0.52, 8), "fine-tune": row(0.6, 24)}
    return {"population": "digits", "seed": seed, "null": null, "rows_judged": rows}


def test_the_bound_of_epsilon_pools_the_whole_models_of_all_seeds() -> None:
    found = {each.name: each for each in summaries([record(seed) for seed in range(5)])}
    original, null = found["original"].proved, found["Retrain against Retrain"].proved
    assert original is not None
    assert null is not None
    assert original.trials == (160, 160)
    # 155 of 160 are spared and none is missed: log(0.929 / 0.0228) at 95 %.
    assert (original.epsilon, original.ceiling) == pytest.approx((3.71, 3.76), abs=0.01)
    assert (null.epsilon, null.trials) == (0.0, (80, 80))


def test_the_table_shows_the_bound_its_confidence_and_what_a_perfect_attack_would_prove() -> None:
    lines = table(list(summaries([record(seed) for seed in range(5)]))).splitlines()
    assert lines[2].endswith("| ε at least (95 %) |")
    assert lines[4].startswith("| Retrain against Retrain")
    assert lines[4].endswith("| 0.00 of 3.05 |")
    assert lines[5].endswith("| 3.71 of 3.76 |")
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_the_verdicts_carry_the_bound_without_a_demand() -> None:
    rows = [each for each in verdicts(summed(5)) if "ε" in each.name]
    assert [each.name for each in rows] == [
        "digits: ε of original at least",
        "digits: ε of FedORA at least",
    ]
    assert all(each.ok is None and "95 %" in each.unit for each in rows)


def test_a_part_without_counts_shows_no_bound() -> None:
    older = record(1)
    del older["rows_judged"]["original"]["taken"]
    found = {each.name: each for each in summaries([record(0), older])}
    assert found["original"].proved is None
    assert found["FedORA"].proved is not None
    assert table(list(found.values())).splitlines()[5].endswith("|  |")


def summed(seeds: int) -> list[Summary]:
    return list(summaries([record(seed) for seed in range(seeds)]))
