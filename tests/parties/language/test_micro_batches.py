"""Memory-saving steps: micro-batches, gradient checkpointing and bfloat16."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from configs.config_file import read_config
from parties.horizontal.local.local_task import LocalTask, Objective, TextTask
from parties.horizontal.local.rows import RowKind
from parties.horizontal.simulation.simulated_data import ClientState
from parties.language.engine import answer_likelihood
from parties.language.engine.answer_likelihood import rows_per_pass
from parties.language.engine.local_training import LanguageClientTask
from parties.language.engine.micro_batches import micro_batches
from parties.language.engine.text_dataset import held_out_count
from parties.language.evaluation.benchmarks.inference import generate_answers
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.simulated_data import SimulatedTextData
from tests.parties.language.ferries import (
    FULL,
    LORA,
    simulation_config,
)

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'
PLAN = TextTask(
    optimiser="sgd", beta=0.5, delta=0.5, gamma=0.3, alpha=0.7, multiplier=2.0, max_loss=6
)
TASK = LocalTask(aim="text", stream="s", batch=8, learning_rate=0.1, text=PLAN)


def client(world: Path, *changes: str, tuning: str = FULL) -> LanguageClientTask:
    config = read_config(simulation_config(world, REQUEST, tuning), LANGUAGE, changes)
    return SimulatedTextData.read(config, None).clients().load("client-1", ClientState("gone"))


@pytest.fixture(scope="module")
def whole(world: Path) -> LanguageClientTask:
    return client(world)


@pytest.fixture(scope="module")
def trained(whole: LanguageClientTask) -> Tensor:
    task = replace(TASK, epochs=10, learning_rate=0.01, text=replace(PLAN, optimiser="adamw"))
    start = whole.base_model.initial
    return start + whole.run_task("learn", task, {"model": start}).delta


@pytest.mark.parametrize(
    ("objective", "retain"),
    [
        ("learn", "nll"),
        ("grad-ascent", "nll"),
        ("grad-diff", "kl"),
        ("npo", "nll"),
        ("simnpo", "nll"),
        ("rmu", "nll"),
        ("primal-dual", "nll"),
    ],
)
def test_micro_batches_sum_to_the_whole_step(
    world: Path,
    whole: LanguageClientTask,
    trained: Tensor,
    objective: Objective,
    retain: Literal["nll", "kl"],
) -> None:
    """Micro-batches have answers of different lengths, so shares must count tokens, not rows."""
    kind: RowKind = "learn" if objective == "learn" else "forgotten"
    task = replace(TASK, text=replace(PLAN, objective=objective, retain=retain))
    slots = {"model": trained, "teacher": whole.base_model.initial}
    at_once = whole.run_task(kind, task, slots)
    part_by_part = client(world, "training.micro_batch=2")
    assert part_by_part.micro_batch == 2
    result = part_by_part.run_task(kind, task, slots)
    assert float(at_once.delta.abs().max()) > 1e-4
    torch.testing.assert_close(result.delta, at_once.delta, rtol=0, atol=1e-5)
    assert result.loss == pytest.approx(at_once.loss, rel=1e-5)
    assert (result.tokens, result.steps) == (at_once.tokens, at_once.steps)


def test_a_client_with_two_texts_holds_one_out() -> None:
    assert [held_out_count(0.05, texts) for texts in (0, 1, 2, 9, 30, 400)] == [0, 0, 1, 1, 2, 20]
    assert held_out_count(0.0, 9) == 0


def test_shares_of_micro_batches_count_label_tokens(whole: LanguageClientTask) -> None:
    rows = sorted(whole.dataset.rows, key=lambda each: len(each.ids) - each.start)[-5:]
    result = list(micro_batches(rows, [], 2, whole.base_model.pad_token))
    tokens = [len(each.ids) - each.start for each in rows]
    expected = [sum(tokens[at : at + 2]) / sum(tokens) for at in (0, 2, 4)]
    assert [each.forget_share for each in result] == pytest.approx(expected)
    by_rows = micro_batches(rows, rows, 2, whole.base_model.pad_token, "npo")
    assert [each.forget_share for each in by_rows] == pytest.approx([0.4, 0.4, 0.2])


@pytest.mark.parametrize("tuning", [FULL, LORA.replace("0.0", "0.1")], ids=["full", "lora"])
def test_checkpointing_does_not_change_the_update(world: Path, tuning: str) -> None:
    plain, economical = (
        client(world, f"training.checkpointing={value}", tuning=tuning)
        for value in ("false", "true")
    )
    checkpointing = [
        any(
            getattr(part, "gradient_checkpointing", False)
            for part in each.base_model.model.modules()
        )
        for each in (plain, economical)
    ]
    assert checkpointing == [False, True]
    changes = [
        each.run_task("learn", TASK, {"model": each.base_model.initial}).delta
        for each in (plain, economical)
    ]
    torch.testing.assert_close(changes[1], changes[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("objective", ["npo", "rmu", "grad-diff"])
def test_memory_saving_does_not_change_the_unlearning_of_adapters(
    world: Path, objective: Objective
) -> None:
    """Dropout is off, because micro-batches draw other masks."""
    saving = ("training.checkpointing=true", "training.micro_batch=2")
    plain, economical = (client(world, *changes, tuning=LORA) for changes in ((), saving))
    start = plain.base_model.initial
    task = replace(TASK, text=replace(PLAN, objective=objective, retain="kl"))
    trained = (
        start + plain.run_task("learn", replace(TASK, text=TextTask()), {"model": start}).delta
    )
    slots = {"model": trained, "teacher": start}
    exact, result = (each.run_task("forgotten", task, slots).delta for each in (plain, economical))
    assert float(exact.abs().max()) > 1e-4
    torch.testing.assert_close(result, exact, rtol=0, atol=1e-5)


def test_full_tuning_in_bfloat16_keeps_small_steps(world: Path) -> None:
    """A step of 1e-5 is less than half the spacing of bfloat16 numbers near 0.02."""
    one = client(world, 'model.precision="bfloat16"')
    assert one.base_model.mixed_precision
    assert {each.dtype for each in one.base_model.model.parameters()} == {torch.float32}
    start = one.base_model.initial
    slight = replace(TASK, learning_rate=1e-5, text=TextTask())
    change = one.run_task("learn", slight, {"model": start}).delta
    large = start.abs() > 0.02
    assert float((change[large] != 0).float().mean()) > 0.9
    one.base_model.load(start + change)
    assert torch.equal(one.base_model.trainable_vector(), start + change)
    tokens = torch.arange(8)[None]
    with torch.no_grad(), one.base_model.autocast():
        assert one.base_model.model(input_ids=tokens).logits.dtype == torch.bfloat16


@pytest.mark.parametrize("objective", ["npo", "rmu", "primal-dual"])
def test_bfloat16_forgets_in_the_same_direction(
    world: Path, whole: LanguageClientTask, trained: Tensor, objective: Objective
) -> None:
    one = client(world, 'model.precision="bfloat16"')
    task = replace(TASK, text=replace(PLAN, objective=objective, retain="kl"))
    slots = {"model": trained, "teacher": whole.base_model.initial}
    exact, result = (each.run_task("forgotten", task, slots).delta for each in (whole, one))
    assert float(torch.cosine_similarity(exact, result, dim=0)) > 0.95
    prompts = one.base_model.encoder.prompts(["Which boat leaves Riga at 6?"])
    assert len(generate_answers(one.base_model, prompts, 4, 1)) == 1


def test_a_large_vocabulary_reduces_the_rows_of_a_pass(
    whole: LanguageClientTask, trained: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows_per_pass(256, 2_000) == 32, "the config tofu.toml"
    assert rows_per_pass(512, 128_256) == 4
    assert rows_per_pass(10**6, 128_256) == 1
    before = whole.evaluate("learn", trained)
    monkeypatch.setattr(answer_likelihood, "MAX_LOGITS", 20_000)
    after = whole.evaluate("learn", trained)
    assert after.loss == pytest.approx(before.loss, rel=1e-5)
    assert (after.rows, after.correct) == (before.rows, before.correct)
