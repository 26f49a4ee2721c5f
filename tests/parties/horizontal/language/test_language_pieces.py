"""Steps that spare memory: in pieces, with layers computed again, and in bfloat16."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from configs.federated_file import read_language
from parties.horizontal.engine.cohort import Kind
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.text_task import Objective, TextLesson
from parties.horizontal.simulation.simulated_data import Standing
from parties.language.engine.learner import LanguageLearner
from parties.language.engine.micro_batches import pieces
from parties.language.engine.text_dataset import kept_apart
from parties.language.evaluation import measuring
from parties.language.evaluation.benchmarks.asking import said
from parties.language.evaluation.measuring import at_once
from parties.language.simulated_data import TextStock
from tests.parties.horizontal.language.ferries import (
    FULL,
    LORA,
    simulated,
)

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'
PLAN = TextLesson(optimiser="sgd", beta=0.5, delta=0.5, gamma=0.3, alpha=0.7, price=2.0, ceiling=6)
LESSON = Lesson(aim="text", stream="s", batch=8, learning_rate=0.1, text=PLAN)


def client(world: Path, *changes: str, tuning: str = FULL) -> LanguageLearner:
    config = read_language(simulated(world, REQUEST, tuning), changes)
    return TextStock.read(config, None).learner("client-1", Standing("gone"))


@pytest.fixture(scope="module")
def whole(world: Path) -> LanguageLearner:
    return client(world)


@pytest.fixture(scope="module")
def taught(whole: LanguageLearner) -> Tensor:
    lesson = replace(LESSON, epochs=10, learning_rate=0.01, text=replace(PLAN, optimiser="adamw"))
    start = whole.room.start
    return start + whole.answer("learn", lesson, {"model": start}).change


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
def test_a_step_in_pieces_is_the_step(
    world: Path,
    whole: LanguageLearner,
    taught: Tensor,
    objective: Objective,
    retain: Literal["nll", "kl"],
) -> None:
    """Answers of other lengths lie in the pieces, so their shares are of tokens, not of rows."""
    kind: Kind = "learn" if objective == "learn" else "forgotten"
    lesson = replace(LESSON, text=replace(PLAN, objective=objective, retain=retain))
    slots = {"model": taught, "teacher": whole.room.start}
    at_once = whole.answer(kind, lesson, slots)
    part_by_part = client(world, "training.micro_batch=2")
    assert part_by_part.at_a_time == 2
    found = part_by_part.answer(kind, lesson, slots)
    assert float(at_once.change.abs().max()) > 1e-4
    torch.testing.assert_close(found.change, at_once.change, rtol=0, atol=1e-5)
    assert found.loss == pytest.approx(at_once.loss, rel=1e-5)
    assert (found.tokens, found.steps) == (at_once.tokens, at_once.steps)


def test_a_client_with_two_texts_keeps_one_apart() -> None:
    assert [kept_apart(0.05, texts) for texts in (0, 1, 2, 9, 30, 400)] == [0, 0, 1, 1, 2, 20]
    assert kept_apart(0.0, 9) == 0


def test_shares_of_pieces_are_of_label_tokens(whole: LanguageLearner) -> None:
    rows = sorted(whole.shelf.rows, key=lambda each: len(each.ids) - each.start)[-5:]
    found = list(pieces(rows, [], 2, whole.room.pad))
    tokens = [len(each.ids) - each.start for each in rows]
    expected = [sum(tokens[at : at + 2]) / sum(tokens) for at in (0, 2, 4)]
    assert [each.forgets for each in found] == pytest.approx(expected)
    by_rows = pieces(rows, rows, 2, whole.room.pad, "npo")
    assert [each.forgets for each in by_rows] == pytest.approx([0.4, 0.4, 0.2])


@pytest.mark.parametrize("tuning", [FULL, LORA.replace("0.0", "0.1")], ids=["full", "lora"])
def test_layers_computed_again_teach_the_same(world: Path, tuning: str) -> None:
    kept, again = (
        client(world, f"training.checkpointing={word}", tuning=tuning) for word in ("false", "true")
    )
    asked = [
        any(getattr(part, "gradient_checkpointing", False) for part in each.room.model.modules())
        for each in (kept, again)
    ]
    assert asked == [False, True]
    changes = [
        each.answer("learn", LESSON, {"model": each.room.start}).change for each in (kept, again)
    ]
    torch.testing.assert_close(changes[1], changes[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("objective", ["npo", "rmu", "grad-diff"])
def test_adapters_forget_the_same_with_all_that_spares_memory(
    world: Path, objective: Objective
) -> None:
    """Dropout is off, since pieces draw other masks."""
    spared = ("training.checkpointing=true", "training.micro_batch=2")
    plain, sparing = (client(world, *changes, tuning=LORA) for changes in ((), spared))
    start = plain.room.start
    lesson = replace(LESSON, text=replace(PLAN, objective=objective, retain="kl"))
    taught = (
        start + plain.answer("learn", replace(LESSON, text=TextLesson()), {"model": start}).change
    )
    slots = {"model": taught, "teacher": start}
    exact, found = (each.answer("forgotten", lesson, slots).change for each in (plain, sparing))
    assert float(exact.abs().max()) > 1e-4
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-5)


def test_full_tuning_in_bfloat16_keeps_small_steps(world: Path) -> None:
    """A step of 1e-5 is below half of what bfloat16 tells apart at a weight of 0.02."""
    one = client(world, 'model.precision="bfloat16"')
    assert one.room.mixed
    assert {each.dtype for each in one.room.model.parameters()} == {torch.float32}
    start = one.room.start
    slight = replace(LESSON, learning_rate=1e-5, text=TextLesson())
    change = one.answer("learn", slight, {"model": start}).change
    large = start.abs() > 0.02
    assert float((change[large] != 0).float().mean()) > 0.9
    one.room.take(start + change)
    assert torch.equal(one.room.vector(), start + change)
    tokens = torch.arange(8)[None]
    with torch.no_grad(), one.room.computing():
        assert one.room.model(input_ids=tokens).logits.dtype == torch.bfloat16


@pytest.mark.parametrize("objective", ["npo", "rmu", "primal-dual"])
def test_bfloat16_forgets_in_the_same_direction(
    world: Path, whole: LanguageLearner, taught: Tensor, objective: Objective
) -> None:
    one = client(world, 'model.precision="bfloat16"')
    lesson = replace(LESSON, text=replace(PLAN, objective=objective, retain="kl"))
    slots = {"model": taught, "teacher": whole.room.start}
    exact, found = (each.answer("forgotten", lesson, slots).change for each in (whole, one))
    assert float(torch.cosine_similarity(exact, found, dim=0)) > 0.95
    prompts = one.room.encoder.prompts(["Which boat leaves Riga at 6?"])
    assert len(said(one.room, prompts, 4, 1)) == 1


def test_fewer_texts_are_measured_at_a_time_where_logits_are_many(
    whole: LanguageLearner, taught: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at_once(256, 2_000) == 32, "the shipped run"
    assert at_once(512, 128_256) == 4
    assert at_once(10**6, 128_256) == 1
    before = whole.measure("learn", taught)
    monkeypatch.setattr(measuring, "MOST_LOGITS", 20_000)
    after = whole.measure("learn", taught)
    assert after.loss == pytest.approx(before.loss, rel=1e-5)
    assert (after.rows, after.right) == (before.rows, before.right)
