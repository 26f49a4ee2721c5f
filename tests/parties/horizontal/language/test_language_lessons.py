"""Lessons on texts: what is learned and forgotten, by clients with a tiny model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from configs.federated_file import read_language
from parties.common.errors import Diverged
from parties.common.progress import Watch
from parties.horizontal.engine.cohort import Kind, Member, Score
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.engine.wire_text import text_said, text_understood
from parties.horizontal.local.local_task import Lesson, Unteachable
from parties.horizontal.local.text_task import Objective, TextLesson
from parties.horizontal.simulation.local_cohort import LocalCohort
from parties.horizontal.simulation.simulated_data import Standing
from parties.language.engine.learner import LanguageLearner
from parties.language.methods.by_objective import members
from parties.language.methods.primal_dual import PrimalDual, _sums
from parties.language.simulated_data import TextStock
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from tests.parties.horizontal.language.ferries import LORA, simulated, write_texts

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'
LESSON = Lesson(aim="text", stream="s", epochs=12, batch=8, learning_rate=0.01, text=TextLesson())


@pytest.fixture(scope="module")
def stock(world: Path) -> TextStock:
    return TextStock.read(read_language(simulated(world, REQUEST)), None)


@pytest.fixture
def client(stock: TextStock) -> LanguageLearner:
    return stock.learner("client-1", Standing("gone"))


@pytest.fixture(scope="module")
def taught(stock: TextStock) -> Tensor:
    """The model of a client that knows its texts."""
    one = stock.learner("client-1", Standing("gone"))
    start = one.room.start
    lesson = replace(LESSON, epochs=60, batch=4)
    return start + one.answer("learn", lesson, {"model": start}).change


def test_every_text_lies_at_one_client_and_flagged_ones_are_learned(stock: TextStock) -> None:
    shelves = [stock.learner(f"client-{number}", Standing("gone")).shelf for number in range(3)]
    parts = ("rows", "held", "validation")
    taught, tested, reference = (sum(len(getattr(s, part)) for s in shelves) for part in parts)
    held = tested + reference
    assert taught + held == 40
    unflagged = [len(s.of("retained")) + len(s.held) + len(s.validation) for s in shelves]
    assert held == sum(round(0.2 * each) for each in unflagged)
    assert sum(len(s.of("forgotten")) for s in shelves) == 8


def test_a_lesson_teaches_what_is_on_the_shelf(client: LanguageLearner, taught: Tensor) -> None:
    before = client.measure("learn", client.room.start)
    after = client.measure("learn", taught)
    assert before.rows == after.rows == len(client.shelf.rows)
    assert after.chance / after.rows > 0.5 > 10 * before.chance / before.rows
    assert sum(after.odds) == after.rows


def test_a_score_is_what_the_model_says_of_each_answer(client: LanguageLearner) -> None:
    row, room = client.shelf.validation[0], client.room
    client.shelf.validation, held = client.shelf.validation[:1], client.shelf.validation
    try:
        found = client.measure("validation", room.start)
    finally:
        client.shelf.validation = held
    room.take(room.start)
    with torch.no_grad():
        logits = room.model(input_ids=torch.from_numpy(row.ids)[None]).logits[0]
    log_p = logits.log_softmax(dim=1)
    known = [float(log_p[at - 1, row.ids[at]]) for at in range(row.start, len(row.ids))]
    assert found.loss == pytest.approx(-np.mean(known), rel=1e-5)
    assert found.chance == pytest.approx(np.exp(np.mean(known)), rel=1e-5)


@pytest.mark.parametrize("objective", ["grad-ascent", "grad-diff", "npo", "simnpo", "primal-dual"])
def test_every_objective_forgets(
    client: LanguageLearner, taught: Tensor, objective: Objective
) -> None:
    plan = TextLesson(objective=objective, price=2.0, beta=0.5, ceiling=6.0)
    lesson = replace(LESSON, epochs=6, learning_rate=0.005, text=plan)
    found = client.answer("forgotten", lesson, {"model": taught, "teacher": taught})
    assert found.rows == len(client.shelf.of("forgotten")) + len(client.shelf.of("retained"))
    assert found.tokens > 0
    before, after = (client.measure("forgotten", m) for m in (taught, taught + found.change))
    assert after.loss / after.rows > before.loss / before.rows + 0.5


@pytest.mark.parametrize("kind", ["learn", "forgotten"])
def test_a_client_tells_its_steps_tokens_and_how_many_there_will_be(
    client: LanguageLearner, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[dict[str, Any]] = []
    monkeypatch.setattr("parties.common.progress.EVERY", 0.0)
    client.watch = Watch("client-1", heard.append)
    lesson = replace(LESSON, epochs=2, batch=3, text=TextLesson(objective="grad-diff"))
    found = client.answer(kind, lesson, {"model": client.room.start})
    last = heard[-1]
    assert last["done"] == last["total"] == found.steps
    assert heard[-2]["tokens"] < last["tokens"] == found.tokens


def test_rmu_moves_what_is_said_inside(client: LanguageLearner, taught: Tensor) -> None:
    plan = TextLesson(objective="rmu", steering=20.0, layer=1)
    lesson = replace(LESSON, epochs=6, learning_rate=0.01, text=plan)
    found = client.answer("forgotten", lesson, {"model": taught, "teacher": taught})
    before, after = (client.measure("forgotten", m) for m in (taught, taught + found.change))
    assert after.loss > before.loss
    deep = replace(plan, layer=3)
    with pytest.raises(Unteachable, match="layer 3 of a model that has 2"):
        client.answer("forgotten", replace(lesson, text=deep), {"model": taught, "teacher": taught})


@pytest.mark.parametrize(
    "plan",
    [
        TextLesson(objective="npo"),
        TextLesson(objective="rmu"),
        TextLesson(objective="simnpo", retain="kl"),
    ],
)
def test_what_looks_back_refuses_to_do_without_the_model_before(
    client: LanguageLearner, taught: Tensor, plan: TextLesson
) -> None:
    with pytest.raises(Unteachable, match="the model before, which was not sent"):
        client.answer("forgotten", replace(LESSON, text=plan), {"model": taught})


def test_a_twin_shares_what_is_frozen_and_nobody_teaches_it(world: Path) -> None:
    room = TextStock.read(read_language(simulated(world, REQUEST, LORA)), None)._room
    other = room.twin(room.start + 1.0)
    ours, theirs = dict(room.model.named_parameters()), dict(other.named_parameters())
    for name, each in ours.items():
        assert (theirs[name] is each) == (not each.requires_grad), name
        assert not theirs[name].requires_grad
    assert any(each.requires_grad for each in ours.values()), "the first is still taught"
    taught = next(name for name, each in ours.items() if each.requires_grad)
    assert torch.equal(theirs[taught], ours[taught] + 1.0)


def test_the_retain_term_may_be_the_divergence(client: LanguageLearner, taught: Tensor) -> None:
    plan = TextLesson(objective="npo", retain="kl")
    lesson = replace(LESSON, epochs=1, learning_rate=0.001, text=plan)
    found = client.answer("forgotten", lesson, {"model": taught, "teacher": taught})
    assert float(found.change.norm()) > 0


def test_a_lesson_is_the_same_again_and_fedprox_holds_it_back(client: LanguageLearner) -> None:
    lesson, start = replace(LESSON, epochs=1), {"model": client.room.start}
    first, again = (client.answer("learn", lesson, start).change for _ in range(2))
    assert torch.equal(first, again)
    held = client.answer("learn", replace(lesson, proximal=1e3), start).change
    assert float(held.norm()) < float(first.norm())


def test_what_cannot_be_taught_is_said(stock: TextStock, taught: Tensor) -> None:
    client = stock.learner("client-1", Standing())
    slots = {"model": taught}
    with pytest.raises(Unteachable, match="client-1 has no forgotten texts"):
        client.answer("forgotten", LESSON, slots)
    with pytest.raises(Unteachable, match="not for texts"):
        client.answer("learn", replace(LESSON, aim="learn", text=None), slots)


def test_purged_texts_are_gone(stock: TextStock) -> None:
    whole = len(stock.learner("client-1", Standing()).shelf.rows)
    gone = len(stock.learner("client-1", Standing("gone")).shelf.of("forgotten"))
    after = stock.learner("client-1", Standing(None, ("gone",))).shelf
    assert len(after.rows) == whole - gone
    assert not after.flagged.any()


def test_adapters_alone_are_taught(world: Path) -> None:
    folder = world / "adapters"
    folder.mkdir()
    (folder / "base").symlink_to(world / "base")
    write_texts(folder)
    stock = TextStock.read(read_language(simulated(folder, REQUEST, LORA)), None)
    client = stock.learner("client-0", Standing())
    layers, rank, width, between = 2, 4, 32, 64
    shapes = 4 * (width + width) + 2 * (width + between) + (between + width)
    assert client.size == layers * rank * shapes
    start = client.room.start
    after = start + client.answer("learn", replace(LESSON, epochs=40), {"model": start}).change
    before, now = (client.measure("learn", each) for each in (start, after))
    assert now.loss < 0.95 * before.loss


def scene(stock: TextStock, original: Tensor, tell: Callable[[Turn], None]) -> Scene:
    learners = {name: stock.learner(name, Standing("gone")) for name in ("client-1", "client-0")}
    cohort = LocalCohort(learners)  # type: ignore[arg-type]
    leaving, staying = (
        [Member("client-1", "forgotten")],
        [
            Member("client-1", "retained"),
            Member("client-0", "retained"),
        ],
    )
    return Scene(cohort, original, leaving, staying, lambda _: original, None, tell)


def test_each_client_takes_part_once(stock: TextStock, taught: Tensor) -> None:
    here = scene(stock, taught, lambda _: None)
    assert [str(each) for each in members(here, "all")] == [
        "client-1, forgotten rows",
        "client-0, retained rows",
    ]
    assert [str(each) for each in members(here, "leaving")] == ["client-1, forgotten rows"]


def test_the_constraint_raises_the_score_to_what_unseen_texts_have(
    stock: TextStock, taught: Tensor
) -> None:
    plan = TextLesson(objective="primal-dual")
    lesson = replace(LESSON, epochs=2, learning_rate=0.005, text=plan)
    turns: list[Turn] = []
    method = PrimalDual(
        Course(lesson, 12),
        Course(LESSON, 0),
        step_size=1.0,
        price=0.5,
        most=10.0,
        threshold=2.0,
        who="leaving",
    )
    after = method.run(scene(stock, taught, turns.append))
    client = stock.learner("client-1", Standing("gone"))
    before, now = (client.measure("forgotten", each) for each in (taught, after))
    assert before.loss / before.rows < 0.5
    assert now.loss / now.rows > 1.8
    kept = client.measure("retained", after)
    assert kept.loss / kept.rows < 0.5 * now.loss / now.rows
    assert [each.stage for each in turns] == ["unlearn"] * 12


def test_thresholds_and_attacks_never_read_the_same_texts(client: LanguageLearner) -> None:
    shelf = client.shelf
    reference, others = shelf.of("validation"), shelf.of("held")
    assert len(reference) - len(others) in (0, 1)
    said = [{tuple(each.ids.tolist()) for each in part} for part in (reference, others)]
    assert not said[0] & said[1]
    assert all(said)


def test_outputs_that_are_not_finite_never_count_as_forgotten(
    stock: TextStock, taught: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = scene(stock, taught, lambda _: None)
    read = here.cohort.read
    lesson = replace(LESSON, epochs=1, text=TextLesson(objective="primal-dual"))
    method = PrimalDual(Course(lesson, 1), Course(LESSON, 0), 1.0, 0.5, 10.0)

    def wild(names: Sequence[str], kind: Kind, model: Tensor) -> Mapping[str, Score]:
        found = dict(read(names, kind, model))
        return found | {n: replace(s, loss=float("nan")) for n, s in found.items() if kind == bad}

    monkeypatch.setattr(here.cohort, "read", wild)
    for bad in ("forgotten", "validation"):  # noqa: B007  read by ``wild``
        with pytest.raises(Diverged, match="the model's outputs are not finite at client-"):
            method.run(here)


def test_a_lesson_on_texts_crosses_the_wire() -> None:
    plan = TextLesson(
        objective="simnpo", gamma=0.125, beta=4.5, delta=0.5, retain="kl", layer=3, price=1.5
    )
    assert text_understood(text_said(plan)) == plan
    for wrong in (vfl_pb2.Text(optimiser="adamw"), vfl_pb2.Text(objective=3, optimiser="pickle")):
        with pytest.raises(RemoteProtocolError, match="unknown"):
            text_understood(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": -1.0},
        {"price": float("nan")},
        {"alpha": float("inf")},
        {"beta": 0.0},
        {"ceiling": float("nan")},
    ],
)
def test_a_lesson_with_numbers_that_cannot_be_used_is_refused(wrong: dict[str, float]) -> None:
    said = text_said(TextLesson(objective="npo"))
    for name, value in wrong.items():
        setattr(said, name, value)
    with pytest.raises(RemoteProtocolError, match="teaches texts with a"):
        text_understood(said)


def test_npo_without_the_model_before_is_refused(client: LanguageLearner, taught: Tensor) -> None:
    lesson = replace(LESSON, text=TextLesson(objective="npo"))
    with pytest.raises(Unteachable, match="was not sent"):
        client.answer("forgotten", lesson, {"model": taught})


def test_no_answer_counts_for_more_than_the_ceiling() -> None:
    # Odds of five answers near -7.375 and of five near 4.125: -log p is 7.3756 and 0.0160.
    odds = [0] * 96
    odds[18], odds[64] = 5, 5
    (found,) = _sums({"a": Score(10, 0, 37.0, tuple(odds))}, ceiling=3.75)
    assert found.rows == 10
    assert found.total == pytest.approx(5 * 3.75 + 5 * 0.016030, rel=1e-4)
