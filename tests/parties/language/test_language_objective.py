"""Losses of unlearning objectives, computed by hand from likelihoods; rounds of unlearning."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import exp, log1p
from pathlib import Path
from typing import Any

import pytest
import torch
from local_cohort import LocalCohort
from local_run import WatchedRun, no_progress, unlearned_model
from torch import Tensor

from configs.config_file import read_config
from models.language.trainable import enable_checkpointing
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import RoundRecord
from parties.horizontal.local.local_task import LocalTask, LocalTaskError, RowMetrics, TextTask
from parties.horizontal.local.score_histogram import score_histogram
from parties.horizontal.simulation.simulated_data import ClientState
from parties.language.engine.local_training import LanguageClientTask
from parties.language.engine.micro_batches import MicroBatch
from parties.language.engine.objective import TextObjective, layer_outputs
from parties.language.evaluation.benchmarks.inference import token_log_probs
from parties.language.methods.loss_based import LossBasedUnlearning, model_slots, sample_members
from parties.language.methods.primal_dual import PrimalDual, PrimalDualSettings
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.registry import text_method
from parties.language.simulated_data import SimulatedTextClients, SimulatedTextData
from parties.language.texts.batches import TextBatch, training_batch
from tests.parties.language.ferries import FULL, simulation_config
from unlearning.llm.losses import steering_vector

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'
PLAN = TextTask(optimiser="sgd", gamma=0.3, alpha=0.7)
TASK = LocalTask(aim="text", stream="s", batch=100, learning_rate=0.1, text=PLAN)


@pytest.fixture(scope="module")
def clients(world: Path) -> SimulatedTextClients:
    config = read_config(simulation_config(world, REQUEST, FULL), LANGUAGE)
    return SimulatedTextData.read(config, None).clients()


@pytest.fixture(scope="module")
def client(clients: SimulatedTextClients) -> LanguageClientTask:
    return clients.load("client-1", ClientState("gone"))


def softplus(value: float) -> float:
    """-log σ(-value)."""
    return max(value, 0.0) + log1p(exp(-abs(value)))


class Answers:
    """Loss in nats and number of tokens of each answer of some rows under a model."""

    def __init__(self, client: LanguageClientTask, model: Tensor, kind: str) -> None:
        rows = client.dataset.of(kind)[:3]  # type: ignore[arg-type]
        client.base_model.load(model)
        client.base_model.model.eval()
        log_p, mask, _ = token_log_probs(client.base_model, rows, 1)
        self.nats = [float(each) for each in -(log_p * mask).sum(dim=1)]
        self.tokens = [int(each) for each in mask.sum(dim=1)]

    @property
    def token_mean(self) -> float:
        return sum(self.nats) / sum(self.tokens)


def by_hand(plan: TextTask, forgotten: Answers, before: Answers, retained: Answers) -> float:
    match plan.objective:
        case "grad-ascent":
            return -forgotten.token_mean
        case "grad-diff":
            away = -forgotten.token_mean
        case "npo":  # -(2/β) log σ(-β log(p / p_before)), with sums over tokens
            pairs = zip(forgotten.nats, before.nats, strict=True)
            each = [2 / plan.beta * softplus(-plan.beta * (now - then)) for now, then in pairs]
            away = sum(each) / len(each)
        case _:  # SimNPO: divided by length, δ inside the bracket with β
            pairs = zip(forgotten.nats, forgotten.tokens, strict=True)
            each = [
                2 / plan.beta * softplus(-plan.beta * (nats / tokens - plan.delta))
                for nats, tokens in pairs
            ]
            away = sum(each) / len(each)
    return plan.gamma * away + plan.alpha * retained.token_mean


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, objective="grad-ascent"),
        replace(PLAN, objective="grad-diff"),
        replace(PLAN, objective="npo", beta=0.5),
        replace(PLAN, objective="simnpo", beta=1.5, delta=2.0),
    ],
    ids=lambda plan: plan.objective,
)
def test_the_loss_of_a_step(client: LanguageClientTask, plan: TextTask) -> None:
    """The model differs from the model before unlearning."""
    base_model = client.base_model
    before = base_model.initial
    now = before + 0.3 * torch.randn(len(before), generator=torch.Generator().manual_seed(1))
    forgotten, retained = (Answers(client, now, kind) for kind in ("forgotten", "retained"))
    expected = by_hand(plan, forgotten, Answers(client, before, "forgotten"), retained)
    base_model.load(now)
    base_model.model.eval()
    batches = [
        training_batch(client.dataset.of(kind)[:3], base_model.pad_token)  # type: ignore[arg-type]
        for kind in ("forgotten", "retained")
    ]
    result = TextObjective(base_model, plan, before, 0).loss(MicroBatch(*batches))
    assert result.item() == pytest.approx(expected, rel=1e-4)


def activations(client: LanguageClientTask) -> tuple[TextBatch, list[Tensor], Tensor]:
    """A batch, the hidden states that transformers returns, and the output of the last layer."""
    base_model = client.base_model
    base_model.load(base_model.initial)
    model: Any = base_model.model.eval()
    batch = training_batch(client.dataset.of("forgotten")[:3], base_model.pad_token)
    seen: list[Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    states = model(
        input_ids=batch.ids, attention_mask=batch.mask, output_hidden_states=True
    ).hidden_states
    hook.remove()
    return batch, [each.detach() for each in states], seen[0].detach()


def test_rmu_reads_the_outputs_of_a_layer(client: LanguageClientTask) -> None:
    batch, states, before_norm = activations(client)
    inner, last = (
        layer_outputs(client.base_model.model, batch, layer).detach() for layer in (1, 2)
    )
    assert torch.equal(inner, states[1])
    assert torch.equal(last, before_norm)
    assert float((last - states[2]).abs().max()) > 0.1, "that one follows the final norm"


def test_rmu_at_the_last_layer_by_hand(client: LanguageClientTask) -> None:
    """The mean squared distance of the last layer's outputs to the steering vector."""
    batch, _, before_norm = activations(client)
    plan = replace(PLAN, objective="rmu", layer=2, steering=20.0, gamma=1.0, alpha=0.0)
    base_model = client.base_model
    kept = MicroBatch(batch, training_batch(client.dataset.of("retained")[:3], 0))
    result = TextObjective(base_model, plan, base_model.initial, 5).loss(kept)
    target = steering_vector(before_norm.shape[2], 20.0, 5).float()
    squares = (before_norm - target).square().mean(dim=2)
    rows = [
        float(row[mask].mean()) for row, mask in zip(squares, batch.labels != -100, strict=True)
    ]
    assert result.item() == pytest.approx(sum(rows) / len(rows), rel=1e-5)


