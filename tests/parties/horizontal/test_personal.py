"""Personalised learning: what leaves a client, what does not, and that it helps."""

from dataclasses import replace

import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, client_tasks, digits
from local_cohort import LocalCohort
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from models.full_networks import full_mlp
from models.gpfl import GpflNetwork
from models.initialisation import build_seeded
from models.prompts import PromptedNetwork, PromptGenerator
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import cut_head
from parties.horizontal.local.personalisation import SHARED, Personalisation, parameter_mask

PLANS = {
    "none": SHARED,
    "fedper": Personalisation(prefixes=("1.2.",)),
    "per-fedavg": Personalisation(inner=0.05),
    "mimir": Personalisation(prefixes=("descriptor",), last=("generator.", "base"), decay=0.001),
    "gpfl": Personalisation(prefixes=("head.",)),
}


def build(kind: str) -> nn.Module:
    def make() -> nn.Module:
        whole = full_mlp((1, 8, 8), (32,), 10)
        if kind == "mimir":
            backbone, head = cut_head(whole)
            return PromptedNetwork(backbone, head, PromptGenerator())
        return GpflNetwork(*cut_head(whole)) if kind == "gpfl" else whole

    return build_seeded(1, make)


def personalised(kind: str) -> dict[str, NetworkClientTask]:
    """Every client with a part of the classes, and a network of its own."""
    return {
        name: NetworkClientTask(name, build(kind), each.client_data, 0, PLANS[kind])
        for name, each in client_tasks(0.4).items()
    }


def taught(kind: str, rounds: int = 10) -> tuple[Tensor, dict[str, NetworkClientTask]]:
    clients = personalised(kind)
    start = parameters_to_vector(build(kind).parameters()).detach()
    task = replace(LOCAL_TASK, epochs=2)
    members = [Member(name) for name in CLIENTS]
    model = run_rounds(
        LocalCohort(clients), start, members, RoundPlan(task, rounds), lambda *_: None
    )
    return model, clients


def held(model: Tensor, clients: dict[str, NetworkClientTask]) -> float:
    scores = [each.evaluate("test", model) for each in clients.values()]
    return sum(each.correct for each in scores) / sum(each.rows for each in scores)


def test_personal_models_serve_clients_whose_data_differ_better() -> None:
    found = {kind: held(*taught(kind)) for kind in PLANS}
    assert found["none"] < 0.9
    assert all(found[kind] > found["none"] for kind in PLANS if kind != "none"), found


@pytest.mark.parametrize("kind", ["fedper", "mimir", "gpfl"])
def test_what_is_a_client_s_own_never_leaves_it_and_is_kept(kind: str) -> None:
    clients = personalised(kind)
    one = clients[CLIENTS[0]]
    own = parameter_mask(one.network, PLANS[kind].prefixes)
    start = parameters_to_vector(build(kind).parameters()).detach()
    start = start + one.run_task("learn", LOCAL_TASK, {"model": start}).delta
    change = one.run_task(
        "learn", LOCAL_TASK, {"model": start}
    ).delta  # now Mimir's prompt has begun
    assert own.any()
    assert not change[own].any()
    assert change[~own].any()
    assert one.personal is not None
    kept = one.personal[own].clone()
    assert not torch.equal(kept, start[own])
    one.evaluate("test", start)
    now = parameters_to_vector(one.network.parameters()).detach()
    assert torch.equal(now[own], kept)
    assert torch.equal(now[~own], start[~own])


def test_mimir_leaves_the_prompt_of_all_alone_until_the_last_pass() -> None:
    """Without that pass generator and base prompt are what was sent."""
    one = personalised("mimir")[CLIENTS[0]]
    last = parameter_mask(one.network, PLANS["mimir"].last)
    start = parameters_to_vector(build("mimir").parameters()).detach()
    both = one.run_task("learn", LOCAL_TASK, {"model": start}).delta
    assert both[last].any()
    one.personal, one.personalisation = (
        None,
        Personalisation(prefixes=("descriptor", "generator.", "base")),
    )
    first = one.run_task("learn", LOCAL_TASK, {"model": start}).delta
    assert not first[last].any()


def test_per_fedavg_takes_the_second_half_s_gradient_after_a_step_by_the_first() -> None:
    one = personalised("per-fedavg")[CLIENTS[0]]
    net, rows = build("per-fedavg"), one.client_data.train
    start = parameters_to_vector(net.parameters()).detach().clone()
    task = replace(LOCAL_TASK, batch=len(rows))
    order = order_of(one, task.stream)
    inputs, labels = rows.inputs[order], rows.labels[order]
    middle, block = len(rows) // 2, list(net.parameters())
    first = torch.autograd.grad(cross_entropy(net(inputs[:middle]), labels[:middle]), block)
    with torch.no_grad():
        for each, gradient in zip(block, first, strict=True):
            each.sub_(0.05 * gradient)
    second = torch.autograd.grad(cross_entropy(net(inputs[middle:]), labels[middle:]), block)
    wanted = -task.learning_rate * torch.cat([each.flatten() for each in second])
    found = one.run_task("learn", task, {"model": start}).delta
    assert torch.allclose(found, wanted, atol=1e-6)


def order_of(one: NetworkClientTask, stream: str) -> Tensor:
    from parties.common.shared_randomness import derive_key, permutation  # noqa: PLC0415

    named = f"{stream} {one.name} learn"
    return torch.from_numpy(
        permutation(derive_key(0, "batches", named, 0), len(one.client_data.train)).copy()
    )


def test_gpfl_knows_the_client_s_labels() -> None:
    net = build("gpfl")
    assert isinstance(net, GpflNetwork)
    before = net(digits().inputs[:3])
    net.set_label_frequencies(torch.tensor([0, 0, 1]))
    assert not torch.allclose(net(digits().inputs[:3]), before)
