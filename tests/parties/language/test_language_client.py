"""Local tasks on texts: training and unlearning at clients with a tiny model."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest
import torch
from local_cohort import LocalCohort
from local_run import WatchedRun, carried_out, no_progress, unlearned_model
from torch import Tensor

from configs.config_file import read_config
from parties.common.progress import ProgressReporter
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import RoundRecord
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalTaskError,
    Objective,
    RowMetrics,
    TextTask,
)
from parties.horizontal.local.rows import RowKind
from parties.horizontal.simulation.simulated_data import ClientState
from parties.language.engine.local_training import LanguageClientTask
from parties.language.methods.loss_based import unlearning_members
from parties.language.methods.primal_dual import PrimalDual, PrimalDualSettings, _score_sums
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.simulated_data import SimulatedTextClients, SimulatedTextData
from tests.parties.language.ferries import LORA, simulation_config, write_base, write_texts

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'
TASK = LocalTask(aim="text", stream="s", epochs=12, batch=8, learning_rate=0.01, text=TextTask())


@pytest.fixture(scope="module")
def clients(world: Path) -> SimulatedTextClients:
    config = read_config(simulation_config(world, REQUEST), LANGUAGE)
    return SimulatedTextData.read(config, None).clients()


@pytest.fixture
def client(clients: SimulatedTextClients) -> LanguageClientTask:
    return clients.load("client-1", ClientState("gone"))


@pytest.fixture(scope="module")
def trained(clients: SimulatedTextClients) -> Tensor:
    """A model that knows the texts of client-1."""
    one = clients.load("client-1", ClientState("gone"))
    start = one.base_model.initial
    task = replace(TASK, epochs=60, batch=4)
    return start + one.run_task("learn", task, {"model": start}).delta


def test_each_text_has_one_client_and_flagged_texts_are_trained_on(
    clients: SimulatedTextClients,
) -> None:
    datasets = [
        clients.load(f"client-{number}", ClientState("gone")).dataset for number in range(3)
    ]
    parts = ("rows", "test", "validation")
    trained, tested, reference = (sum(len(getattr(s, part)) for s in datasets) for part in parts)
    held_out = tested + reference
    assert trained + held_out == 40
    unflagged = [len(s.of("retained")) + len(s.test) + len(s.validation) for s in datasets]
    assert held_out == sum(round(0.2 * each) for each in unflagged)
    assert sum(len(s.of("forgotten")) for s in datasets) == 8


def test_training_raises_the_probability_of_training_texts(
    client: LanguageClientTask, trained: Tensor
) -> None:
    before = client.evaluate("learn", client.base_model.initial)
    after = client.evaluate("learn", trained)
    assert before.rows == after.rows == len(client.dataset.rows)
    assert after.probability / after.rows > 0.5 > 10 * before.probability / before.rows
    assert sum(after.histogram) == after.rows


def test_metrics_are_those_of_the_models_log_probabilities(client: LanguageClientTask) -> None:
    row, base_model = client.dataset.validation[0], client.base_model
    client.dataset.validation, validation = client.dataset.validation[:1], client.dataset.validation
    try:
        result = client.evaluate("validation", base_model.initial)
    finally:
        client.dataset.validation = validation
    base_model.load(base_model.initial)
    with torch.no_grad():
        logits = base_model.model(input_ids=torch.from_numpy(row.ids)[None]).logits[0]
    log_p = logits.log_softmax(dim=1)
    known = [float(log_p[at - 1, row.ids[at]]) for at in range(row.start, len(row.ids))]
    assert result.loss == pytest.approx(-np.mean(known), rel=1e-5)
    assert result.probability == pytest.approx(np.exp(np.mean(known)), rel=1e-5)


@pytest.mark.parametrize("objective", ["grad-ascent", "grad-diff", "npo", "simnpo", "primal-dual"])
def test_each_objective_lowers_the_probability_of_forgotten_texts(
    client: LanguageClientTask, trained: Tensor, objective: Objective
) -> None:
    plan = TextTask(objective=objective, multiplier=2.0, beta=0.5, max_loss=6.0)
    task = replace(TASK, epochs=6, learning_rate=0.005, text=plan)
    result = client.run_task("forgotten", task, {"model": trained, "teacher": trained})
    assert result.rows == len(client.dataset.of("forgotten")) + len(client.dataset.of("retained"))
    assert result.tokens > 0
    before, after = (client.evaluate("forgotten", m) for m in (trained, trained + result.delta))
    assert after.loss / after.rows > before.loss / before.rows + 0.5


@pytest.mark.parametrize("kind", ["learn", "forgotten"])
def test_a_client_reports_steps_and_tokens(
    client: LanguageClientTask, kind: RowKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr("parties.common.progress.REPORT_INTERVAL", 0.0)
    client.progress = ProgressReporter("client-1", events.append)
    task = replace(TASK, epochs=2, batch=3, text=TextTask(objective="grad-diff"))
    result = client.run_task(kind, task, {"model": client.base_model.initial})
    last = events[-1]
    assert last["done"] == last["total"] == result.steps
    assert events[-2]["tokens"] < last["tokens"] == result.tokens


def test_rmu_changes_activations_of_forgotten_texts(
    client: LanguageClientTask, trained: Tensor
) -> None:
    plan = TextTask(objective="rmu", steering=20.0, layer=1)
    task = replace(TASK, epochs=6, learning_rate=0.01, text=plan)
    result = client.run_task("forgotten", task, {"model": trained, "teacher": trained})
    before, after = (client.evaluate("forgotten", m) for m in (trained, trained + result.delta))
    assert after.loss > before.loss
    deep = replace(plan, layer=3)
    with pytest.raises(LocalTaskError, match="layer 3, but the model has 2 layers"):
        client.run_task(
            "forgotten", replace(task, text=deep), {"model": trained, "teacher": trained}
        )


@pytest.mark.parametrize(
    "plan",
    [
        TextTask(objective="npo"),
        TextTask(objective="rmu"),
        TextTask(objective="simnpo", retain="kl"),
    ],
)
def test_objectives_with_a_reference_need_the_model_before_unlearning(
    client: LanguageClientTask, trained: Tensor, plan: TextTask
) -> None:
    with pytest.raises(
        LocalTaskError, match="needs the model before unlearning, but the server did not send"
    ):
        client.run_task("forgotten", replace(TASK, text=plan), {"model": trained})


def test_a_frozen_copy_shares_frozen_weights_and_is_not_trainable(world: Path) -> None:
    config = read_config(simulation_config(world, REQUEST, LORA), LANGUAGE)
    base_model = SimulatedTextData.read(config, None).clients()._base_model
    other = base_model.frozen_copy(base_model.initial + 1.0)
    ours, theirs = dict(base_model.model.named_parameters()), dict(other.named_parameters())
    for name, each in ours.items():
        assert (theirs[name] is each) == (not each.requires_grad), name
        assert not theirs[name].requires_grad
    assert any(each.requires_grad for each in ours.values()), "the first model is still trainable"
    trained = next(name for name, each in ours.items() if each.requires_grad)
    assert torch.equal(theirs[trained], ours[trained] + 1.0)


def test_the_retain_term_may_be_the_kl_divergence(
    client: LanguageClientTask, trained: Tensor
) -> None:
    plan = TextTask(objective="npo", retain="kl")
    task = replace(TASK, epochs=1, learning_rate=0.001, text=plan)
    result = client.run_task("forgotten", task, {"model": trained, "teacher": trained})
    assert float(result.delta.norm()) > 0


def test_a_task_is_reproducible_and_fedprox_shortens_the_update(client: LanguageClientTask) -> None:
    task, start = replace(TASK, epochs=1), {"model": client.base_model.initial}
    first, again = (client.run_task("learn", task, start).delta for _ in range(2))
    assert torch.equal(first, again)
    proximal = client.run_task("learn", replace(task, proximal=1e3), start).delta
    assert float(proximal.norm()) < float(first.norm())


def test_tasks_without_texts_are_refused(clients: SimulatedTextClients, trained: Tensor) -> None:
    client = clients.load("client-1", ClientState())
    slots = {"model": trained}
    with pytest.raises(LocalTaskError, match="client-1 has no forgotten texts"):
        client.run_task("forgotten", TASK, slots)
    with pytest.raises(LocalTaskError, match="contains no settings for texts"):
        client.run_task("learn", replace(TASK, aim="fit", text=None), slots)


def test_purged_texts_are_deleted(clients: SimulatedTextClients) -> None:
    whole = len(clients.load("client-1", ClientState()).dataset.rows)
    forgotten = len(clients.load("client-1", ClientState("gone")).dataset.of("forgotten"))
    after = clients.load("client-1", ClientState(None, ("gone",))).dataset
    assert len(after.rows) == whole - forgotten
    assert not after.flagged.any()


def test_client_of_a_machine_without_the_files_computes_the_same_bits(tmp_path: Path) -> None:
    """The data for another machine contain the texts and the base model, not their paths."""
    there, update = tmp_path / "there", list[Tensor]()
    there.mkdir()
    write_base(there)
    write_texts(there)
    data = SimulatedTextData.read(read_config(simulation_config(there), LANGUAGE), None)
    shipped = pickle.dumps(data.without_paths())
    assert str(tmp_path).encode() not in shipped
    for each in (data, pickle.loads(shipped)):
        client = each.clients().load("client-1", ClientState())
        start = {"model": client.base_model.initial}
        update.append(client.run_task("learn", replace(TASK, epochs=1), start).delta)
        rmtree(there, ignore_errors=True)
    assert update[0].any()
    assert torch.equal(*update)


def test_only_adapters_are_trained(world: Path) -> None:
    folder = world / "adapters"
    folder.mkdir()
    (folder / "base").symlink_to(world / "base")
    write_texts(folder)
    config = read_config(simulation_config(folder, REQUEST, LORA), LANGUAGE)
    clients = SimulatedTextData.read(config, None).clients()
    client = clients.load("client-0", ClientState())
    layers, rank, width, between = 2, 4, 32, 64
    shapes = 4 * (width + width) + 2 * (width + between) + (between + width)
    assert client.size == layers * rank * shapes
    start = client.base_model.initial
    after = start + client.run_task("learn", replace(TASK, epochs=40), {"model": start}).delta
    before, now = (client.evaluate("learn", each) for each in (start, after))
    assert now.loss < 0.95 * before.loss


def context(
    clients: SimulatedTextClients, original: Tensor, record_round: Callable[[RoundRecord], None]
) -> WatchedRun:
    client_tasks = {
        name: clients.load(name, ClientState("gone")) for name in ("client-1", "client-0")
    }
    cohort = LocalCohort(client_tasks)  # type: ignore[arg-type]
    leaving, remaining = (
        [Member("client-1", "forgotten")],
        [
            Member("client-1", "retained"),
            Member("client-0", "retained"),
        ],
    )
    return WatchedRun(
        cohort=cohort,
        original=original,
        leaving=leaving,
        remaining=remaining,
        initial_model=lambda _: original,
        progress=no_progress(),
        watch=record_round,
    )


def test_each_client_takes_part_once(clients: SimulatedTextClients, trained: Tensor) -> None:
    case = context(clients, trained, lambda _: None)
    assert [str(each) for each in unlearning_members(case, "all")] == [
        "client-1, forgotten rows",
        "client-0, retained rows",
    ]
    assert [str(each) for each in unlearning_members(case, "leaving")] == [
        "client-1, forgotten rows"
    ]


def test_the_constraint_raises_the_score_to_the_threshold(
    clients: SimulatedTextClients, trained: Tensor
) -> None:
    plan = TextTask(objective="primal-dual")
    task = replace(TASK, epochs=2, learning_rate=0.005, text=plan)
    records: list[RoundRecord] = []
    method = PrimalDual(
        RoundPlan(task, 12),
        RoundPlan(TASK, 0),
        PrimalDualSettings(step_size=1.0, threshold=2.0, participants="leaving"),
    )
    after = unlearned_model(method, context(clients, trained, records.append))
    client = clients.load("client-1", ClientState("gone"))
    before, now = (client.evaluate("forgotten", each) for each in (trained, after))
    assert before.loss / before.rows < 0.5
    assert now.loss / now.rows > 1.8
    retained = client.evaluate("retained", after)
    assert retained.loss / retained.rows < 0.5 * now.loss / now.rows
    assert [each.stage for each in records] == ["unlearn"] * 12


def test_validation_and_test_texts_are_disjoint(client: LanguageClientTask) -> None:
    dataset = client.dataset
    reference, others = dataset.of("validation"), dataset.of("test")
    assert len(reference) - len(others) in (0, 1)
    texts = [{tuple(each.ids.tolist()) for each in part} for part in (reference, others)]
    assert not texts[0] & texts[1]
    assert all(texts)


def test_outputs_that_are_not_finite_are_an_error(
    clients: SimulatedTextClients, trained: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = context(clients, trained, lambda _: None)
    read = case.cohort.evaluate
    task = replace(TASK, epochs=1, text=TextTask(objective="primal-dual"))
    method = PrimalDual(RoundPlan(task, 1), RoundPlan(TASK, 0), PrimalDualSettings(step_size=1.0))

    def not_finite(names: Sequence[str], kind: RowKind, model: Tensor) -> Mapping[str, RowMetrics]:
        metrics = dict(read(names, kind, model))
        return metrics | {
            n: replace(s, loss=float("nan")) for n, s in metrics.items() if kind == bad
        }

    monkeypatch.setattr(case.cohort, "evaluate", not_finite)
    for bad in ("forgotten", "validation"):  # noqa: B007  read by ``not_finite``
        reason = carried_out(method, case).diverged
        assert reason is not None
        assert "the model's outputs are not finite for the texts of client-" in reason


def test_npo_without_the_model_before_unlearning_is_refused(
    client: LanguageClientTask, trained: Tensor
) -> None:
    task = replace(TASK, text=TextTask(objective="npo"))
    with pytest.raises(LocalTaskError, match="did not send"):
        client.run_task("forgotten", task, {"model": trained})


def test_the_ceiling_bounds_the_score_of_an_answer() -> None:
    # Five answers with φ near -7.375 and five near 4.125: -log p is 7.3756 and 0.0160.
    odds = [0] * 96
    odds[18], odds[64] = 5, 5
    (result,) = _score_sums({"a": RowMetrics(10, 0, 37.0, tuple(odds))}, ceiling=3.75)
    assert result.rows == 10
    assert result.total == pytest.approx(5 * 3.75 + 5 * 0.016030, rel=1e-4)
