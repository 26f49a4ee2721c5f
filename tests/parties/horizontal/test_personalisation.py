"""Personalisation: parameters that are sent, parameters that stay, and the effect on accuracy."""

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
    """Return clients with a part of the classes and a network each."""
    return {
        name: NetworkClientTask(name, build(kind), each.client_data, 0, PLANS[kind])
        for name, each in client_tasks(0.4).items()
    }


def trained(kind: str, rounds: int = 10) -> tuple[Tensor, dict[str, NetworkClientTask]]:
    clients = personalised(kind)
    start = parameters_to_vector(build(kind).parameters()).detach()
    task = replace(LOCAL_TASK, epochs=2)
    members = [Member(name) for name in CLIENTS]
    model = run_rounds(
        LocalCohort(clients), start, members, RoundPlan(task, rounds), lambda *_: None
    )
    return model, clients


def mean_test_accuracy(model: Tensor, clients: dict[str, NetworkClientTask]) -> float:
    scores = [each.evaluate("test", model) for each in clients.values()]
    return sum(each.correct for each in scores) / sum(each.rows for each in scores)


def test_personal_models_are_more_accurate_on_different_data() -> None:
    accuracies = {kind: mean_test_accuracy(*trained(kind)) for kind in PLANS}
    assert accuracies["none"] < 0.9
    assert all(accuracies[kind] > accuracies["none"] for kind in PLANS if kind != "none"), (
        accuracies
    )


@pytest.mark.parametrize("kind", ["fedper", "mimir", "gpfl"])
def test_personal_parameters_are_stored_and_never_sent(kind: str) -> None:
    clients = personalised(kind)
    client = clients[CLIENTS[0]]
    own = parameter_mask(client.network, PLANS[kind].prefixes)
    start = parameters_to_vector(build(kind).parameters()).detach()
    start = start + client.run_task("learn", LOCAL_TASK, {"model": start}).delta
    change = client.run_task(
        "learn", LOCAL_TASK, {"model": start}
    ).delta  # Mimir trains its prompt from here on
    assert own.any()
    assert not change[own].any()
    assert change[~own].any()
    assert client.personal is not None
    personal = client.personal[own].clone()
    assert not torch.equal(personal, start[own])
    client.evaluate("test", start)
    loaded = parameters_to_vector(client.network.parameters()).detach()
    assert torch.equal(loaded[own], personal)
    assert torch.equal(loaded[~own], start[~own])


def test_mimir_trains_the_shared_prompt_only_in_the_last_pass() -> None:
    """Without the last pass, generator and base prompt do not change."""
    client = personalised("mimir")[CLIENTS[0]]
    last = parameter_mask(client.network, PLANS["mimir"].last)
    start = parameters_to_vector(build("mimir").parameters()).detach()
    both = client.run_task("learn", LOCAL_TASK, {"model": start}).delta
    assert both[last].any()
    client.personal, client.personalisation = (
        None,
        Personalisation(prefixes=("descriptor", "generator.", "base")),
    )
    first = client.run_task("learn", LOCAL_TASK, {"model": start}).delta
    assert not first[last].any()


def test_per_fedavg_uses_the_second_half_after_a_step_on_the_first() -> None:
    client = personalised("per-fedavg")[CLIENTS[0]]
    net, rows = build("per-fedavg"), client.client_data.train
    start = parameters_to_vector(net.parameters()).detach().clone()
    task = replace(LOCAL_TASK, batch=len(rows))
    order = row_order(client, task.stream)
    inputs, labels = rows.inputs[order], rows.labels[order]
    middle, block = len(rows) // 2, list(net.parameters())
    first = torch.autograd.grad(cross_entropy(net(inputs[:middle]), labels[:middle]), block)
    with torch.no_grad():
        for each, gradient in zip(block, first, strict=True):
            each.sub_(0.05 * gradient)
    second = torch.autograd.grad(cross_entropy(net(inputs[middle:]), labels[middle:]), block)
    expected = -task.learning_rate * torch.cat([each.flatten() for each in second])
    delta = client.run_task("learn", task, {"model": start}).delta
    assert torch.allclose(delta, expected, atol=1e-6)


def row_order(client: NetworkClientTask, stream: str) -> Tensor:
    from parties.common.shared_randomness import derive_key, permutation  # noqa: PLC0415

    stream_name = f"{stream} {client.name} learn"
    return torch.from_numpy(
        permutation(derive_key(0, "batches", stream_name, 0), len(client.client_data.train)).copy()
    )


def test_gpfl_freezes_the_class_embeddings_of_the_model_that_a_client_receives() -> None:
    client = personalised("gpfl")[CLIENTS[0]]
    net = client.network
    assert isinstance(net, GpflNetwork)
    start = parameters_to_vector(net.parameters()).detach() + 0.01
    client.run_task("learn", LOCAL_TASK, {"model": start})
    trained_classes = net.classes.weight.detach().clone()
    frozen = net.get_buffer("_frozen").clone()
    client.evaluate("test", start)
    assert torch.equal(frozen, net.classes.weight)
    assert not torch.equal(trained_classes, frozen)


def test_gpfl_depends_on_the_label_frequencies() -> None:
    net = build("gpfl")
    assert isinstance(net, GpflNetwork)
    before = net(digits().inputs[:3])
    net.set_label_frequencies(torch.tensor([0, 0, 1]))
    assert not torch.allclose(net(digits().inputs[:3]), before)
