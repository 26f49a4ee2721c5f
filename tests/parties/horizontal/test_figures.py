"""What a server makes of what its clients measured: odds, figures beside Retrain's, stages."""

from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from clients import row_source
from five_clients import CONFIG, LOCAL_TASK, prepared
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from configs.client_unlearning import ClientMethod
from configs.language_unlearning import TextMethod
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
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import ClientJob, PoolCohort, VectorHandle, run_job
from parties.report.horizontal.labels import COLUMNS, METHODS
from parties.report.horizontal.page import horizontal_page
from unlearning.audit.metric import Metric


@given(st.lists(st.floats(-MAX_SCORE, MAX_SCORE), min_size=1, max_size=40))
def test_counts_give_every_row_s_odds_back_to_half_a_part(odds: list[float]) -> None:
    counts = score_histogram(torch.tensor(odds, dtype=torch.float64))
    assert len(counts) == BINS
    np.testing.assert_allclose(histogram_scores(counts), np.sort(odds), atol=BIN_WIDTH / 2 + 1e-6)


def test_odds_beyond_the_ends_are_counted_at_the_ends() -> None:
    counts = score_histogram(torch.tensor([-99.0, float("inf"), 0.1, float("nan")]))
    assert (counts[0], counts[-1], sum(counts)) == (2, 1, 4)


def test_distances_of_counts_are_kolmogorov_and_smirnov_s() -> None:
    low, high = (
        score_histogram(torch.tensor([-5.0, -5.0, 5.0, 5.0])),
        score_histogram(torch.tensor([5.0])),
    )
    assert ks_distance(low, low) == 0.0
    assert ks_distance(low, high) == 0.5
    assert ks_distance(low, ()) is None
    assert add_histograms([low, high]) == tuple(a + b for a, b in zip(low, high, strict=True))


def score(right: int, rows: int, odds: float) -> RowMetrics:
    return RowMetrics(rows, right, 1.0, score_histogram(torch.full((rows,), odds)))


def outcome(name: str, forgotten: float, **stages: float) -> ModelOutcome:
    """Four clients, of which ``a`` leaves, with rows of these odds, and ``d`` has left before."""

    def scores(odds: float) -> dict[str, dict[str, RowMetrics]]:
        nobody = {each: RowMetrics(0, 0, 0.0) for each in "bcd"}
        gone = {"d": score(0, 4, -3)}
        sure = round(10 * (odds > 0))
        return {
            "forgotten": {"a": score(sure, 10, odds), **nobody},
            "retained": {**nobody, "b": score(9, 10, 3), "c": score(6, 10, 3)},
            "test": {"a": score(1, 4, -3), "b": score(3, 4, 1), "c": score(4, 8, 1), **gone},
            "validation": {"a": score(0, 4, 1), "b": score(1, 4, 1), "c": score(1, 2, 1), **gone},
            "planted": {**nobody, "a": score(sure, 10, odds), "c": score(5, 10, 1)},
            "stamped": nobody,
            "members": {"a": score(0, 10, odds), **nobody},
            "non_members": {"a": score(0, 10, -3.0), **nobody},
        }

    turns = [
        {"stage": "unlearn", "conflicts": 1, "cosine": 0.25, "skipped": False},
        {"stage": "unlearn", "conflicts": 2, "cosine": 0.5, "skipped": False},
        {"stage": "unlearn", "conflicts": None, "cosine": None, "skipped": True},
        {"stage": "recover", "conflicts": None, "cosine": None, "skipped": False},
    ]
    staged = {stage: scores(odds) for stage, odds in stages.items()}
    return ModelOutcome(name, None, 1.0, 1, scores(forgotten), staged, turns)


def found(**changed: float) -> dict[str, dict[str, Metric]]:
    outcomes = [
        outcome("original", 5.0),
        outcome("fedosd", changed.get("fedosd", -3.0), unlearned=-5.0, reverted=2.0),
        outcome("retrain", -3.0),
        outcome("retrain-2", -3.0),
    ]
    return {
        name: {each.name: each for each in some}
        for name, some in request_metrics(outcomes, {"a"}).items()
    }


def test_figures_stand_beside_retrain() -> None:
    known = found()["original"]
    assert (known["forgotten_accuracy"].value, known["forgotten_accuracy"].retrain_mean) == (1, 0)
    assert known["membership_auc"].value == 1.0
    assert known["membership_auc"].retrain_mean == 0.5
    assert known["odds_to_retrain"].value == 1.0
    assert known["odds_to_retrain"].retrain_mean == 0.0
    assert known["planted"].value == 1.0
    assert known["stamped"].value is None


