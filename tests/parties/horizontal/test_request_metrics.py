"""Metrics that a server computes from its clients' scores, also per stage and against Retrain."""

from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clients import row_source
from five_clients import CONFIG, LOCAL_TASK, prepare
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from torch import Tensor

from parties.common.errors import PolicyError, ResourceError
from parties.horizontal.engine.cohort import MeanUpdate, Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.evaluation.metrics import request_metrics
from parties.horizontal.evaluation.outcome import EVALUATED_KINDS, ModelOutcome
from parties.horizontal.local.local_task import LocalTask, RowMetrics, Slots
from parties.horizontal.local.score_histogram import (
    BIN_WIDTH,
    BINS,
    MAX_SCORE,
    add_histograms,
    histogram_scores,
    ks_distance,
    score_histogram,
)
from parties.horizontal.network_task import NetworkServerTask
from parties.horizontal.registry import METHODS as CLIENT_METHODS
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import ClientJob, PoolCohort, VectorHandle, run_job
from parties.language.registry import METHODS as TEXT_METHODS
from parties.report.columns import FEDERATED_COLUMNS
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables
from unlearning.audit.metric import Metric


@given(st.lists(st.floats(-MAX_SCORE, MAX_SCORE), min_size=1, max_size=40))
def test_histogram_keeps_scores_to_half_a_bin(scores: list[float]) -> None:
    counts = score_histogram(torch.tensor(scores, dtype=torch.float64))
    assert len(counts) == BINS
    np.testing.assert_allclose(histogram_scores(counts), np.sort(scores), atol=BIN_WIDTH / 2 + 1e-6)


def test_scores_beyond_the_range_are_counted_in_the_last_bins() -> None:
    counts = score_histogram(torch.tensor([-99.0, float("inf"), 0.1, float("nan")]))
    assert (counts[0], counts[-1], sum(counts)) == (2, 1, 4)


def test_ks_distance_of_histograms() -> None:
    low, high = (
        score_histogram(torch.tensor([-5.0, -5.0, 5.0, 5.0])),
        score_histogram(torch.tensor([5.0])),
    )
    assert ks_distance(low, low) == 0.0
    assert ks_distance(low, high) == 0.5
    assert ks_distance(low, ()) is None
    assert add_histograms([low, high]) == tuple(a + b for a, b in zip(low, high, strict=True))


def score(right: int, rows: int, score_value: float) -> RowMetrics:
    return RowMetrics(rows, right, 1.0, score_histogram(torch.full((rows,), score_value)))


def outcome(name: str, forgotten: float, **stages: float) -> ModelOutcome:
    """Return the outcome for four clients; ``a`` leaves now, ``d`` left in an earlier request."""

    def scores(score_value: float) -> dict[str, dict[str, RowMetrics]]:
        no_rows = {each: RowMetrics(0, 0, 0.0) for each in "bcd"}
        left = {"d": score(0, 4, -3)}
        correct = round(10 * (score_value > 0))
        return {
            "forgotten": {"a": score(correct, 10, score_value), **no_rows},
            "retained": {**no_rows, "b": score(9, 10, 3), "c": score(6, 10, 3)},
            "test": {"a": score(1, 4, -3), "b": score(3, 4, 1), "c": score(4, 8, 1), **left},
            "validation": {"a": score(0, 4, 1), "b": score(1, 4, 1), "c": score(1, 2, 1), **left},
            "planted": {**no_rows, "a": score(correct, 10, score_value), "c": score(5, 10, 1)},
            "stamped": no_rows,
            "members": {"a": score(0, 10, score_value), **no_rows},
            "non_members": {"a": score(0, 10, -3.0), **no_rows},
        }

    rounds = [
        {"stage": "unlearn", "conflicts": 1, "cosine": 0.25, "skipped": False},
        {"stage": "unlearn", "conflicts": 2, "cosine": 0.5, "skipped": False},
        {"stage": "unlearn", "conflicts": None, "cosine": None, "skipped": True},
        {"stage": "recover", "conflicts": None, "cosine": None, "skipped": False},
    ]
    staged = {stage: scores(score_value) for stage, score_value in stages.items()}
    return ModelOutcome(name, None, 1.0, 1, scores(forgotten), staged, rounds)


