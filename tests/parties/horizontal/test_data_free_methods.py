"""Ways to forget that read no row: noise, and gated transfer."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, accuracy, client_tasks, context, network, trained
from local_cohort import LocalCohort
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.nn.utils import parameters_to_vector

from models.full_networks import full_mlp
from models.initialisation import build_seeded
from models.prompts import PromptedNetwork, PromptGenerator
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local import network_client
from parties.horizontal.local.data_free import DistillationRounds, GatedTransfer, train_student
from parties.horizontal.local.local_task import Aim, GatePlan, LocalTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import cut_head
from parties.horizontal.local.personalisation import Personalisation
from parties.horizontal.methods.fedgkt import FedGkt
from parties.horizontal.methods.fedmm import FedMm
from parties.horizontal.methods.student import StudentInit, initial_student
from unlearning.horizontal.error_noise import ErrorNoisePlan

OWN, OTHERS, SHAPE = CLIENTS[:1], CLIENTS[1:], (1, 8, 8)
SHARE = 0.2  # every client's classes are its alone: the first has 0 and 1
NOISE = ErrorNoisePlan(rows=64)
PERSONAL = Personalisation(prefixes=("descriptor",), last=("generator.", "base"), decay=0.001)


def round_plan(rounds: int, rate: float, name: str, epochs: int = 1) -> RoundPlan:
    task = replace(LOCAL_TASK, stream=name, learning_rate=rate, batch=64, epochs=epochs)
    return RoundPlan(task, rounds)


def fedmm(impair: int, repair: int = 5) -> FedMm:
    return FedMm(round_plan(impair, 0.02, "impair"), round_plan(repair, 0.01, "repair"), NOISE)


def prompted() -> PromptedNetwork:
    backbone, head = cut_head(full_mlp(SHAPE, (32,), 10))
    return PromptedNetwork(backbone, head, PromptGenerator())


def prompted_context(turns: list[RoundRecord]) -> UnlearningContext:
    """Clients of which only the first has another descriptor than all."""
    net = build_seeded(1, prompted)
    clients = {
        name: NetworkClientTask(name, deepcopy(net), each.client_data, 0, PERSONAL)
        for name, each in client_tasks(SHARE).items()
    }
    model = parameters_to_vector(net.parameters()).detach()
    with torch.no_grad():
        net.descriptor.neg_()
    clients[CLIENTS[0]].personal = parameters_to_vector(net.parameters()).detach()
    return replace(
        context(turns, SHARE), cohort=LocalCohort(clients), original=model,
        initial_model=lambda stream: torch.full_like(model, len(stream)),
    )  # fmt: skip


def test_noise_forgets_classes_that_only_the_leaving_client_holds() -> None:
    turns: list[RoundRecord] = []
    model = fedmm(1).run(context(turns, SHARE))
    assert [each.stage for each in turns] == ["unlearn", *["recover"] * 5]
    assert accuracy(model, OTHERS, SHARE) > accuracy(trained(SHARE), OTHERS, SHARE) - 0.05
    alone = fedmm(0).run(context([], SHARE))  # repair drifts away from the classes by itself
    assert accuracy(model, OWN, SHARE) < accuracy(alone, OWN, SHARE) - 0.1
    assert accuracy(alone, OWN, SHARE) < accuracy(trained(SHARE), OWN, SHARE) - 0.1


def test_repair_takes_back_what_impairing_did_to_the_others() -> None:
    turns: list[RoundRecord] = []
    model = replace(fedmm(2), share=0.5).run(context(turns, SHARE))
    impaired = turns[1].model
    assert accuracy(impaired, OTHERS, SHARE) < accuracy(model, OTHERS, SHARE) - 0.1


class Seen(LocalCohort):
    """Notes what is taught to whom, and with what beside the model."""

    def __init__(self) -> None:
        super().__init__(client_tasks(SHARE))
        self.asked: list[tuple[Aim, str, tuple[str, ...]]] = []
        self.lessons: list[LocalTask] = []

    def mean_update(self, members, task, slots):  # type: ignore[no-untyped-def]
        self.lessons.append(task)
        self.asked += [(task.aim, each.client, tuple(slots)) for each in members]
        return super().mean_update(members, task, slots)


def test_only_the_leaving_client_makes_errors() -> None:
    seen = Seen()
    fedmm(1, 1).run(replace(context([], SHARE), cohort=seen))
    beside = ("model", "teacher")
    assert seen.asked == [
        ("error-maximising-noise", CLIENTS[0], beside),
        *[("error-minimising-noise", name, beside) for name in OTHERS] * 2,
    ]


def test_noise_bears_the_classes_that_a_client_holds_and_no_row_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taught = []

    def note(_client_network, rows, _task, _slots, _seed):  # type: ignore[no-untyped-def]
        taught.append(rows)
        raise StopIteration

    monkeypatch.setattr(network_client, "train_locally", note)
    one = client_tasks(SHARE)[CLIENTS[1]]
    one.client_data.train.inputs.fill_(torch.nan)
    task = replace(LOCAL_TASK, aim="error-maximising-noise", noise=NOISE)
    model = trained(SHARE)
    with pytest.raises(StopIteration):
        one.run_task("learn", task, {"model": model, "teacher": model})
    counts = torch.bincount(taught[0].labels, minlength=10)
    assert (
        counts.tolist()
        == (64 * (torch.bincount(one.client_data.train.labels, minlength=10) > 0)).tolist()
    )
    assert torch.isfinite(taught[0].inputs).all()


@pytest.mark.parametrize("aim", ["error-maximising-noise", "error-minimising-noise"])
def test_what_is_a_client_s_own_stays_as_it_is_under_noise(aim: Aim) -> None:
    stage = prompted_context([])
    one = stage.cohort._client_tasks[CLIENTS[0]]  # type: ignore[attr-defined]
    own = one.personal.clone()
    slots = {"model": stage.original, "teacher": stage.original}
    found = one.run_task("learn", replace(LOCAL_TASK, aim=aim, noise=NOISE), slots)
    assert torch.equal(one.personal, own)
    assert torch.equal(found.personal, own)
    assert found.rows == len(one.client_data.train)
    assert found.delta.any()


def transfer(threshold: float, teacher: nn.Module) -> tuple[nn.Module, float]:
    """A student of gated transfer without the classes 0 and 1, and its last loss."""
    student = network("student")
    gate = GatePlan(threshold=threshold, classes=(0, 1))
    objective = GatedTransfer(student, teacher, None, list(student.parameters()), gate)
    rounds = DistillationRounds(rounds=60, batch=64, learning_rate=3e-3)
    return student, train_student(objective, SHAPE, rounds, 0)


def test_behind_the_gate_the_student_does_not_learn_the_classes() -> None:
    teacher = network()
    torch.nn.utils.vector_to_parameters(trained(SHARE).clone(), teacher.parameters())
    accuracies = {}
    for threshold in (0.05, 1.0):
        student, _ = transfer(threshold, teacher)
        vector = parameters_to_vector(student.parameters()).detach()
        accuracies[threshold] = accuracy(vector, OWN, SHARE), accuracy(vector, OTHERS, SHARE)
    assert accuracies[1.0][0] > 0.5
    assert accuracies[0.05][0] < 0.2 < accuracies[0.05][1]


class Stubborn(nn.Module):
    """Predicts a leaving class for every image."""

    def forward(self, images: Tensor) -> Tensor:
        return 9.0 * one_hot(torch.zeros(len(images), dtype=torch.int64), 10) + 0 * images.sum()


def test_where_nothing_passes_the_student_learns_nothing() -> None:
    student, loss = transfer(0.05, Stubborn())
    assert loss == 0.0
    for each, was in zip(student.parameters(), network("student").parameters(), strict=True):
        assert torch.equal(each, was)


def fedgkt(init: StudentInit = "warm", *, classes: bool = True, threshold: float = 0.9) -> FedGkt:
    distil, back = round_plan(1, 1e-3, "distil", epochs=2), round_plan(0, 0.1, "recover")
    gate = GatePlan(student_steps=2, threshold=threshold)
    net: nn.Module = network() if classes else prompted()
    return FedGkt(distil, back, gate, net, "classes" if classes else "features", init)


def test_the_gate_is_told_the_leaving_client_s_classes() -> None:
    seen, turns = Seen(), list[RoundRecord]()
    model = fedgkt().run(replace(context(turns, SHARE), cohort=seen))
    held = (
        torch.bincount(client_tasks(SHARE)[CLIENTS[0]].client_data.train.labels).nonzero().flatten()
    )
    assert seen.asked[:2] == [
        ("classes", CLIENTS[0], ("model",)),
        ("gated", CLIENTS[1], ("model", "teacher")),
    ]
    assert seen.lessons[1].gate is not None
    assert seen.lessons[1].gate.classes == tuple(held.tolist())
    assert not turns[0].skipped
    assert torch.isfinite(model).all()


@pytest.mark.parametrize(("threshold", "skipped"), [(1.1, False), (-1.0, True)])
def test_the_gate_by_features_and_a_round_in_which_it_is_shut(
    *, threshold: float, skipped: bool
) -> None:
    turns: list[RoundRecord] = []
    stage = prompted_context(turns)
    model = fedgkt(classes=False, threshold=threshold).run(stage)
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
    stage = prompted_context([])
    one = stage.cohort._client_tasks[CLIENTS[1]]  # type: ignore[attr-defined]
    gone = stage.cohort._client_tasks[CLIENTS[0]]  # type: ignore[attr-defined]
    task = replace(LOCAL_TASK, aim="gated", gate=GatePlan())
    slots = {"model": stage.original, "teacher": stage.original, "second": gone.personal}
    objective = one._objective(task, one.network, slots)
    assert torch.equal(objective.leaving.descriptor, -one.network.descriptor)
    with torch.no_grad():
        objective.leaving.base.copy_(torch.arange(32.0))
        images = torch.rand(5, *SHAPE)
        mine, theirs = one.network.features(images), objective.leaving.features(images)
        assert torch.equal(objective.gate(images), torch.cosine_similarity(mine, theirs, dim=1))
        assert (objective.gate(images) < 0.99).all()
    assert not {id(e) for e in objective.trained} & {
        id(one.network.base),
        id(one.network.descriptor),
    }


def test_a_gate_by_features_needs_prompts() -> None:
    method = replace(fedgkt(), gate="features")
    with pytest.raises(PolicyError, match="features of networks with prompts"):
        method.run(context([], SHARE))


@pytest.mark.parametrize("begin", ["random", "head-reset", "warm"])
def test_where_a_student_begins(begin: StudentInit) -> None:
    stage, names = prompted_context([]), [name for name, _ in prompted().named_parameters()]
    found = initial_student(begin, stage, prompted(), "x")
    parts = torch.split(found, [each.numel() for each in prompted().parameters()])
    fresh = {n for n, part in zip(names, parts, strict=True) if (part == 1).all() and n != "base"}
    heads = {"head.weight", "head.bias"}
    wanted = {n for n in names if n.startswith("backbone.")} | heads if begin == "random" else heads
    assert fresh == (set() if begin == "warm" else wanted)
    plain = initial_student(begin, context([], SHARE), network(), "x")
    moved = int((plain != trained(SHARE)).sum())
    assert moved == {"random": len(plain), "head-reset": 330, "warm": 0}[begin]


def test_members_tell_their_classes() -> None:
    one = client_tasks(SHARE, forgotten=3)[CLIENTS[0]]
    task = replace(LOCAL_TASK, aim="classes")
    found = dict(LocalCohort({CLIENTS[0]: one}).updates(
        [Member(CLIENTS[0], "forgotten")], task, {"model": trained(SHARE)}
    ))  # fmt: skip
    (told,) = found.values()
    assert told.delta.nonzero().flatten().tolist() == sorted(
        set(one.client_data.train.labels[:3].tolist())
    )
    assert len(told.delta) == 10
