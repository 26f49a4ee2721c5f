"""Non-finite updates, models and outputs are detected and reported."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, client_tasks, context, fresh, row_source, trained
from five_clients import CONFIG, MASKS, connected_cohort, prepare, unchanged_line
from local_cohort import LocalCohort
from local_run import carried_out
from test_request_metrics import InProcessWorkers
from torch import Tensor

from parties.common.errors import EXIT_CODES, Diverged
from parties.horizontal.engine.cohort import Member, WeightedMean, pseudo_gradients, quorum_updates
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.evaluation.outcome import Scores
from parties.horizontal.local import networks
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.methods.fedosd import FedOsd, FedOsdSettings
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.methods.unlearn import unlearn
from parties.horizontal.requests import RequestRunner
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import PoolCohort
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables

ALL, HUGE = [Member(name) for name in CLIENTS], 1e38
STEEP = replace(LOCAL_TASK, learning_rate=HUGE)
GENTLE = RoundPlan(LOCAL_TASK, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("loss", [False, True])
def test_update_that_is_not_finite_is_refused(value: float, loss: bool) -> None:
    delta = torch.tensor([1.0, 1.0 if loss else value])
    update = LocalUpdate(delta, 1, value if loss else 0.0, 1)
    total, member = WeightedMean(), Member(CLIENTS[3])
    total.add(member, update)
    total.add(ALL[0], LocalUpdate(torch.ones(2), 1, 0.0, 1))
    with pytest.raises(Diverged, match="the update of client-3 is not finite"):
        total.result(ALL, 0.1)
    with pytest.raises(Diverged, match="the update of client-3 is not finite"):
        pseudo_gradients({member: update}, LOCAL_TASK)


@pytest.mark.parametrize("held", [1, 4, 100])
def test_culprit_is_named_among_updates_that_are_added_together(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """The infinite elements of two clients cancel to NaN; large finite elements are no fault."""
    monkeypatch.setattr("parties.horizontal.engine.cohort.HELD", held)
    total, large = WeightedMean(), torch.full((3,), 3e38)
    for number, value in enumerate([1.0, 1.0, float("inf"), 1.0, float("-inf")]):
        update = torch.tensor([value, 1.0, 1.0]) if number else large
        total.add(ALL[number], LocalUpdate(update, 10**9, 0.0, 1))
    with pytest.raises(Diverged, match="the update of client-2 is not finite"):
        total.result(ALL, 1.0)


def test_large_finite_updates_are_no_divergence() -> None:
    total = WeightedMean()
    for member in ALL:
        total.add(member, LocalUpdate(torch.full((3,), 3e38), 10**9, 1e300, 1))
    assert total.result(ALL, 1.0).delta.isfinite().all()
    for each in (torch.full((3,), 3e38), torch.full((3,), 1e308, dtype=torch.float64)):
        pseudo_gradients({ALL[0]: LocalUpdate(each, 1, 0.0, 1)}, LOCAL_TASK)


def test_single_updates_that_diverged_are_refused() -> None:
    with pytest.raises(Diverged, match="the update of client-0 is not finite"):
        dict(quorum_updates(LocalCohort(client_tasks()), ALL, STEEP, {"model": trained()}))


def test_training_stops_in_the_round_that_diverges() -> None:
    """The first round is finite; the learning rate of the second round is too large."""
    round_plan = RoundPlan(replace(LOCAL_TASK, learning_rate=0.1), 3, decay=HUGE)
    rounds = list[int]()
    with pytest.raises(Diverged, match="diverged in round 2: the update of client-0 is not finite"):
        run_rounds(
            LocalCohort(client_tasks()),
            fresh("o"),
            ALL,
            round_plan,
            lambda e: rounds.append(e.number),
        )
    assert rounds == [0]
    assert EXIT_CODES[Diverged] == 3


@pytest.mark.parametrize(
    "method",
    [
        FedOsd(
            RoundPlan(replace(LOCAL_TASK, stream="u"), 3, decay=HUGE),
            GENTLE,
            plan=FedOsdSettings(variant="ascent"),
        ),
        FuPga(GENTLE, RoundPlan(replace(STEEP, aim="elastic"), 2), GENTLE),
        MoDe(RoundPlan(STEEP, 2), GENTLE, GENTLE),
        FineTune(RoundPlan(STEEP, 2)),
    ],
    ids=lambda method: method.name,
)
def test_method_that_diverges_reports_it_and_keeps_the_last_finite_model(
    method: AnyClientMethod,
) -> None:
    outcome = unlearn(method, context([]))  # with rates that no agreement allows
    assert outcome.diverged is not None
    assert outcome.diverged.startswith(f"diverged in round {len(outcome.rounds) + 1}: the ")
    assert outcome.model.isfinite().all()
    assert len(outcome.rounds) < 2


def test_method_that_converges_reports_no_divergence() -> None:
    assert carried_out(FineTune(GENTLE), context([])).diverged is None


def run_server(folder: Path, unlearning: str, events: list[Any]) -> dict[str, Any]:
    text = CONFIG.replace("limits =", f"unlearning = {unlearning}\nlimits =")
    config, options = prepare(folder, text)
    party = set_up_horizontal_party(config, "server", options, events.append)
    source = row_source(folder / "wards.toml", (), None)
    pool = PoolCohort(config.agreement.spokes, source, InProcessWorkers(), 1.0)
    return FederatedServer(
        party, pool, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()


def test_finite_model_with_non_finite_outputs_counts_as_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, evaluate = list[Any](), RequestRunner._evaluate

    def evaluate_with_nan(requests: RequestRunner, model: Tensor) -> Scores:
        scores = evaluate(requests, model)
        if calls.append(0) or len(calls) == 3:  # the evaluation of the second method
            scores["test"]["client-1"] = replace(scores["test"]["client-1"], loss=float("nan"))
        return scores

    calls = list[int]()
    monkeypatch.setattr(RequestRunner, "_evaluate", evaluate_with_nan)
    settings = '{ method = "fine-tune", compare = ["sfu"], fine_tune = { rounds = 1 } }'
    [request] = run_server(tmp_path, settings, events)["requests"]
    by_name = {each["name"]: each["diverged"] for each in request["methods"]}
    message = "made a model with non-finite outputs"
    assert by_name == {"original": None, "fine-tune": None, "sfu": message, "retrain": None}
    assert any(f"sfu {message}" in str(event) for event in events)


DIVERGES = "sfu = { stop_at_uniform = false, ascent = { rounds = 2, learning_rate = 1e38 } }"


def test_other_methods_continue_after_a_divergence(tmp_path: Path) -> None:
    events: list[Any] = []
    settings = '{ method = "fine-tune", compare = ["sfu"], fine_tune = { rounds = 1 }, '
    metrics = run_server(tmp_path, f"{settings}{DIVERGES} }}", events)
    [request] = metrics["requests"]
    by_name = {each["name"]: each for each in request["methods"]}
    assert list(by_name) == ["original", "fine-tune", "sfu", "retrain"]
    assert by_name["sfu"]["diverged"].startswith("diverged in round 1: the update of client-0, ")
    assert [by_name[name]["diverged"] for name in ("fine-tune", "retrain")] == [None, None]
    values = {name: {e["name"]: e["value"] for e in m["figures"]} for name, m in by_name.items()}
    assert values["sfu"]["client_accuracy"] is None
    assert values["retrain"]["client_accuracy"] is not None
    assert "diverged in round 1: the update of client-0" in report_page(metrics)
    assert report_tables(metrics).renderables
    assert any("sfu diverged in round 1" in str(event) for event in events)


def test_divergence_of_the_chosen_method_stops_the_run(tmp_path: Path) -> None:
    settings = f'{{ method = "sfu", compare = [], {DIVERGES} }}'
    with pytest.raises(Diverged, match="request 'leaver': sfu diverged in round 1"):
        run_server(tmp_path, settings, [])


def test_client_that_reports_divergence_stays_connected(tmp_path: Path) -> None:
    ready, warnings = prepare(tmp_path, CONFIG), list[str]()
    start = networks.initial_parameters(ready[0].agreement, "original")
    with connected_cohort(ready, warnings, unchanged_line, task=STEEP) as remote:
        with pytest.raises(Diverged, match="the update of client-0 is not finite"):
            remote.mean_update(ALL, STEEP, {"model": start})
        assert set(remote.evaluate(CLIENTS, "test", start)) == set(CLIENTS)
    assert not [each for each in warnings if "left out" in each]


def test_model_beyond_the_magnitude_limit_is_not_sent(
    tmp_path: Path,
) -> None:
    """A model may be finite but exceed ``limits.magnitude``; such a model is not sent."""
    ready, warnings = prepare(tmp_path, CONFIG), list[str]()
    start = networks.initial_parameters(ready[0].agreement, "original")
    beyond = start + 2 * ready[0].agreement.limits.magnitude
    large = replace(LOCAL_TASK, learning_rate=1e6)
    with connected_cohort(ready, warnings, unchanged_line, task=large) as remote:
        for call in (
            lambda: remote.mean_update(ALL, LOCAL_TASK, {"model": beyond}),
            lambda: remote.evaluate(CLIENTS, "test", beyond),
        ):
            with pytest.raises(Diverged, match=r"of the vector 'model' exceeds limits\.magnitude"):
                call()
        with pytest.raises(Diverged, match="the update of client-0 is not finite"):
            remote.mean_update(ALL, large, {"model": start})
        assert set(remote.evaluate(CLIENTS, "test", start)) == set(CLIENTS)
    assert not [each for each in warnings if "left out" in each]


def test_client_whose_update_exceeds_the_sum_stays_connected(tmp_path: Path) -> None:
    masked = prepare(tmp_path, CONFIG.replace("[settings.server]", MASKS + "[settings.server]"))
    slots, warnings = (
        {"model": networks.initial_parameters(masked[0].agreement, "original")},
        list[str](),
    )
    with connected_cohort(masked, warnings, unchanged_line, 3, task=STEEP) as remote:
        with pytest.raises(
            Diverged, match=r"the update of client-0, .* exceeds the range of secure"
        ):
            remote.mean_update(ALL, STEEP, slots)
        assert remote.mean_update(ALL, LOCAL_TASK, slots).absent == ()
    assert not [each for each in warnings if "left out" in each]