def metrics_by_model(**changed: float) -> dict[str, dict[str, Metric]]:
    outcomes = [
        outcome("original", 5.0),
        outcome("fedosd", changed.get("fedosd", -3.0), unlearned=-5.0, reverted=2.0),
        outcome("retrain", -3.0),
        outcome("retrain-2", -3.0),
    ]
    return {
        name: {each.name: each for each in values}
        for name, values in request_metrics(outcomes, {"a"}).items()
    }


def test_metrics_are_compared_with_retrain() -> None:
    metrics = metrics_by_model()["original"]
    assert (metrics["forgotten_accuracy"].value, metrics["forgotten_accuracy"].retrain_mean) == (
        1,
        0,
    )
    assert metrics["membership_auc"].value == 1.0
    assert metrics["membership_auc"].retrain_mean == 0.5
    assert metrics["odds_to_retrain"].value == 1.0
    assert metrics["odds_to_retrain"].retrain_mean == 0.0
    assert metrics["planted"].value == 1.0
    assert metrics["stamped"].value is None


def test_fairness_weights_remaining_clients_equally() -> None:
    metrics = metrics_by_model()["fedosd"]
    expected = {"worst_client": 0.5, "client_accuracy": 0.625, "best_client": 0.75}
    assert {name: metrics[name].value for name in expected} == expected
    assert metrics["test_accuracy"].value == pytest.approx(7 / 12)  # by rows
    assert metrics["leaving_test_accuracy"].value == 0.25
    assert metrics["validation_accuracy"].value == 0.375


def test_stages_and_conflicts_have_metrics() -> None:
    metrics = metrics_by_model()["fedosd"]
    assert metrics["unlearned_planted"].value == 0.0
    assert metrics["reverted_planted"].value == 1.0
    assert (metrics["conflicts"].value, metrics["largest_cosine"].value) == (1.5, 0.5)


def test_skipped_rounds_are_counted_and_shown() -> None:
    metric = metrics_by_model()["fedosd"]["skipped_rounds"]
    assert (metric.value, metric.n) == (1, 3)
    (column,) = (each for each in FEDERATED_COLUMNS if each.source[1] == "skipped_rounds")
    assert column.text(metric.value) == "1"


class KilledWorkers:
    """Workers whose processes were killed, as by lack of memory."""

    parallel = 1

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        return name, vector

    def delete(self, posted: VectorHandle) -> None:
        """Nothing to free."""

    def submit(self, task: ClientJob) -> "Future[Any]":
        error = BrokenProcessPool(str(task.client))
        if self.at_once:
            raise error
        future: Future[Any] = Future()
        future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True])
def test_killed_worker_processes_are_reported(tmp_path: Path, at_once: bool) -> None:
    cohort = PoolCohort(
        ["a"], row_source(tmp_path / "wards.toml", (), None), KilledWorkers(at_once), 1.0
    )
    with pytest.raises(ResourceError, match="was killed"):
        cohort.evaluate(["a"], "learn", torch.zeros(1))
    with pytest.raises(ResourceError, match="was killed"):
        list(cohort.updates([Member("a")], LOCAL_TASK, {"model": torch.zeros(1)}))


class InProcessWorkers:
    """Workers that run each task in this process, at once."""

    parallel = 1

    def __init__(self) -> None:
        self.trained = 0

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        del name
        return vector

    def delete(self, posted: VectorHandle) -> None:
        """Nothing to free."""

    def submit(self, task: ClientJob) -> "Future[Any]":
        self.trained += task.task is not None
        future: Future[Any] = Future()
        future.set_result(run_job(task, lambda posted: posted))  # type: ignore[arg-type,return-value]
        return future

    def close(self) -> None:
        """Nothing to end."""


