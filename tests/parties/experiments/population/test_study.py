"""Tests of the summary of a study over seeds, its table and its checks."""

import json
from pathlib import Path
from typing import Any

import pytest

from parties.experiments.population.checks import (
    draw_study,
    study_checks,
    study_points,
    study_table,
)
from parties.experiments.population.plan import Study
from parties.experiments.population.study import (
    MethodSummary,
    StudyPlace,
    run_study_parts,
    summarise_study,
)
from unlearning.audit.epsilon import EpsilonBound


def figure(auc: float) -> dict[str, Any]:
    return {"auc": auc, "error": 0.01}


def row(auc: float, hits: int) -> dict[str, Any]:
    taken = {"hits": hits, "members": 32, "alarms": 1, "others": 32}
    audited = {"vs_retrain": figure(auc), "u_lira": figure(auc)}
    accuracies = [0.9, 0.91, 0.92, 0.93] * 8
    known = {"gap": -0.002, "distance": [0.3, 0.5], "taken": taken, "accuracies": accuracies}
    return audited | known


def record(seed: int) -> dict[str, Any]:
    null = figure(0.5) | {"taken": {"hits": 8, "members": 16, "alarms": 8, "others": 16}}
    rows = {"original": row(0.7, 32), "FedORA": row(0.52, 8), "fine-tune": row(0.6, 24)}
    scale = {"runs": 32, "learned": 1234}
    retrained = {"retrain_accuracies": [0.905, 0.915, 0.925, 0.935] * 8}
    known = {"population": "digits", "seed": seed, "null": null, "rows_judged": rows}
    return known | scale | retrained


def test_epsilon_bound_pools_the_models_of_all_seeds() -> None:
    summaries = {each.name: each for each in summarise_study([record(seed) for seed in range(5)])}
    original, null = summaries["original"].bound, summaries["Retrain against Retrain"].bound
    assert original.trials == (160, 160)
    # 155 of 160 are spared and none is missed: log(0.929 / 0.0228) at 95 %.
    assert (original.epsilon, original.ceiling) == pytest.approx((3.71, 3.76), abs=0.01)
    assert (null.epsilon, null.trials) == (0.0, (80, 80))


def test_table_shows_the_bound_its_confidence_and_the_maximum() -> None:
    text = study_table(list(summarise_study([record(seed) for seed in range(5)])))
    head, _, null, original, *_ = lines = text.splitlines()[4:]
    assert "32 models and 32 Retrains per seed; each model was trained on 1,234 rows" in text
    assert head.endswith("| ε at least (95 %) |")
    assert null.startswith("| Retrain against Retrain")
    assert null.endswith("| 0.00 of 3.05 |")
    assert original.endswith("| 3.71 of 3.76 |")
    assert len({line.count("|") for line in lines}) == 1


def test_the_checks_carry_the_bound_without_a_demand() -> None:
    rows = [each for each in study_checks(summed(5)) if "ε" in each.name]
    assert [each.name for each in rows] == [
        "digits: ε of original at least",
        "digits: ε of FedORA at least",
    ]
    assert all(each.ok is None and "95 %" in each.unit for each in rows)


def test_test_accuracy_is_compared_over_all_models_of_all_seeds() -> None:
    """A gap of 0.005 is within one deviation of Retrain (0.0112), shown by 160 models a side."""
    other = record(9)  # another split, on which all models do better
    other["retrain_accuracies"] = [each + 0.05 for each in other["retrain_accuracies"]]
    for each in other["rows_judged"].values():
        each["accuracies"] = [accuracy + 0.05 for accuracy in each["accuracies"]]
    summaries = list(summarise_study([*(record(seed) for seed in range(4)), other]))
    null, fedora = summaries[0], next(each for each in summaries if each.name == "FedORA")
    assert null.equivalent is None
    assert fedora.equivalent is not None
    assert fedora.equivalent.difference == pytest.approx(-0.005)
    assert (fedora.equivalent.runs, fedora.equivalent.shown) == (160, True)
    assert "| -0.20 | yes, p < 0.001 |" in study_table(summaries)
    assert any("TOST" in each.name for each in study_checks(summaries))


