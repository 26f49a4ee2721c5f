"""Ways to forget that read no row: noise, and gated transfer."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from clients import CLIENTS, LESSON, accuracy, learners, network, scene, trained
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.nn.utils import parameters_to_vector

from models.prompts import Prompted, PromptGenerator
from models.seeded import seeded
from models.whole import whole_mlp
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.data_free import duel
from parties.horizontal.local.distillation import Gate, Pace
from parties.horizontal.local.gkt import GatedTransfer
from parties.horizontal.local.learner import Learner
from parties.horizontal.local.local_task import Aim, Lesson
from parties.horizontal.local.networks import cut_head
from parties.horizontal.local.personal import Personal
from parties.horizontal.methods.fedgkt import FedGkt
from parties.horizontal.methods.fedmm import FedMm
from parties.horizontal.methods.student import Begin, student
from parties.horizontal.simulation.local_cohort import LocalCohort
from unlearning.horizontal.noise import Noise

OWN, OTHERS, SHAPE = CLIENTS[:1], CLIENTS[1:], (1, 8, 8)
SHARE = 0.2  # every client's classes are its alone: the first has 0 and 1
NOISE = Noise(rows=64)
PERSONAL = Personal(own=("descriptor",), last=("generator.", "base"), decay=0.001)


def course(rounds: int, rate: float, name: str, epochs: int = 1) -> Course:
    lesson = replace(LESSON, stream=name, learning_rate=rate, batch=64, epochs=epochs)
    return Course(lesson, rounds)


def fedmm(impair: int, repair: int = 5) -> FedMm:
    return FedMm(course(impair, 0.02, "impair"), course(repair, 0.01, "repair"), NOISE)


def prompted() -> Prompted:
    backbone, head = cut_head(whole_mlp(SHAPE, (32,), 10))
    return Prompted(backbone, head, PromptGenerator())


def prompted_scene(turns: list[Turn]) -> Scene:
    """Clients of which only the first has another descriptor than all."""
    net = seeded(1, prompted)
    clients = {
        name: Learner(name, deepcopy(net), each.shelf, 0, PERSONAL)
        for name, each in learners(SHARE).items()
    }
    model = parameters_to_vector(net.parameters()).detach()
    with torch.no_grad():
        net.descriptor.neg_()
    clients[CLIENTS[0]].own = parameters_to_vector(net.parameters()).detach()
    return replace(
        scene(turns, SHARE), cohort=LocalCohort(clients), original=model,
        fresh=lambda stream: torch.full_like(model, len(stream)),
    )  # fmt: skip


def test_noise_forgets_classes_that_only_the_leaving_client_holds() -> None:
    turns: list[Turn] = []
    model = fedmm(1).run(scene(turns, SHARE))
    assert [each.stage for each in turns] == ["unlearn", *["recover"] * 5]
    assert accuracy(model, OTHERS, SHARE) > accuracy(trained(SHARE), OTHERS, SHARE) - 0.05
    alone = fedmm(0).run(scene([], SHARE))  # repair drifts away from the classes by itself
    assert accuracy(model, OWN, SHARE) < accuracy(alone, OWN, SHARE) - 0.1
    assert accuracy(alone, OWN, SHARE) < accuracy(trained(SHARE), OWN, SHARE) - 0.1


def test_repair_takes_back_what_impairing_did_to_the_others() -> None:
    turns: list[Turn] = []
    model = replace(fedmm(2), share=0.5).run(scene(turns, SHARE))
    impaired = turns[1].model
    assert accuracy(impaired, OTHERS, SHARE) < accuracy(model, OTHERS, SHARE) - 0.1


class Seen(LocalCohort):
    """Notes what is taught to whom, and with what beside the model."""

    def __init__(self) -> None:
        super().__init__(learners(SHARE))
        self.asked: list[tuple[Aim, str, tuple[str, ...]]] = []
        self.lessons: list[Lesson] = []

    def mean(self, members, lesson, slots):  # type: ignore[no-untyped-def]
        self.lessons.append(lesson)
        self.asked += [(lesson.aim, each.client, tuple(slots)) for each in members]
        return super().mean(members, lesson, slots)


def test_only_the_leaving_client_makes_errors() -> None:
    seen = Seen()
    fedmm(1, 1).run(replace(scene([], SHARE), cohort=seen))
    beside = ("model", "teacher")
    assert seen.asked == [
        ("worst-noise", CLIENTS[0], beside),
        *[("best-noise", name, beside) for name in OTHERS] * 2,
    ]


def test_noise_bears_the_classes_that_a_client_holds_and_no_row_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from parties.horizontal.local import learner

    taught = []

    def note(pupil, rows, lesson, slots, seed):  # type: ignore[no-untyped-def]
        taught.append(rows)
        raise StopIteration

    monkeypatch.setattr(learner, "learn", note)
    one = learners(SHARE)[CLIENTS[1]]
    one.shelf.rows.inputs.fill_(torch.nan)
    lesson = replace(LESSON, aim="worst-noise", noise=NOISE)
    model = trained(SHARE)
    with pytest.raises(StopIteration):
        one.answer("learn", lesson, {"model": model, "teacher": model})
    counts = torch.bincount(taught[0].labels, minlength=10)
    assert (
        counts.tolist() == (64 * (torch.bincount(one.shelf.rows.labels, minlength=10) > 0)).tolist()
    )
    assert torch.isfinite(taught[0].inputs).all()


@pytest.mark.parametrize("aim", ["worst-noise", "best-noise"])
def test_what_is_a_client_s_own_stays_as_it_is_under_noise(aim: Aim) -> None:
    stage = prompted_scene([])
    one = stage.cohort._learners[CLIENTS[0]]  # type: ignore[attr-defined]
    own = one.own.clone()
    slots = {"model": stage.original, "teacher": stage.original}
    found = one.answer("learn", replace(LESSON, aim=aim, noise=NOISE), slots)
    assert torch.equal(one.own, own)
    assert torch.equal(found.own, own)
    assert found.rows == len(one.shelf.rows)
    assert found.change.any()


def transfer(most: float, teacher: nn.Module) -> tuple[nn.Module, float]:
    learner = network("student")
    gate = Gate(most=most, classes=(0, 1))
    game = GatedTransfer(learner, teacher, None, list(learner.parameters()), gate)
    return learner, duel(game, SHAPE, Pace(rounds=60, batch=64, learning_rate=3e-3), 0)


def test_behind_the_gate_the_student_does_not_learn_the_classes() -> None:
    teacher = network()
    torch.nn.utils.vector_to_parameters(trained(SHARE).clone(), teacher.parameters())
    told = {}
    for most in (0.05, 1.0):
        pupil, _ = transfer(most, teacher)
        vector = parameters_to_vector(pupil.parameters()).detach()
        told[most] = accuracy(vector, OWN, SHARE), accuracy(vector, OTHERS, SHARE)
    assert told[1.0][0] > 0.5
    assert told[0.05][0] < 0.2 < told[0.05][1]


class Stubborn(nn.Module):
    """Sees the leaving classes in everything."""

    def forward(self, images: Tensor) -> Tensor:
        return 9.0 * one_hot(torch.zeros(len(images), dtype=torch.int64), 10) + 0 * images.sum()


def test_where_nothing_passes_the_student_learns_nothing() -> None:
    learner, loss = transfer(0.05, Stubborn())
    assert loss == 0.0
    for each, was in zip(learner.parameters(), network("student").parameters(), strict=True):
        assert torch.equal(each, was)


def fedgkt(begin: Begin = "warm", *, classes: bool = True, most: float = 0.9) -> FedGkt:
    distil, back = course(1, 1e-3, "distil", epochs=2), course(0, 0.1, "recover")
    gate = Gate(inner=2, most=most)
    net: nn.Module = network() if classes else prompted()
    return FedGkt(distil, back, gate, net, "classes" if classes else "features", begin)


def test_the_gate_is_told_the_leaving_client_s_classes() -> None:
    seen, turns = Seen(), list[Turn]()
    model = fedgkt().run(replace(scene(turns, SHARE), cohort=seen))
    held = torch.bincount(learners(SHARE)[CLIENTS[0]].shelf.rows.labels).nonzero().flatten()
    assert seen.asked[:2] == [
        ("classes", CLIENTS[0], ("model",)),
        ("gated", CLIENTS[1], ("model", "teacher")),
    ]
    assert seen.lessons[1].gate is not None
    assert seen.lessons[1].gate.classes == tuple(held.tolist())
    assert not turns[0].skipped
    assert torch.isfinite(model).all()


@pytest.mark.parametrize(("most", "skipped"), [(1.1, False), (-1.0, True)])
def test_the_gate_by_features_and_a_round_in_which_it_is_shut(
    *, most: float, skipped: bool
) -> None:
    turns: list[Turn] = []
    stage = prompted_scene(turns)
    model = fedgkt(classes=False, most=most).run(stage)
    moved = {
        name for name, part in zip(
            [name for name, _ in prompted().named_parameters()],
            torch.split(model - stage.original, [e.numel() for e in prompted().parameters()]),
            strict=True,
        ) if part.any()
    }  # fmt: skip
    assert turns[0].skipped is skipped
    assert {name.split(".")[0] for name in moved} == (set() if skipped else {"backbone", "head"})


def test_features_are_compared_with_the_leaving_client_s_descriptor() -> None:
    stage = prompted_scene([])
    one = stage.cohort._learners[CLIENTS[1]]  # type: ignore[attr-defined]
    gone = stage.cohort._learners[CLIENTS[0]]  # type: ignore[attr-defined]
    lesson = replace(LESSON, aim="gated", gate=Gate())
    slots = {"model": stage.original, "teacher": stage.original, "second": gone.own}
    game = one._game(lesson, one.network, slots)
    assert torch.equal(game.leaving.descriptor, -one.network.descriptor)
    with torch.no_grad():
        game.leaving.base.copy_(torch.arange(32.0))
        images = torch.rand(5, *SHAPE)
        mine, theirs = one.network.features(images), game.leaving.features(images)
        assert torch.equal(game.gate(images), torch.cosine_similarity(mine, theirs, dim=1))
        assert (game.gate(images) < 0.99).all()
    assert not {id(e) for e in game.learns} & {id(one.network.base), id(one.network.descriptor)}


def test_a_gate_by_features_needs_prompts() -> None:
    method = replace(fedgkt(), by="features")
    with pytest.raises(PolicyError, match="features of prompted networks"):
        method.run(scene([], SHARE))


@pytest.mark.parametrize("begin", ["random", "head-reset", "warm"])
def test_where_a_student_begins(begin: Begin) -> None:
    stage, names = prompted_scene([]), [name for name, _ in prompted().named_parameters()]
    found = student(begin, stage, prompted(), "x")
    parts = torch.split(found, [each.numel() for each in prompted().parameters()])
    fresh = {n for n, part in zip(names, parts, strict=True) if (part == 1).all() and n != "base"}
    heads = {"head.weight", "head.bias"}
    wanted = {n for n in names if n.startswith("backbone.")} | heads if begin == "random" else heads
    assert fresh == (set() if begin == "warm" else wanted)
    plain = student(begin, scene([], SHARE), network(), "x")
    moved = int((plain != trained(SHARE)).sum())
    assert moved == {"random": len(plain), "head-reset": 330, "warm": 0}[begin]


def test_members_tell_their_classes() -> None:
    one = learners(SHARE, forgotten=3)[CLIENTS[0]]
    lesson = replace(LESSON, aim="classes")
    found = dict(LocalCohort({CLIENTS[0]: one}).each(
        [Member(CLIENTS[0], "forgotten")], lesson, {"model": trained(SHARE)}
    ))  # fmt: skip
    (told,) = found.values()
    assert told.change.nonzero().flatten().tolist() == sorted(
        set(one.shelf.rows.labels[:3].tolist())
    )
    assert len(told.change) == 10
