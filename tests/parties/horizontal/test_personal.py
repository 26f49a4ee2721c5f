"""Personalised learning: what leaves a client, what does not, and that it helps."""

from dataclasses import replace

import pytest
import torch
from clients import CLIENTS, LESSON, digits, learners
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from models.gpfl import GpflNetwork
from models.prompts import Prompted, PromptGenerator
from models.seeded import seeded
from models.whole import whole_mlp
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import Course, run
from parties.horizontal.local.learner import Learner
from parties.horizontal.local.networks import cut_head
from parties.horizontal.local.personal import SHARED, Personal, mask
from parties.horizontal.simulation.local_cohort import LocalCohort

PLANS = {
    "none": SHARED,
    "fedper": Personal(own=("1.2.",)),
    "per-fedavg": Personal(inner=0.05),
    "mimir": Personal(own=("descriptor",), last=("generator.", "base"), decay=0.001),
    "gpfl": Personal(own=("head.",)),
}


def build(kind: str) -> nn.Module:
    def make() -> nn.Module:
        whole = whole_mlp((1, 8, 8), (32,), 10)
        if kind == "mimir":
            backbone, head = cut_head(whole)
            return Prompted(backbone, head, PromptGenerator())
        return GpflNetwork(*cut_head(whole)) if kind == "gpfl" else whole

    return seeded(1, make)


def personalised(kind: str) -> dict[str, Learner]:
    """Every client with a part of the classes, and a network of its own."""
    return {
        name: Learner(name, build(kind), each.shelf, 0, PLANS[kind])
        for name, each in learners(0.4).items()
    }


def taught(kind: str, rounds: int = 10) -> tuple[Tensor, dict[str, Learner]]:
    clients = personalised(kind)
    start = parameters_to_vector(build(kind).parameters()).detach()
    lesson = replace(LESSON, epochs=2)
    members = [Member(name) for name in CLIENTS]
    model = run(LocalCohort(clients), start, members, Course(lesson, rounds), lambda *_: None)
    return model, clients


def held(model: Tensor, clients: dict[str, Learner]) -> float:
    scores = [each.measure("held", model) for each in clients.values()]
    return sum(each.right for each in scores) / sum(each.rows for each in scores)


def test_personal_models_serve_clients_whose_data_differ_better() -> None:
    found = {kind: held(*taught(kind)) for kind in PLANS}
    assert found["none"] < 0.9
    assert all(found[kind] > found["none"] for kind in PLANS if kind != "none"), found


@pytest.mark.parametrize("kind", ["fedper", "mimir", "gpfl"])
def test_what_is_a_client_s_own_never_leaves_it_and_is_kept(kind: str) -> None:
    clients = personalised(kind)
    one = clients[CLIENTS[0]]
    own = mask(one.network, PLANS[kind].own)
    start = parameters_to_vector(build(kind).parameters()).detach()
    start = start + one.answer("learn", LESSON, {"model": start}).change
    change = one.answer("learn", LESSON, {"model": start}).change  # now Mimir's prompt has begun
    assert own.any()
    assert not change[own].any()
    assert change[~own].any()
    assert one.own is not None
    kept = one.own[own].clone()
    assert not torch.equal(kept, start[own])
    one.measure("held", start)
    now = parameters_to_vector(one.network.parameters()).detach()
    assert torch.equal(now[own], kept)
    assert torch.equal(now[~own], start[~own])


def test_mimir_leaves_the_prompt_of_all_alone_until_the_last_pass() -> None:
    """Without that pass generator and base prompt are what was sent."""
    one = personalised("mimir")[CLIENTS[0]]
    last = mask(one.network, PLANS["mimir"].last)
    start = parameters_to_vector(build("mimir").parameters()).detach()
    both = one.answer("learn", LESSON, {"model": start}).change
    assert both[last].any()
    one.own, one.personal = None, Personal(own=("descriptor", "generator.", "base"))
    first = one.answer("learn", LESSON, {"model": start}).change
    assert not first[last].any()


def test_per_fedavg_takes_the_second_half_s_gradient_after_a_step_by_the_first() -> None:
    one = personalised("per-fedavg")[CLIENTS[0]]
    net, rows = build("per-fedavg"), one.shelf.rows
    start = parameters_to_vector(net.parameters()).detach().clone()
    lesson = replace(LESSON, batch=len(rows))
    order = order_of(one, lesson.stream)
    inputs, labels = rows.inputs[order], rows.labels[order]
    middle, block = len(rows) // 2, list(net.parameters())
    first = torch.autograd.grad(cross_entropy(net(inputs[:middle]), labels[:middle]), block)
    with torch.no_grad():
        for each, gradient in zip(block, first, strict=True):
            each.sub_(0.05 * gradient)
    second = torch.autograd.grad(cross_entropy(net(inputs[middle:]), labels[middle:]), block)
    wanted = -lesson.learning_rate * torch.cat([each.flatten() for each in second])
    found = one.answer("learn", lesson, {"model": start}).change
    assert torch.allclose(found, wanted, atol=1e-6)


def order_of(one: Learner, stream: str) -> Tensor:
    from parties.common.shared_randomness import key, permutation  # noqa: PLC0415

    named = f"{stream} {one.name} learn"
    return torch.from_numpy(permutation(key(0, "batches", named, 0), len(one.shelf.rows)).copy())


def test_gpfl_knows_the_client_s_labels() -> None:
    net = build("gpfl")
    assert isinstance(net, GpflNetwork)
    before = net(digits().inputs[:3])
    net.knows(torch.tensor([0, 0, 1]))
    assert not torch.allclose(net(digits().inputs[:3]), before)
