"""What a client descends when it forgets, by hand from the likelihoods of its answers."""

from collections.abc import Callable
from dataclasses import replace
from math import exp, log1p
from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs.federated_file import read_language
from parties.horizontal.engine.cohort import Member, Score
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.score_histogram import counted
from parties.horizontal.local.text_task import TextLesson
from parties.horizontal.simulation.local_cohort import LocalCohort
from parties.horizontal.simulation.simulated_data import Standing
from parties.language.engine.learner import LanguageLearner
from parties.language.engine.micro_batches import Piece
from parties.language.engine.objective import Forgetting
from parties.language.evaluation.benchmarks.asking import token_log_probs
from parties.language.methods.by_objective import ByObjective, drawn, slots_of
from parties.language.methods.primal_dual import PrimalDual
from parties.language.registry import method
from parties.language.simulated_data import TextStock
from parties.language.texts.batches import training_batch
from tests.parties.horizontal.language.ferries import FULL, simulated

REQUEST = '[[unlearn]]\nname = "gone"\nrows = "flagged"\n'
PLAN = TextLesson(optimiser="sgd", gamma=0.3, alpha=0.7)
LESSON = Lesson(aim="text", stream="s", batch=100, learning_rate=0.1, text=PLAN)


@pytest.fixture(scope="module")
def stock(world: Path) -> TextStock:
    return TextStock.read(read_language(simulated(world, REQUEST, FULL)), None)


@pytest.fixture(scope="module")
def client(stock: TextStock) -> LanguageLearner:
    return stock.learner("client-1", Standing("gone"))


def softplus(value: float) -> float:
    """-log σ(-value)."""
    return max(value, 0.0) + log1p(exp(-abs(value)))


class Answers:
    """Nats of every answer of some rows under a model, and tokens."""

    def __init__(self, client: LanguageLearner, model: Tensor, kind: str) -> None:
        rows = client.shelf.of(kind)[:3]  # type: ignore[arg-type]
        client.room.take(model)
        client.room.model.eval()
        log_p, mask, _ = token_log_probs(client.room, rows, 1)
        self.nats = [float(each) for each in -(log_p * mask).sum(dim=1)]
        self.tokens = [int(each) for each in mask.sum(dim=1)]

    @property
    def token_mean(self) -> float:
        return sum(self.nats) / sum(self.tokens)


def by_hand(plan: TextLesson, lost: Answers, before: Answers, kept: Answers) -> float:
    match plan.objective:
        case "grad-ascent":
            return -lost.token_mean
        case "grad-diff":
            away = -lost.token_mean
        case "npo":  # -(2/β) log σ(-β log(p / p before)), of sums over tokens
            pairs = zip(lost.nats, before.nats, strict=True)
            each = [2 / plan.beta * softplus(-plan.beta * (now - then)) for now, then in pairs]
            away = sum(each) / len(each)
        case _:  # SimNPO: by length, δ inside β
            pairs = zip(lost.nats, lost.tokens, strict=True)
            each = [
                2 / plan.beta * softplus(-plan.beta * (nats / tokens - plan.delta))
                for nats, tokens in pairs
            ]
            away = sum(each) / len(each)
    return plan.gamma * away + plan.alpha * kept.token_mean


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
def test_the_loss_of_a_step(client: LanguageLearner, plan: TextLesson) -> None:
    """Of a model that is not the one before unlearning."""
    room = client.room
    before = room.start
    now = before + 0.3 * torch.randn(len(before), generator=torch.Generator().manual_seed(1))
    lost, kept = (Answers(client, now, kind) for kind in ("forgotten", "retained"))
    wanted = by_hand(plan, lost, Answers(client, before, "forgotten"), kept)
    room.take(now)
    room.model.eval()
    batches = [
        training_batch(client.shelf.of(kind)[:3], room.pad)  # type: ignore[arg-type]
        for kind in ("forgotten", "retained")
    ]
    found = Forgetting(room, plan, before, 0).loss(Piece(*batches))
    assert found.item() == pytest.approx(wanted, rel=1e-4)


def scene(stock: TextStock, original: Tensor, tell: Callable[[Turn], None]) -> Scene:
    names = ("client-0", "client-1", "client-2")
    cohort = LocalCohort({each: stock.learner(each, Standing("gone")) for each in names})  # type: ignore[arg-type]
    gone = [each for each in names if len(stock.learner(each, Standing("gone")).shelf.forgotten)]
    leaving, staying = (
        [Member(each, "forgotten") for each in gone],
        [Member(each, "retained") for each in names],
    )
    return Scene(cohort, original, leaving, staying, lambda _: original, None, tell)