@pytest.mark.parametrize("layer", [1, 2])
def test_rmu_has_the_same_gradients_with_checkpointing(
    client: LanguageClientTask, layer: int
) -> None:
    batch, *_ = activations(client)
    gradients = []
    for checkpointing in (False, True):
        model: Any = deepcopy(client.base_model.model).train()
        model.zero_grad()
        if checkpointing:
            enable_checkpointing(model)
        layer_outputs(model, batch, layer).square().mean().backward()
        gradients.append(
            torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])
        )
    assert float(gradients[0].abs().max()) > 0
    torch.testing.assert_close(*gradients)


def test_model_without_a_list_of_layers_is_refused(client: LanguageClientTask) -> None:
    batch, *_ = activations(client)
    model: Any = torch.nn.Linear(2, 2)
    model.config = client.base_model.model.config
    with pytest.raises(LocalTaskError, match="Linear has no list of its 2 layers"):
        layer_outputs(model, batch, 2)


def context(
    clients: SimulatedTextClients, original: Tensor, record_round: Callable[[RoundRecord], None]
) -> WatchedRun:
    names = ("client-0", "client-1", "client-2")
    cohort = LocalCohort({each: clients.load(each, ClientState("gone")) for each in names})  # type: ignore[arg-type]
    leaving_names = [
        each for each in names if len(clients.load(each, ClientState("gone")).dataset.forgotten)
    ]
    leaving, remaining = (
        [Member(each, "forgotten") for each in leaving_names],
        [Member(each, "retained") for each in names],
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


def test_npo_sends_the_model_before_unlearning_in_every_round(
    clients: SimulatedTextClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = clients.load("client-0", ClientState()).base_model.initial
    case = context(clients, original, lambda _: None)
    sent: list[tuple[Tensor, Tensor]] = []
    mean = case.cohort.mean_update

    def recording(members, task, slots):  # type: ignore[no-untyped-def]
        sent.append((slots["model"], slots["teacher"]))
        return mean(members, task, slots)

    monkeypatch.setattr(case.cohort, "mean_update", recording)
    task = replace(TASK, text=replace(PLAN, objective="npo"))
    unlearned_model(LossBasedUnlearning("npo", RoundPlan(task, 2), RoundPlan(TASK, 0)), case)
    (first, before), (second, again) = sent
    assert torch.equal(first, original)
    assert not torch.equal(second, original)
    assert torch.equal(before, original)
    assert torch.equal(again, original)
    plain = replace(TASK, text=replace(PLAN, objective="simnpo"))
    assert set(model_slots(case, second, plain)) == {"model"}


def test_fedprox_adds_its_gradient_in_every_step(client: LanguageClientTask) -> None:
    """Two steps of gradient descent on all texts, with μ (θ − θ_sent) added to the gradient."""
    base_model, rate, pull = client.base_model, TASK.learning_rate, 0.8
    rows = client.dataset.of("learn")
    task = replace(TASK, epochs=2, proximal=pull, clip=None)
    result = client.run_task("learn", task, {"model": base_model.initial}).delta
    batch, away = training_batch(rows, base_model.pad_token), torch.zeros_like(base_model.initial)
    for _ in range(2):
        base_model.load(base_model.initial + away)
        base_model.model.zero_grad()
        logits = base_model.model(input_ids=batch.ids, attention_mask=batch.mask).logits[:, :-1]
        labels = batch.labels[:, 1:]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
        gradients = {
            name: each.grad
            for name, each in base_model.model.named_parameters()
            if each.requires_grad
        }
        away = away - rate * (base_model.layout.flatten(gradients) + pull * away)
    torch.testing.assert_close(result, away, rtol=0, atol=2e-6)
    without = client.run_task(
        "learn", replace(task, proximal=0.0), {"model": base_model.initial}
    ).delta
    assert float((without - result).abs().max()) > 1e-4


def test_ascent_stops_at_the_uniform_loss_if_set(client: LanguageClientTask) -> None:
    ascent = replace(PLAN, objective="grad-ascent", optimiser="adamw")
    task = replace(TASK, epochs=60, learning_rate=0.01, batch=4, text=ascent, clip=None)
    slots = {"model": client.base_model.initial}
    goes_on = client.run_task("forgotten", task, slots)
    stopped = client.run_task(
        "forgotten", replace(task, text=replace(ascent, stop_at_uniform=True)), slots
    )
    assert stopped.steps < goes_on.steps
    far, near = (
        client.evaluate("forgotten", client.base_model.initial + each.delta)
        for each in (goes_on, stopped)
    )
    assert far.loss / far.rows > 2 * client.base_model.uniform_loss
    assert near.loss / near.rows < 2 * client.base_model.uniform_loss
    # A task that begins beyond the uniform loss makes no step.
    beyond = {"model": client.base_model.initial + goes_on.delta}
    again = client.run_task(
        "forgotten", replace(task, text=replace(ascent, stop_at_uniform=True)), beyond
    )
    assert again.steps == 1
    assert not again.delta.any()


def test_the_threshold_is_the_mean_of_the_same_score(
    clients: SimulatedTextClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of -log p = 1, 1, 1 and 9 nats is 3, so the ceiling is 4.5.

    With the ceiling the mean is 1.875. A model for which forgotten texts are as likely as these
    texts reaches this threshold, but would not reach 3.
    """
    case = context(
        clients, clients.load("client-0", ClientState()).base_model.initial, lambda _: None
    )

    def read(names, kind, model):  # type: ignore[no-untyped-def]
        del names, kind, model
        nats = torch.tensor([1.0, 1.0, 1.0, 9.0], dtype=torch.float64)
        odds = score_histogram(torch.logit((-nats).exp()))
        return {"client-0": RowMetrics(4, 0, 12.0, odds, 1.1)}

    monkeypatch.setattr(case.cohort, "evaluate", read)
    method = PrimalDual(RoundPlan(TASK, 1), RoundPlan(TASK, 0), PrimalDualSettings(step_size=1.0))
    threshold, ceiling = method._levels(case)
    assert ceiling == pytest.approx(4.5)
    assert threshold == pytest.approx(1.875, abs=0.1), "as exact as histograms are"


def test_each_round_has_a_member_with_forgotten_texts() -> None:
    those = [Member(f"client-{at}", "forgotten" if at < 2 else "retained") for at in range(20)]
    round_plan = RoundPlan(TASK, 40, share=0.1, seed=3)
    rounds = [sample_members(round_plan, number, those, those[:2]) for number in range(40)]
    assert {len(each) for each in rounds} == {2}
    assert all({*each} & {*those[:2]} for each in rounds)
    assert {member for each in rounds for member in each} >= {*those[:2]}
    retained = [member for each in rounds for member in each if member not in those[:2]]
    assert len({*retained}) > 10
    firsts = sum(member.client < "client-15" for member in retained)  # 5 of the 18 others, by name
    assert 0.2 < firsts / len(retained) < 0.6
    assert sample_members(replace(round_plan, share=1.0), 0, those, those[:2]) == sorted(those)


def test_settings_that_a_stage_leaves_out_are_those_of_the_training(world: Path) -> None:
    recover = "recover = { share = 1.0, proximal = 0.5 }"
    settings = f"[unlearning]\nnpo = {{ unlearn = {{ rounds = 2 }}, {recover} }}"
    path = simulation_config(world, REQUEST + settings)
    changes = ["training.share=0.4", "training.proximal=0.1"]
    method = text_method(read_config(path, LANGUAGE, changes).agreement, "npo")
    assert isinstance(method, LossBasedUnlearning)
    assert (method.unlearn.share, method.unlearn.task.proximal) == (0.4, 0.1)
    assert (method.recover.share, method.recover.task.proximal) == (1.0, 0.5)
