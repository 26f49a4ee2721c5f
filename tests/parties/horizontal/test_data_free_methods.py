"""Unlearning methods that read no row: error noise and gated transfer."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from clients import (
    CLIENTS,
    LOCAL_TASK,
    accuracy,
    client_tasks,
    context,
    network,
    trained,
)
from local_cohort import LocalCohort
from local_run import unlearned_model
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.nn.utils import parameters_to_vector

from models.full_networks import full_mlp
from models.initialisation import build_seeded
from models.prompts import PromptedNetwork, PromptGenerator
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local import network_client
from parties.horizontal.local.data_free import DistillationRounds, GatedTransfer, train_student
from parties.horizontal.local.local_task import Aim, GatePlan, LocalTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import cut_head
from parties.horizontal.local.personalisation import Personalisation
from parties.horizontal.methods.fedgkt import FedGkt, FedGktSettings
from parties.horizontal.methods.fedmm import FedMm, FedMmSettings
from parties.horizontal.methods.student import StudentInit, initial_student
from unlearning.horizontal.error_noise import ErrorNoisePlan

OWN, OTHERS, SHAPE = CLIENTS[:1], CLIENTS[1:], (1, 8, 8)
SHARE = 0.2  # no two clients share a class; the first client has 0 and 1
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


def prompted_context(rounds: list[RoundRecord]) -> HorizontalRun:
    """Return a context in which only the first client has a descriptor of its own."""
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
        context(rounds, SHARE), cohort=LocalCohort(clients), original=model,
        initial_model=lambda stream: torch.full_like(model, len(stream)),
    )  # fmt: skip


def test_noise_forgets_classes_that_only_the_leaving_client_holds() -> None:
    rounds: list[RoundRecord] = []
    model = unlearned_model(fedmm(1), context(rounds, SHARE))
    assert [each.stage for each in rounds] == ["unlearn", *["recover"] * 5]
    assert accuracy(model, OTHERS, SHARE) > accuracy(trained(SHARE), OTHERS, SHARE) - 0.05
    alone = unlearned_model(
        fedmm(0), context([], SHARE)
    )  # repair alone lowers the accuracy on these classes
    assert accuracy(model, OWN, SHARE) < accuracy(alone, OWN, SHARE) - 0.1
    assert accuracy(alone, OWN, SHARE) < accuracy(trained(SHARE), OWN, SHARE) - 0.1


def test_repair_restores_the_other_clients() -> None:
    rounds: list[RoundRecord] = []
    model = unlearned_model(
        replace(fedmm(2), plan=FedMmSettings(share=0.5)), context(rounds, SHARE)
    )
    impaired = rounds[1].model
    assert accuracy(impaired, OTHERS, SHARE) < accuracy(model, OTHERS, SHARE) - 0.1


class RecordingCohort(LocalCohort):
    """Records the aim, the client and the slots of every task."""

    def __init__(self) -> None:
        super().__init__(client_tasks(SHARE))
        self.calls: list[tuple[Aim, str, tuple[str, ...]]] = []
        self.tasks: list[LocalTask] = []

    def mean_update(self, members, task, slots):  # type: ignore[no-untyped-def]
        self.tasks.append(task)
        self.calls += [(task.aim, each.client, tuple(slots)) for each in members]
        return super().mean_update(members, task, slots)


def test_only_the_leaving_client_maximises_errors() -> None:
    cohort = RecordingCohort()
    unlearned_model(fedmm(1, 1), replace(context([], SHARE), cohort=cohort))
    slots = ("model", "teacher")
    assert cohort.calls == [
        ("error-maximising-noise", CLIENTS[0], slots),
        *[("error-minimising-noise", name, slots) for name in OTHERS] * 2,
    ]


def test_noise_has_the_client_s_classes_and_reads_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise_rows = []

    def record(_client_network, rows, _task, _slots, _seed):  # type: ignore[no-untyped-def]
        noise_rows.append(rows)
        raise StopIteration

    monkeypatch.setattr(network_client, "train_locally", record)
    client = client_tasks(SHARE)[CLIENTS[1]]
    client.client_data.train.inputs.fill_(torch.nan)
    task = replace(LOCAL_TASK, aim="error-maximising-noise", noise=NOISE)
    model = trained(SHARE)
    with pytest.raises(StopIteration):
        client.run_task("learn", task, {"model": model, "teacher": model})
    counts = torch.bincount(noise_rows[0].labels, minlength=10)
    assert (
        counts.tolist()
        == (64 * (torch.bincount(client.client_data.train.labels, minlength=10) > 0)).tolist()
    )
    assert torch.isfinite(noise_rows[0].inputs).all()


@pytest.mark.parametrize("aim", ["error-maximising-noise", "error-minimising-noise"])
def test_noise_does_not_change_personal_parameters(aim: Aim) -> None:
    request = prompted_context([])
    client = request.cohort._client_tasks[CLIENTS[0]]  # type: ignore[attr-defined]
    own = client.personal.clone()
    slots = {"model": request.original, "teacher": request.original}
    update = client.run_task("learn", replace(LOCAL_TASK, aim=aim, noise=NOISE), slots)
    assert torch.equal(client.personal, own)
    assert torch.equal(update.personal, own)
    assert update.rows == len(client.client_data.train)
    assert update.delta.any()


def transfer(threshold: float, teacher: nn.Module) -> tuple[nn.Module, float]:
    """Return a student of gated transfer without classes 0 and 1, and its last loss."""
    student = network("student")
    gate = GatePlan(threshold=threshold, classes=(0, 1))
    objective = GatedTransfer(student, teacher, None, list(student.parameters()), gate)
    rounds = DistillationRounds(rounds=60, batch=64, learning_rate=3e-3)
    return student, train_student(objective, SHAPE, rounds, 0)


def test_gate_keeps_the_classes_from_the_student() -> None:
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


def test_student_does_not_change_if_the_gate_rejects_all() -> None:
    student, loss = transfer(0.05, Stubborn())
    assert loss == 0.0
    for each, initial in zip(student.parameters(), network("student").parameters(), strict=True):
        assert torch.equal(each, initial)


def fedgkt(init: StudentInit = "warm", *, classes: bool = True, threshold: float = 0.9) -> FedGkt:
    distil, recover = round_plan(1, 1e-3, "distil", epochs=2), round_plan(0, 0.1, "recover")
    gate = GatePlan(student_steps=2, threshold=threshold)
    net: nn.Module = network() if classes else prompted()
    plan = FedGktSettings(gate="classes" if classes else "features", init=init)
    return FedGkt(distil, recover, gate, net, plan, labels=10)


def test_gate_receives_the_leaving_client_s_classes() -> None:
    cohort, rounds = RecordingCohort(), list[RoundRecord]()
    model = unlearned_model(fedgkt(), replace(context(rounds, SHARE), cohort=cohort))
    classes = (
        torch.bincount(client_tasks(SHARE)[CLIENTS[0]].client_data.train.labels).nonzero().flatten()
    )
    assert cohort.calls[:2] == [
        ("classes", CLIENTS[0], ("model",)),
        ("gated", CLIENTS[1], ("model", "teacher")),
    ]
    assert cohort.tasks[1].gate is not None
    assert cohort.tasks[1].gate.classes == tuple(classes.tolist())
    assert not rounds[0].skipped
    assert torch.isfinite(model).all()


@pytest.mark.parametrize(("threshold", "skipped"), [(1.1, False), (-1.0, True)])
def test_gate_by_features_and_a_round_without_accepted_images(
    *, threshold: float, skipped: bool
) -> None:
    rounds: list[RoundRecord] = []
    request = prompted_context(rounds)
    model = unlearned_model(fedgkt(classes=False, threshold=threshold), request)
    moved = {
        name for name, part in zip(
            [name for name, _ in prompted().named_parameters()],
            torch.split(model - request.original, [e.numel() for e in prompted().parameters()]),
            strict=True,
        ) if part.any()
    }  # fmt: skip
    assert rounds[0].skipped is skipped
    assert {name.split(".")[0] for name in moved} == (set() if skipped else {"backbone", "head"})


def test_features_are_compared_with_the_leaving_client_s_descriptor() -> None:
    request = prompted_context([])
    client = request.cohort._client_tasks[CLIENTS[1]]  # type: ignore[attr-defined]
    leaving = request.cohort._client_tasks[CLIENTS[0]]  # type: ignore[attr-defined]
    task = replace(LOCAL_TASK, aim="gated", gate=GatePlan())
    slots = {"model": request.original, "teacher": request.original, "second": leaving.personal}
    objective = client._objective(task, client.network, slots)
    assert torch.equal(objective.leaving.descriptor, -client.network.descriptor)
    with torch.no_grad():
        objective.leaving.base.copy_(torch.arange(32.0))
        images = torch.rand(5, *SHAPE)
        mine, theirs = client.network.features(images), objective.leaving.features(images)
        assert torch.equal(objective.gate(images), torch.cosine_similarity(mine, theirs, dim=1))
        assert (objective.gate(images) < 0.99).all()
    assert not {id(e) for e in objective.trained} & {
        id(client.network.base),
        id(client.network.descriptor),
    }


def test_a_gate_by_features_needs_prompts() -> None:
    method = replace(fedgkt(), plan=FedGktSettings(gate="features"))
    with pytest.raises(PolicyError, match="fedgkt needs a network with prompts"):
        unlearned_model(method, context([], SHARE))


@pytest.mark.parametrize("init", ["random", "head-reset", "warm"])
def test_initial_student(init: StudentInit) -> None:
    request, names = prompted_context([]), [name for name, _ in prompted().named_parameters()]
    student = initial_student(init, request, prompted(), "x")
    parts = torch.split(student, [each.numel() for each in prompted().parameters()])
    fresh = {n for n, part in zip(names, parts, strict=True) if (part == 1).all() and n != "base"}
    heads = {"head.weight", "head.bias"}
    expected = (
        {n for n in names if n.startswith("backbone.")} | heads if init == "random" else heads
    )
    assert fresh == (set() if init == "warm" else expected)
    plain = initial_student(init, context([], SHARE), network(), "x")
    moved = int((plain != trained(SHARE)).sum())
    assert moved == {"random": len(plain), "head-reset": 330, "warm": 0}[init]


def test_task_classes_returns_the_classes_of_the_member() -> None:
    client = client_tasks(SHARE, forgotten=3)[CLIENTS[0]]
    task = replace(LOCAL_TASK, aim="classes")
    updates = dict(LocalCohort({CLIENTS[0]: client}).updates(
        [Member(CLIENTS[0], "forgotten")], task, {"model": trained(SHARE)}
    ))  # fmt: skip
    (update,) = updates.values()
    assert update.delta.nonzero().flatten().tolist() == sorted(
        set(client.client_data.train.labels[:3].tolist())
    )
    assert len(update.delta) == 10