def test_run_records_its_metrics_and_a_restart_repeats_nothing(tmp_path: Path) -> None:
    text = CONFIG.replace(
        "limits =",
        'unlearning = { compare = ["fine-tune"], retrains = 2, fine_tune = { rounds = 1 }, '
        'variants = [{ name = "m1", method = "fedosd", settings = { variant = "ascent" } }], '
        "fedosd = { unlearn = { rounds = 2 }, recover = { rounds = 1 } } }\n"
        "evaluation = { revert = 1, conflicts = true }\nlimits =",
    )
    config, options = prepare(tmp_path, text)
    party = set_up_horizontal_party(config, "server", options, lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    workers = InProcessWorkers()

    def run_server() -> dict[str, Any]:
        cohort = PoolCohort(config.agreement.spokes, source, workers, 1.0)
        record = RunJournal(party, federated_checkpoints(party), bytes(16))
        try:
            return FederatedServer(party, cohort, record).run()
        finally:
            cohort.close()
            record.save()

    first = run_server()
    (request,) = first["requests"]
    names = ["original", "fedosd", "fine-tune", "m1", "retrain", "retrain-2"]
    assert [each["name"] for each in request["methods"]] == names
    by_name = {each["name"]: each for each in request["methods"]}
    assert set(by_name["fedosd"]["stages"]) == {"unlearned", "reverted"}
    assert set(by_name["retrain"]["stages"]) == {"reverted"}
    assert set(by_name["original"]["scores"]) == set(EVALUATED_KINDS)
    (auc,) = (e for e in by_name["fedosd"]["figures"] if e["name"] == "membership_auc")
    assert auc["retrain_sd"] is not None
    text = report_page(first)
    assert "rows of client-0 are forgotten" in text
    assert "Retrain, 2" in text
    assert text.count("<svg") >= 8
    assert "With one Retrain" not in text
    assert "With one Retrain the spread" in report_page(with_one_retrain(first))
    trained, workers.trained = workers.trained, 0
    restarted = run_server()
    assert trained > 20
    assert workers.trained == 0
    assert restarted["requests"] == first["requests"]


def test_a_method_runs_alone(tmp_path: Path) -> None:
    text = CONFIG.replace(
        "limits =",
        "unlearning = { compare = [], retrains = 0, "
        "fedosd = { unlearn = { rounds = 1 }, recover = { rounds = 1 } } }\nlimits =",
    )
    config, options = prepare(tmp_path, text)
    party = set_up_horizontal_party(config, "server", options, lambda _: None)
    workers = InProcessWorkers()
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(config.agreement.spokes, source, workers, 1.0)
    try:
        record = RunJournal(party, federated_checkpoints(party), bytes(16))
        metrics = FederatedServer(party, cohort, record).run()
    finally:
        cohort.close()
    (request,) = metrics["requests"]
    assert [each["name"] for each in request["methods"]] == ["original", "fedosd"]
    rounds = len(metrics["training"]["steps"]) + len(request["methods"][1]["steps"])
    assert workers.trained <= rounds * config.agreement.clients  # no round of a Retrain
    assert request["audit_level"] == "quick"
    names = {each["name"] for each in request["methods"][1]["figures"]}
    assert "odds_to_retrain" not in names
    console = Console(width=100, file=StringIO(), record=True)
    console.print(report_tables(metrics))
    for shown in (report_page(metrics), " ".join(console.export_text().split())):
        assert "FedOSD, not compared with a Retrain" in shown
        assert "no Retrain was trained for comparison, so the figures cannot say" in shown
        assert "Before and after FedOSD: trigger rate" in shown
        assert "; test accuracy" in shown


def with_one_retrain(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a run with a single Retrain."""
    copy = deepcopy(metrics)
    (request,) = copy["requests"]
    request["methods"] = [each for each in request["methods"] if each["name"] != "retrain-2"]
    for each in request["methods"]:
        for metric in each["figures"]:
            metric["retrain_sd"] = None
    return copy


def test_every_method_says_what_the_report_shows_of_it() -> None:
    for methods in (CLIENT_METHODS, TEXT_METHODS):
        titles = [each.label.title for each in methods.values()]
        assert all(titles)
        assert len(set(titles)) == len(titles)
        assert all(each.label.meaning for each in methods.values())


def test_request_for_all_rows_is_refused_before_training(
    tmp_path: Path,
) -> None:
    text = CONFIG.replace(
        'client = "client-0", trigger = { share = 0.5 }',
        'classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]',
    )
    wards = prepare(tmp_path, text)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(party.agreement.spokes, source, InProcessWorkers(), 1.0)
    with pytest.raises(PolicyError, match="no client has rows left"):
        FederatedServer(
            party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
        ).run()


@pytest.mark.parametrize("masks", [True, False])
def test_requests_with_masks_do_not_sum_one_task_over_different_clients(
    tmp_path: Path, masks: bool
) -> None:
    """The difference of such sums would be one client's update; without masks it is sent anyway."""
    text = CONFIG.replace(
        'client = "client-0", trigger = { share = 0.5 }',
        'client = "client-0" }, { name = "second", client = "client-1"',
    )
    text = text.replace("limits =", 'unlearning = { method = "fine-tune", compare = [] }\nlimits =')
    text = text.replace("limits =", 'aggregation = { kind = "masks" }\nlimits =') if masks else text
    wards = prepare(tmp_path, text)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source, summed = row_source(tmp_path / "wards.toml", (), None), dict[object, set[str]]()
    twice: list[object] = []

    class RecordingPool(PoolCohort):
        def mean_update(
            self, members: Sequence[Member], task: LocalTask, slots: Slots
        ) -> MeanUpdate:
            call = (task.stream, slots["model"].numpy().tobytes())
            names = {each.client for each in members}
            twice.extend([call] if summed.setdefault(call, names) != names else [])
            return super().mean_update(members, task, slots)

    cohort = RecordingPool(party.agreement.spokes, source, InProcessWorkers(), 1.0)
    metrics = FederatedServer(
        party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()
    assert [each["name"] for each in metrics["requests"]] == ["leaver", "second"]
    streams = {str(stream) for stream, _ in summed}  # type: ignore[misc]
    own_streams = [each for each in streams if each.endswith(" second")]
    assert any(each.startswith("retrain ") for each in own_streams) is masks
    assert bool(twice) is not masks


def test_scores_of_single_questions_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def benchmark_metrics(*_: object) -> dict[str, Any]:
        return {"ratios": [0.25, 0.5], "geometric_ratios": [0.2, 0.4], "questions": 2}

    monkeypatch.setattr(NetworkServerTask, "benchmark_metrics", benchmark_metrics)
    wards = prepare(tmp_path, CONFIG)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(party.agreement.spokes, source, InProcessWorkers(), 1.0)
    metrics = FederatedServer(
        party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()
    recorded = [each["benchmark"] for each in metrics["requests"][0]["methods"]]
    assert len(recorded) > 2
    assert all(each == {"questions": 2} for each in recorded)


def test_request_without_matching_rows_does_not_change_the_model(tmp_path: Path) -> None:
    text = CONFIG.replace(
        'client = "client-0", trigger = { share = 0.5 }', 'classes = ["0"], fraction = 0.001'
    )
    text = text.replace("limits =", 'unlearning = { method = "ewc-sga", compare = [] }\nlimits =')
    wards = prepare(tmp_path, text)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(party.agreement.spokes, source, InProcessWorkers(), 1.0)
    server = FederatedServer(
        party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
    )
    metrics = server.run()
    [request] = metrics["requests"]
    assert [each["name"] for each in request["methods"]] == ["original"]
    assert (request["members"], request["chosen"]) == ({"leaving": [], "remaining": 5}, "original")
    assert "No client had such rows: the model did not change." in report_page(metrics)
    assert "With one Retrain" not in report_page(metrics)
    assert server.delivered().isfinite().all()