def test_fairness_is_over_those_who_stay_all_alike() -> None:
    known = found()["fedosd"]
    wanted = {"worst_client": 0.5, "client_accuracy": 0.625, "best_client": 0.75}
    assert {name: known[name].value for name in wanted} == wanted
    assert known["test_accuracy"].value == pytest.approx(7 / 12)  # by rows
    assert known["leaving_test_accuracy"].value == 0.25
    assert known["validation_accuracy"].value == 0.375


def test_stages_and_conflicts_are_figures_too() -> None:
    known = found()["fedosd"]
    assert known["unlearned_planted"].value == 0.0
    assert known["reverted_planted"].value == 1.0
    assert (known["conflicts"].value, known["largest_cosine"].value) == (1.5, 0.5)


def test_skipped_rounds_are_counted_and_shown() -> None:
    known = found()["fedosd"]["skipped_rounds"]
    assert (known.value, known.n) == (1, 3)
    (column,) = (each for each in COLUMNS if each.metric == "skipped_rounds")
    assert column.text(known.value) == "1"


class Gone:
    """Workers whose processes were ended, as one that takes too much memory is."""

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


@pytest.mark.parametrize("at_once", [False, True])
def test_processes_that_were_ended_are_named_whatever_they_did(
    tmp_path: Path, at_once: bool
) -> None:
    cohort = PoolCohort(["a"], row_source(tmp_path / "wards.toml", (), None), Gone(at_once), 1.0)
    with pytest.raises(ResourceError, match="was killed"):
        cohort.evaluate(["a"], "learn", torch.zeros(1))
    with pytest.raises(ResourceError, match="was killed"):
        list(cohort.updates([Member("a")], LOCAL_TASK, {"model": torch.zeros(1)}))


class Here:
    """Tasks are carried out where they are submitted."""

    def __init__(self) -> None:
        self.taught = 0

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        del name
        return vector

    def delete(self, posted: VectorHandle) -> None:
        """Nothing to free."""

    def submit(self, task: ClientJob) -> "Future[Any]":
        self.taught += task.task is not None
        future: Future[Any] = Future()
        future.set_result(run_job(task, lambda posted: posted))  # type: ignore[arg-type,return-value]
        return future

    def close(self) -> None:
        """Nothing to end."""