def test_part_of_an_earlier_version_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.toml").write_text("")
    population = {"name": "digits", "config": "some.toml", "runs": 32}
    study = Study.model_validate({"population": [population], "row": []}, strict=False)
    monkeypatch.setattr(
        "parties.experiments.population.study.audit_population", lambda *_: record(0)
    )
    place = StudyPlace(tmp_path, None, tmp_path / "parts")
    (part,) = run_study_parts(study, study.population, place, 1)
    part(lambda _: None)
    (part_file,) = (tmp_path / "parts").iterdir()
    older = {name: each for name, each in record(0).items() if name != "retrain_accuracies"}
    part_file.write_text(json.dumps(older))
    assert part(lambda _: None) == record(0)
    assert json.loads(part_file.read_text()) == record(0)


def summed(seeds: int) -> list[MethodSummary]:
    return list(summarise_study([record(seed) for seed in range(seeds)]))


NULL = "Retrain against Retrain"


def summary(name: str, auc: float, *, error: float = 0.01, place: str = "digits") -> MethodSummary:
    both = ("vs_retrain",) if name == NULL else ("vs_retrain", "u_lira")
    aucs, errors = dict.fromkeys(both, auc), dict.fromkeys(both, error)
    return MethodSummary(
        place, name, aucs, errors, -0.2, 0.3, 32, 1234, EpsilonBound(0.0, (32, 32), 3.0, 0.95)
    )


def audited(*changed: MethodSummary) -> dict[str, tuple[float, bool | None]]:
    """Return the checks on a population, with these summaries in place of the usual ones."""
    usual = [
        summary(NULL, 0.5),
        summary("original", 0.7),
        summary("FedORA", 0.52),
        summary("fine-tune", 0.6),
    ]
    rows = {(each.population, each.name): each for each in (*usual, *changed)}
    checks = study_checks(list(rows.values()))
    return {each.name.removeprefix("digits: "): (each.value, each.ok) for each in checks}


@pytest.mark.parametrize("audit", ["vs-Retrain AUC", "U-LiRA AUC"])
@pytest.mark.parametrize(("auc", "ok"), [(0.55, True), (0.56, False), (0.45, True), (0.44, False)])
def test_method_must_be_indistinguishable_from_retrain_in_both_directions(
    audit: str, auc: float, *, ok: bool
) -> None:
    value, held = audited(summary("FedORA", auc))[f"{audit} of FedORA"]
    assert (value, held) == (pytest.approx(max(auc, 1 - auc)), ok)


def test_method_proves_nothing_if_the_original_is_hardly_detected() -> None:
    checks = audited(summary("original", 0.59))
    proves = "vs-Retrain AUC of FedORA (the original is below 0.6: proves nothing)"
    assert checks[proves] == (pytest.approx(0.52), None)
    assert "vs-Retrain AUC of FedORA" not in checks


@pytest.mark.parametrize(
    ("rival", "error", "ok"),
    [(0.53, 0.01, True), (0.51, 0.01, True), (0.5, 0.01, False), (0.48, 0.01, True)],
)
def test_best_baseline_may_lead_by_one_standard_error(
    rival: float, error: float, *, ok: bool
) -> None:
    """A gap of 0.02 exceeds √2 · 0.01; an AUC of 0.48 is as far from chance as 0.52."""
    checks = audited(summary("fine-tune", rival, error=error))
    name = "vs-Retrain AUC of FedORA minus that of the best rival (fine-tune)"
    assert checks[name] == (pytest.approx(0.52 - max(rival, 1 - rival)), ok)


def test_baseline_of_another_architecture_counts() -> None:
    votes = summary("CVFU", 0.5, place="digits, votes")
    assert "vs-Retrain AUC of FedORA minus that of the best rival (CVFU)" in audited(votes)


def test_metric_of_votes_alone_is_plotted(tmp_path: Path) -> None:
    """Votes are drawn in the panel of their population, even without its other results."""
    draw_study(study_points([summary("CVFU", 0.9, place="digits, votes")]), tmp_path / "votes.png")
    assert (tmp_path / "votes.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("auc", "error", "ok"),
    [(0.515, 0.01, True), (0.485, 0.01, True), (0.515, 0.005, False), (0.525, 0.05, False)],
)
def test_null_auc_is_within_two_errors_and_a_fiftieth_of_one_half(
    auc: float, error: float, *, ok: bool
) -> None:
    checks = audited(summary(NULL, auc, error=error))
    assert checks["null, distance of its AUC from 0.5"] == (pytest.approx(abs(auc - 0.5)), ok)