def test_npo_looks_at_the_model_before_in_every_round(
    stock: TextStock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = stock.learner("client-0", Standing()).room.start
    here = scene(stock, original, lambda _: None)
    sent: list[tuple[Tensor, Tensor]] = []
    mean = here.cohort.mean

    def heard(members, lesson, slots):  # type: ignore[no-untyped-def]
        sent.append((slots["model"], slots["teacher"]))
        return mean(members, lesson, slots)

    monkeypatch.setattr(here.cohort, "mean", heard)
    lesson = replace(LESSON, text=replace(PLAN, objective="npo"))
    ByObjective("npo", Course(lesson, 2), Course(LESSON, 0)).run(here)
    (first, before), (second, again) = sent
    assert torch.equal(first, original)
    assert not torch.equal(second, original)
    assert torch.equal(before, original)
    assert torch.equal(again, original)
    plain = replace(LESSON, text=replace(PLAN, objective="simnpo"))
    assert set(slots_of(here, second, plain)) == {"model"}


def test_fedprox_pulls_every_step_to_the_model_that_was_sent(client: LanguageLearner) -> None:
    """Two steps of plain descent on all texts at once, with μ (θ − θ sent) beside the gradient."""
    room, rate, pull = client.room, LESSON.learning_rate, 0.8
    rows = client.shelf.of("learn")
    lesson = replace(LESSON, epochs=2, proximal=pull, clip=None)
    found = client.answer("learn", lesson, {"model": room.start}).change
    batch, away = training_batch(rows, room.pad), torch.zeros_like(room.start)
    for _ in range(2):
        room.take(room.start + away)
        room.model.zero_grad()
        logits = room.model(input_ids=batch.ids, attention_mask=batch.mask).logits[:, :-1]
        labels = batch.labels[:, 1:]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
        gradients = {
            name: each.grad for name, each in room.model.named_parameters() if each.requires_grad
        }
        away = away - rate * (room.layout.flat(gradients) + pull * away)
    torch.testing.assert_close(found, away, rtol=0, atol=2e-6)
    without = client.answer("learn", replace(lesson, proximal=0.0), {"model": room.start}).change
    assert float((without - found).abs().max()) > 1e-4


def test_ascent_stops_at_a_uniform_guess_if_asked(client: LanguageLearner) -> None:
    ascent = replace(PLAN, objective="grad-ascent", optimiser="adamw")
    lesson = replace(LESSON, epochs=60, learning_rate=0.01, batch=4, text=ascent, clip=None)
    slots = {"model": client.room.start}
    goes_on = client.answer("forgotten", lesson, slots)
    stopped = client.answer("forgotten", replace(lesson, text=replace(ascent, stops=True)), slots)
    assert stopped.steps < goes_on.steps
    far, near = (
        client.measure("forgotten", client.room.start + each.change) for each in (goes_on, stopped)
    )
    assert far.loss / far.rows > 2 * client.room.guess
    assert near.loss / near.rows < 2 * client.room.guess


def test_the_threshold_is_the_mean_of_the_same_score(
    stock: TextStock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of -log p = 1, 1, 1 and 9 nats the mean is 3; no answer counts for more than 1.5 times that.

    The mean of 1, 1, 1 and 4.5 is 1.875, which a model meets that finds the forgotten texts exactly
    as likely; the mean of 3 it could never meet.
    """
    here = scene(stock, stock.learner("client-0", Standing()).room.start, lambda _: None)

    def read(names, kind, model):  # type: ignore[no-untyped-def]
        del names, kind, model
        nats = torch.tensor([1.0, 1.0, 1.0, 9.0], dtype=torch.float64)
        odds = counted(torch.logit((-nats).exp()))
        return {"client-0": Score(4, 0, 12.0, odds, 1.1)}

    monkeypatch.setattr(here.cohort, "read", read)
    way = PrimalDual(Course(LESSON, 1), Course(LESSON, 0), 1.0, 0.5, 10.0)
    threshold, ceiling = way._levels(here)
    assert ceiling == pytest.approx(4.5)
    assert threshold == pytest.approx(1.875, abs=0.1), "as exact as counts of odds are"


def test_in_a_round_of_some_clients_one_forgets_at_least() -> None:
    those = [Member(f"client-{at}", "forgotten" if at < 2 else "retained") for at in range(20)]
    course = Course(LESSON, 40, share=0.1, seed=3)
    rounds = [drawn(course, number, those, those[:2]) for number in range(40)]
    assert {len(each) for each in rounds} == {2}
    assert all({*each} & {*those[:2]} for each in rounds)
    assert {member for each in rounds for member in each} >= {*those[:2]}
    kept = [member for each in rounds for member in each if member not in those[:2]]
    assert len({*kept}) > 10
    firsts = sum(member.client < "client-15" for member in kept)  # by name, 5 of 18 of them
    assert 0.2 < firsts / len(kept) < 0.6
    assert drawn(replace(course, share=1.0), 0, those, those[:2]) == sorted(those)


def test_what_a_stage_does_not_say_is_the_trainings(world: Path) -> None:
    recover = "recover = { share = 1.0, proximal = 0.5 }"
    settings = f"[unlearning]\nnpo = {{ unlearn = {{ rounds = 2 }}, {recover} }}"
    path = simulated(world, REQUEST + settings)
    changes = ["training.share=0.4", "training.proximal=0.1"]
    way = method(read_language(path, changes).agreement, "npo")
    assert isinstance(way, ByObjective)
    assert (way.unlearn.share, way.unlearn.lesson.proximal) == (0.4, 0.1)
    assert (way.recover.share, way.recover.lesson.proximal) == (1.0, 0.5)
