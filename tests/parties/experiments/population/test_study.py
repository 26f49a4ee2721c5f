"""Tests of the summary of a study over seeds, its tables and its checks, on models of known AUC."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parties.common.errors import PolicyError
from parties.experiments.population import study as study_module
from parties.experiments.population.audit import U_LIRA, VS_RETRAIN
from parties.experiments.population.measured import Measured
from parties.experiments.population.part import PartPlan, StudyPlace
from parties.experiments.population.plan import ORIGINAL, RETRAIN, Population, StudyMethod
from parties.experiments.population.study import MeasuredPart, summarise_study
from parties.experiments.population.summary import NULL, PopulationSummary
from parties.experiments.provenance import RunningCode
from parties.experiments.study_pages.checks import study_checks
from parties.experiments.study_pages.study_page import COLUMNS, study_table

RUNS, ROWS = 32, 40
POPULATION = Population(name="digits", config="some.toml", runs=RUNS)


def measured(name: str, values: Any, accuracy: float, generator: np.random.Generator) -> Measured:
    accuracies = accuracy + 0.01 * generator.standard_normal(RUNS)
    facts = {
        "row": {"name": name, "way": name, "settings": {"epochs": 3}},
        "rows_of_retrain": 0.25,
        "training_rows": 1234,
        "failure": None,
    }
    rates, empty = np.full(8, 0.5), np.empty(0)
    changed = np.full(RUNS, 0.02)
    return Measured(values, values, accuracies, accuracies, changed, empty, rates, facts)


def part(seed: int) -> MeasuredPart:
    """Return models that remember (shifted confidences), models that do not, and Retrains."""
    generator = np.random.default_rng(seed)
    learned = np.zeros((RUNS, ROWS), np.bool_)
    for run in range(0, RUNS, 2):
        learned[run, generator.permutation(ROWS)[: ROWS // 2]] = True
        learned[run + 1] = ~learned[run]
    draws = {
        name: generator.standard_normal((RUNS, ROWS)) for name in ("original", "retrain", "exact")
    }
    draws["original"] = draws["original"] + 1.5 * learned
    rows = {
        name: measured(name, values, 0.95 if name == "original" else 0.94, generator)
        for name, values in draws.items()
    }
    return MeasuredPart(POPULATION, seed, learned, rows)


@cache
def summary() -> PopulationSummary:
    (found,) = summarise_study([part(seed) for seed in range(10, 14)])
    return found


def test_models_with_a_memory_are_found_and_models_without_are_not() -> None:
    """A shift of 1.5 deviations has a true AUC of Φ(1.5 / √2) = 0.856 against equal models."""
    found = summary()
    for audit in (U_LIRA, VS_RETRAIN):
        assert found.method("original").auc[audit].value == pytest.approx(0.856, abs=0.03)
        assert not found.method("original").auc[audit].holds_half
        for name in (NULL, "exact"):
            assert found.method(name).auc[audit].holds_half
    assert found.method("original").excess.mean > 0.2
    assert found.method("original").bound.epsilon > 2
    assert found.method("exact").bound.epsilon == 0


def test_summary_has_the_figures_of_the_method_beside_those_of_retrain() -> None:
    found = summary().method("original")
    assert found.gap.mean == pytest.approx(1.0, abs=0.3)
    assert found.gap.error > 0
    assert (found.changed.mean, found.rows) == (pytest.approx(2.0), 0.25)
    assert found.triggered is not None
    assert found.triggered.mean == pytest.approx(50.0)
    assert found.planted is None
    assert summary().method(NULL).equivalent is None


def test_null_column_tells_how_far_from_one_half_single_rows_are_by_chance() -> None:
    """With 16 models a row, the worst rows of equal arms are far from 0.5."""
    null = summary().method(NULL).worst[U_LIRA]
    assert 0.6 < null < summary().method("original").worst[U_LIRA]


def test_tables_have_every_method_and_the_curve_of_the_audits() -> None:
    text = study_table([summary()])
    table, curve = text.split("Mean estimate of each audit")
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert [line.split(" |")[0] for line in lines[2:]] == [f"| {NULL}", "| original", "| exact"]
    assert "32 models and 32 Retrains per seed; each model was trained on 1,234 rows" in table
    assert all(column in lines[0] for column in COLUMNS)
    assert "| true AUC | 0.500 |" in curve


def test_only_models_without_the_rows_must_pass_the_verdict() -> None:
    checks = {each.name: each.ok for each in study_checks([summary()])}
    assert checks == {f"digits: leak of {NULL}": summary().method(NULL).auc[U_LIRA].holds_half}


def test_measurements_are_read_from_their_file(tmp_path: Path) -> None:
    own = part(0).rows["original"]
    own.save(tmp_path / "own.npz")
    found = Measured.load(tmp_path / "own.npz")
    assert found.facts == own.facts
    np.testing.assert_allclose(found.confidences, own.confidences, rtol=1e-6)


def test_diverged_method_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Measured.nothing({"failure": "the parameters of a model are not finite"})

    class Part:
        name, learned = "digits, seed 3", np.empty((0, 0))

        def __init__(self, *_: object) -> None:
            pass

        def measured(self, row: StudyMethod) -> Measured:
            return failed if row.name == "steep" else part(0).rows[row.name]

    monkeypatch.setattr(study_module, "StudyPart", Part)
    place = StudyPlace(tmp_path, None, tmp_path, RunningCode.begin(()))
    plan = PartPlan(POPULATION, 3, (), {})
    with pytest.raises(PolicyError, match="digits, seed 3, method 'steep'"):
        study_module.measure_part(
            plan, [StudyMethod(name="steep", way="fine-tune")], place, lambda _: None
        )
    assert {ORIGINAL.name, RETRAIN.name} <= part(0).rows.keys()
