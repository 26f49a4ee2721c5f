"""What leaves the finite numbers is found out at once, and named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, client_tasks, context, fresh, row_source, trained
from five_clients import CONFIG, MASKS, cohort, prepared, untouched
from local_cohort import LocalCohort
from test_figures import Here
from torch import Tensor

from parties.common.errors import EXIT_CODES, Diverged
from parties.horizontal.engine.cohort import Member, WeightedMean, pseudo_gradients, quorum_updates
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.evaluation.outcome import RoundLog, Scores, UnlearnedModel, run_method
from parties.horizontal.local import networks
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.methods.fedosd import FedOsd
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.method import Method
from parties.horizontal.methods.mode import MoDe
from parties.horizontal.requests import RequestRunner
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import PoolCohort
from parties.report.horizontal.page import horizontal_page
from parties.report.horizontal.terminal import horizontal_table

ALL, HUGE = [Member(name) for name in CLIENTS], 1e38
STEEP = replace(LOCAL_TASK, learning_rate=HUGE)
GENTLE = RoundPlan(LOCAL_TASK, 1)


@pytest.mark.parametrize("spoiled", [float("nan"), float("inf")])
@pytest.mark.parametrize("loss", [False, True])
def test_an_update_that_is_not_finite_is_in_no_mean(spoiled: float, loss: bool) -> None:
    change = torch.tensor([1.0, 1.0 if loss else spoiled])
    found = LocalUpdate(change, 1, spoiled if loss else 0.0, 1)
    total, gone = WeightedMean(), Member(CLIENTS[3])
    total.add(gone, found)
    total.add(ALL[0], LocalUpdate(torch.ones(2), 1, 0.0, 1))
    with pytest.raises(Diverged, match="the update of client-3 is not finite"):
        total.result(ALL, 0.1)
    with pytest.raises(Diverged, match="the update of client-3 is not finite"):
        pseudo_gradients({gone: found}, LOCAL_TASK)


def test_who_looks_at_single_clients_looks_at_none_that_diverged() -> None:
    with pytest.raises(Diverged, match="the update of client-0 is not finite"):
        dict(quorum_updates(LocalCohort(client_tasks()), ALL, STEEP, {"model": trained()}))


def test_training_that_diverges_ends_in_its_round() -> None:
    """The first round is sound, and the second begins where rates have grown."""
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


def ended(method: Method) -> UnlearnedModel:
    place = context([])
    diary = RoundLog(place.original, lambda: None, lambda: 0)
    return run_method(method, lambda tell: replace(place, record_round=tell), diary, "")


@pytest.mark.parametrize(
    "method",
    [
        FedOsd(RoundPlan(replace(LOCAL_TASK, stream="u"), 3, decay=HUGE), GENTLE, variant="ascent"),
        FuPga(GENTLE, RoundPlan(replace(STEEP, aim="elastic"), 2), GENTLE),
        MoDe(RoundPlan(STEEP, 2), GENTLE, GENTLE),
        FineTune(RoundPlan(STEEP, 2)),
    ],
    ids=lambda method: method.name,
)
def test_a_way_that_diverges_says_so_and_keeps_the_last_model_that_was_one(method: Method) -> None:
    found = ended(method)
    assert found.diverged is not None
    assert found.diverged.startswith(f"diverged in round {len(found.rounds) + 1}: the ")
    assert found.model.isfinite().all()
    assert len(found.rounds) < 2


def test_a_way_that_ends_well_has_not_diverged() -> None:
    assert ended(FineTune(GENTLE)).diverged is None


def story(folder: Path, unlearning: str, told: list[Any]) -> dict[str, Any]:
    text = CONFIG.replace("limits =", f"unlearning = {unlearning}\nlimits =")
    config, place = prepared(folder, text)
    party = set_up_horizontal_party(config, "server", place, told.append)
    source = row_source(folder / "wards.toml", (), None)
    pool = PoolCohort(config.agreement.spokes, source, Here(), 1.0)
    return FederatedServer(
        party, pool, RunJournal(party, federated_checkpoints(party), bytes(16))
    ).run()


def test_a_model_whose_outputs_are_not_finite_is_left_out_though_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, read = list[Any](), RequestRunner._evaluate

    def wild(requests: RequestRunner, model: Tensor) -> Scores:
        found = read(requests, model)
        if calls.append(0) or len(calls) == 3:  # the second way's
            found["test"]["client-1"] = replace(found["test"]["client-1"], loss=float("nan"))
        return found

    calls = list[int]()
    monkeypatch.setattr(RequestRunner, "_evaluate", wild)
    settings = '{ method = "fine-tune", compare = ["sfu"], fine_tune = { rounds = 1 } }'
    [request] = story(tmp_path, settings, told)["requests"]
    by_name = {each["name"]: each["diverged"] for each in request["methods"]}
    said = "made a model with non-finite outputs"
    assert by_name == {"original": None, "fine-tune": None, "sfu": said, "retrain": None}
    assert any(f"sfu {said}" in str(event) for event in told)


DIVERGES = "sfu = { stop_at_uniform = false, ascent = { rounds = 2, learning_rate = 1e38 } }"


def test_the_other_ways_of_a_run_go_on(tmp_path: Path) -> None:
    told: list[Any] = []
    settings = '{ method = "fine-tune", compare = ["sfu"], fine_tune = { rounds = 1 }, '
    metrics = story(tmp_path, f"{settings}{DIVERGES} }}", told)
    [request] = metrics["requests"]
    by_name = {each["name"]: each for each in request["methods"]}
    assert list(by_name) == ["original", "fine-tune", "sfu", "retrain"]
    assert by_name["sfu"]["diverged"].startswith("diverged in round 1: the update of client-0, ")
    assert [by_name[name]["diverged"] for name in ("fine-tune", "retrain")] == [None, None]
    values = {name: {e["name"]: e["value"] for e in m["figures"]} for name, m in by_name.items()}
    assert values["sfu"]["client_accuracy"] is None
    assert values["retrain"]["client_accuracy"] is not None
    assert "diverged in round 1: the update of client-0" in horizontal_page(metrics)
    assert horizontal_table(metrics).renderables
    assert any("sfu diverged in round 1" in str(event) for event in told)


def test_a_chosen_way_that_diverges_delivers_nothing(tmp_path: Path) -> None:
    settings = f'{{ method = "sfu", compare = [], {DIVERGES} }}'
    with pytest.raises(Diverged, match="request 'leaver': sfu diverged in round 1"):
        story(tmp_path, settings, [])


def test_over_lines_a_client_says_that_it_diverged_and_stays(tmp_path: Path) -> None:
    ready, told = prepared(tmp_path, CONFIG), list[str]()
    start = networks.initial_parameters(ready[0].agreement, "original")
    with cohort(ready, told, untouched) as remote:
        with pytest.raises(Diverged, match="the update of client-0 is not finite"):
            remote.mean_update(ALL, STEEP, {"model": start})
        assert set(remote.evaluate(CLIENTS, "test", start)) == set(CLIENTS)
    assert not [each for each in told if "left out" in each]


def test_over_lines_what_clients_would_refuse_is_not_sent_and_ends_its_way_alone(
    tmp_path: Path,
) -> None:
    """A model may be finite and beyond what messages may hold: no client hears it."""
    ready, told = prepared(tmp_path, CONFIG), list[str]()
    start = networks.initial_parameters(ready[0].agreement, "original")
    beyond = start + 2 * ready[0].agreement.limits.magnitude
    with cohort(ready, told, untouched) as remote:
        for ask in (
            lambda: remote.mean_update(ALL, LOCAL_TASK, {"model": beyond}),
            lambda: remote.evaluate(CLIENTS, "test", beyond),
        ):
            with pytest.raises(
                Diverged, match=r"of the slot 'model' is larger than limits\.magnitude"
            ):
                ask()
        large = replace(LOCAL_TASK, learning_rate=1e6)
        with pytest.raises(Diverged, match="the update of client-0 is not finite"):
            remote.mean_update(ALL, large, {"model": start})
        assert set(remote.evaluate(CLIENTS, "test", start)) == set(CLIENTS)
    assert not [each for each in told if "left out" in each]


def test_an_update_that_fits_into_no_sum_is_no_lost_client(tmp_path: Path) -> None:
    masked = prepared(tmp_path, CONFIG.replace("[settings.server]", MASKS + "[settings.server]"))
    slots, told = (
        {"model": networks.initial_parameters(masked[0].agreement, "original")},
        list[str](),
    )
    with cohort(masked, told, untouched, min_contributors=3) as remote:
        with pytest.raises(
            Diverged, match=r"the update of client-0, .* exceeds the range of secure"
        ):
            remote.mean_update(ALL, STEEP, slots)
        assert remote.mean_update(ALL, LOCAL_TASK, slots).absent == ()
    assert not [each for each in told if "left out" in each]