def test_a_run_tells_its_figures_and_nothing_is_done_twice_after_a_crash(tmp_path: Path) -> None:
    text = CONFIG.replace(
        "limits =",
        'unlearning = { compare = ["fine-tune"], retrains = 2, fine_tune = { rounds = 1 }, '
        'variants = [{ name = "m1", method = "fedosd", settings = { variant = "ascent" } }], '
        "fedosd = { unlearn = { rounds = 2 }, recover = { rounds = 1 } } }\n"
        "evaluation = { revert = 1, conflicts = true }\nlimits =",
    )
    config, place = prepared(tmp_path, text)
    party = set_up_horizontal_party(config, "server", place, lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    workers = Here()

    def told() -> dict[str, Any]:
        cohort = PoolCohort(config.agreement.spokes, source, workers, 1.0)
        record = RunJournal(party, federated_checkpoints(party), bytes(16))
        try:
            return FederatedServer(party, cohort, record).run()
        finally:
            cohort.close()
            record.save()

    first = told()
    (request,) = first["requests"]
    names = ["original", "fedosd", "fine-tune", "m1", "retrain", "retrain-2"]
    assert [each["name"] for each in request["methods"]] == names
    by_name = {each["name"]: each for each in request["methods"]}
    assert set(by_name["fedosd"]["stages"]) == {"unlearned", "reverted"}
    assert set(by_name["retrain"]["stages"]) == {"reverted"}
    assert set(by_name["original"]["scores"]) == set(EVALUATED_KINDS)
    (auc,) = (e for e in by_name["fedosd"]["figures"] if e["name"] == "membership_auc")
    assert auc["retrain_sd"] is not None
    text = horizontal_page(first)
    assert "rows of client-0 are forgotten" in text
    assert "Retrain, 2" in text
    assert text.count("<svg") >= 8
    assert "With one Retrain" not in text
    assert "With one Retrain the spread" in horizontal_page(of_one_retrain(first))
    taught, workers.taught = workers.taught, 0
    again = told()
    assert taught > 20
    assert workers.taught == 0
    assert again["requests"] == first["requests"]


def of_one_retrain(metrics: dict[str, Any]) -> dict[str, Any]:
    """What a run with a single Retrain says."""
    found = deepcopy(metrics)
    (request,) = found["requests"]
    request["methods"] = [each for each in request["methods"] if each["name"] != "retrain-2"]
    for each in request["methods"]:
        for known in each["figures"]:
            known["retrain_sd"] = None
    return found


def test_the_report_has_words_for_every_method() -> None:
    """One without would be told as another one with other settings."""
    ways = {*get_args(ClientMethod), *get_args(TextMethod)}
    assert set(METHODS) == {"original", "retrain", *ways}


def test_a_request_after_which_nobody_has_rows_is_refused_before_anything_is_done(
    tmp_path: Path,
) -> None:
    text = CONFIG.replace(
        'client = "client-0", trigger = { share = 0.5 }',
        'classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]',
    )
    wards = prepared(tmp_path, text)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(party.agreement.spokes, source, Here(), 1.0)
    with pytest.raises(PolicyError, match="leaves no client with rows"):
        FederatedServer(
            party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
        ).run()


@pytest.mark.parametrize("sums", [True, False])
def test_under_sums_no_two_requests_ask_for_one_and_the_same_sum_of_other_clients(
    tmp_path: Path, sums: bool
) -> None:
    """Their difference would be one client's update; where updates are said, nothing is hidden."""
    text = CONFIG.replace(
        'client = "client-0", trigger = { share = 0.5 }',
        'client = "client-0" }, { name = "second", client = "client-1"',
    )
    text = text.replace("limits =", 'unlearning = { method = "fine-tune", compare = [] }\nlimits =')
    text = text.replace("limits =", 'aggregation = { kind = "masks" }\nlimits =') if sums else text
    wards = prepared(tmp_path, text)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source, asked = row_source(tmp_path / "wards.toml", (), None), dict[object, set[str]]()
    twice: list[object] = []

    class Listens(PoolCohort):
        def mean_update(
            self, members: Sequence[Member], task: LocalTask, slots: Slots
        ) -> MeanUpdate:
            at = (task.stream, slots["model"].numpy().tobytes())
            names = {each.client for each in members}
            twice.extend([at] if asked.setdefault(at, names) != names else [])
            return super().mean_update(members, task, slots)

    cohort = Listens(party.agreement.spokes, source, Here(), 1.0)
    found = FederatedServer(
        party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()
    assert [each["name"] for each in found["requests"]] == ["leaver", "second"]
    streams = {str(stream) for stream, _ in asked}  # type: ignore[misc]
    salted = [each for each in streams if each.endswith(" second")]
    assert any(each.startswith("retrain ") for each in salted) is sums
    assert bool(twice) is not sums


def test_what_was_measured_of_single_questions_is_compared_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marks(*_: object) -> dict[str, Any]:
        return {"ratios": [0.25, 0.5], "questions": 2}

    monkeypatch.setattr(NetworkServerTask, "benchmark_metrics", marks)
    wards = prepared(tmp_path, CONFIG)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(party.agreement.spokes, source, Here(), 1.0)
    found = FederatedServer(
        party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()
    told = [each["benchmark_metrics"] for each in found["requests"][0]["methods"]]
    assert len(told) > 2
    assert all(each == {"questions": 2} for each in told)


def test_a_request_that_concerns_no_row_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    text = CONFIG.replace(
        'client = "client-0", trigger = { share = 0.5 }', 'classes = ["0"], fraction = 0.001'
    )
    text = text.replace("limits =", 'unlearning = { method = "ewc-sga", compare = [] }\nlimits =')
    wards = prepared(tmp_path, text)
    party = set_up_horizontal_party(wards[0], "server", wards[1], lambda _: None)
    source = row_source(tmp_path / "wards.toml", (), None)
    cohort = PoolCohort(party.agreement.spokes, source, Here(), 1.0)
    server = FederatedServer(
        party, cohort, RunJournal(party, federated_checkpoints(party), bytes(16))
    )
    metrics = server.run()
    [request] = metrics["requests"]
    assert [each["name"] for each in request["methods"]] == ["original"]
    assert (request["leaving"], request["remaining"], request["chosen"]) == ([], 5, "original")
    assert "No client had such rows: the model did not change." in horizontal_page(metrics)
    assert "With one Retrain" not in horizontal_page(metrics)
    assert server.delivered().isfinite().all()
