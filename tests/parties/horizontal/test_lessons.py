"""What a client learns: against the same steps written down by hand."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from clients import LOCAL_TASK, digits, fresh, network
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from models.full_networks import full_mlp, lenet5, two_convolution_cnn
from models.gpfl import GpflNetwork
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.local.fisher import diagonal_fisher, layer_inputs, weight_layers
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.local_training import ClientNetwork, train_locally
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.personalisation import Personalisation
from parties.horizontal.local.rows import ClientData, RowKind, Rows

ROWS = digits().take(np.arange(40))


def small_mlp(shape: Sequence[int], classes: int) -> nn.Module:
    return full_mlp(shape, (8,), classes)


def by_hand(model: Tensor, task: LocalTask, *, prox: float = 0.0) -> Tensor:
    """Plain SGD, batch by batch."""
    net = network()
    vector_to_parameters(model.clone(), net.parameters())
    for epoch in range(task.epochs):
        order = permutation(derive_key(0, "batches", task.stream, epoch), len(ROWS))
        for start in range(0, len(ROWS), task.batch):
            batch = torch.from_numpy(order[start : start + task.batch].copy())
            loss = cross_entropy(net(ROWS.inputs[batch]), ROWS.labels[batch])
            anchor = parameters_to_vector(net.parameters()) - model
            loss = loss + prox / 2 * anchor.square().sum()
            gradients = torch.autograd.grad(loss, list(net.parameters()))
            with torch.no_grad():
                for each, gradient in zip(net.parameters(), gradients, strict=True):
                    each.sub_(task.learning_rate * gradient)
    return parameters_to_vector(net.parameters()).detach() - model


@pytest.mark.parametrize("prox", [0.0, 0.5])
def test_a_lesson_is_plain_descent(prox: float) -> None:
    task, model = replace(LOCAL_TASK, epochs=2, proximal=prox), fresh("a")
    found = train_locally(ClientNetwork(network()), ROWS, task, {"model": model}, 0)
    assert torch.allclose(found.delta, by_hand(model, task, prox=prox), atol=1e-6)
    assert (found.rows, found.steps) == (40, 6)


def test_the_unlearning_loss_lowers_the_true_class_and_ascent_ends_at_a_guess() -> None:
    model = (
        fresh("a")
        + train_locally(
            ClientNetwork(network()), ROWS, replace(LOCAL_TASK, epochs=30), {"model": fresh("a")}, 0
        ).delta
    )
    for aim in ("unlearning-loss", "ascent"):
        task = replace(LOCAL_TASK, aim=aim, epochs=20)  # type: ignore[arg-type]
        found = train_locally(ClientNetwork(network()), ROWS, task, {"model": model}, 0)
        assert mean_loss(model + found.delta) > mean_loss(model) + 0.5
        if aim == "ascent":
            assert found.steps < 20 * 3
            assert mean_loss(model + found.delta) < 4 * math.log(10)


def test_fedforget_s_ascent_lets_rows_go_that_are_forgotten() -> None:
    """All rows but one class's are taken for that class: nothing is left to climb."""
    model = fresh("a")
    model[-10:] = 20 * (torch.arange(10) == 3)
    rows = ROWS.take(np.flatnonzero(ROWS.labels.numpy() != 3))
    ascent = replace(LOCAL_TASK, aim="teachers", teacher_mode="ga", teacher_weights=(0.93, 0.245))
    found = train_locally(
        ClientNetwork(network()), rows, ascent, {"model": model, "teacher": model}, 0
    )
    assert float(found.delta.abs().max()) < 1e-6


def test_pseudo_labels_are_cross_entropy_with_the_teacher_s_chances() -> None:
    task, model, net = replace(LOCAL_TASK, aim="pseudo-labels", batch=40), fresh("a"), network()
    teacher = 3 * fresh("b")
    found = train_locally(ClientNetwork(net), ROWS, task, {"model": model, "teacher": teacher}, 0)
    vector_to_parameters(teacher.clone(), net.parameters())
    chances = net(ROWS.inputs).detach().softmax(dim=1)
    vector_to_parameters(model.clone(), net.parameters())
    loss = cross_entropy(net(ROWS.inputs), chances)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    wanted = -task.learning_rate * torch.cat([each.flatten() for each in gradients])
    assert torch.allclose(found.delta, wanted, atol=1e-6)
    assert found.delta.norm() > 0.01


def test_ewc_climbs_the_loss_and_descends_the_penalty() -> None:
    """One step: θ + η (∇L_ce − λ F (θ − θ_g)), entry by entry."""
    task = replace(LOCAL_TASK, aim="elastic", batch=40, proximal=2.0)
    model, net = fresh("a"), network()
    held = torch.linspace(0, 1, len(model))
    slots = {"model": model, "anchor": fresh("b"), "fisher": held}
    found = train_locally(ClientNetwork(net), ROWS, task, slots, 0).delta
    vector_to_parameters(model.clone(), net.parameters())
    loss = cross_entropy(net(ROWS.inputs), ROWS.labels)
    climb = torch.cat([e.flatten() for e in torch.autograd.grad(loss, list(net.parameters()))])
    assert torch.allclose(found, 0.1 * (climb - 2 * held * (model - fresh("b"))), atol=1e-6)


def mean_loss(model: Tensor) -> float:
    net = network()
    vector_to_parameters(model.clone(), net.parameters())
    return float(cross_entropy(net(ROWS.inputs), ROWS.labels).detach())


def test_a_lesson_has_no_more_steps_than_it_may() -> None:
    assert (
        train_locally(
            ClientNetwork(network()), ROWS, replace(LOCAL_TASK, steps=2), {"model": fresh("a")}, 0
        ).steps
        == 2
    )


def test_nobody_learns_from_nothing() -> None:
    with pytest.raises(ValueError, match="needs at least one row"):
        train_locally(
            ClientNetwork(network()), ROWS.take(np.arange(0)), LOCAL_TASK, {"model": fresh("a")}, 0
        )


def test_fisher_information_by_hand() -> None:
    net, total = network(), torch.zeros(len(fresh("a")))
    vector_to_parameters(fresh("a"), net.parameters())
    for row in range(20):
        loss = cross_entropy(net(ROWS.inputs[row : row + 1]), ROWS.labels[row : row + 1])
        gradient = torch.autograd.grad(loss, list(net.parameters()))
        total += torch.cat([each.flatten() for each in gradient]).square()
    assert torch.allclose(diagonal_fisher(net, ROWS.take(np.arange(20))), total / 20, atol=1e-7)


@pytest.mark.parametrize(
    ("build", "shape"),
    [(lenet5, (1, 28, 28)), (two_convolution_cnn, (3, 32, 32)), (small_mlp, (1, 28, 28))],
)
def test_a_layer_s_outputs_are_its_weight_times_the_inputs_that_are_told(
    build: Callable[[Sequence[int], int], nn.Module], shape: tuple[int, ...]
) -> None:
    net, rows = build(shape, 3), Rows(torch.rand(2, *shape), torch.zeros(2, dtype=torch.int64))
    first, given = weight_layers(net)[0], layer_inputs(net, rows)[0]
    flat = first(rows.inputs.flatten(1) if isinstance(first, nn.Linear) else rows.inputs)
    wanted = flat.T if flat.dim() == 2 else flat.flatten(2).transpose(0, 1).flatten(1)
    assert first.bias is not None
    assert torch.allclose(first.weight.flatten(1) @ given + first.bias[:, None], wanted, atol=1e-4)


def test_a_client_s_kinds_of_rows() -> None:
    held, validation = ROWS.take(np.arange(3)), ROWS.take(np.arange(4))
    client_data = ClientData(ROWS, held, np.array([1, 5]), np.array([5, 7]), validation=validation)
    kinds: list[RowKind] = ["learn", "forgotten", "retained", "test", "validation"]
    assert [len(client_data.of_kind(kind)) for kind in kinds] == [40, 2, 38, 3, 4]
    assert torch.equal(client_data.of_kind("forgotten").labels, ROWS.labels[[1, 5]])
    assert client_data.purge() == 2
    assert (len(client_data.of_kind("learn")), len(client_data.of_kind("forgotten"))) == (38, 0)
    assert torch.equal(client_data.of_kind("planted").labels, ROWS.labels[[7]])


def test_the_order_of_rows_is_the_client_s_own() -> None:
    one, other = (
        NetworkClientTask(name, network(), ClientData(ROWS, ROWS), 0) for name in ("one", "other")
    )
    slots = {"model": fresh("a")}
    found = [each.run_task("learn", LOCAL_TASK, slots).delta for each in (one, other, one)]
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def test_a_client_with_fewer_rows_than_a_batch_tells_as_many_inputs_of_every_layer() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))
    learner = NetworkClientTask("ash", net, ClientData(ROWS.take(np.arange(5)), ROWS), 0)
    model = parameters_to_vector(net.parameters()).detach()
    told = learner.run_task("learn", replace(LOCAL_TASK, aim="inputs"), {"model": model})
    assert told.delta.numel() == 5 * (9 + 72)


def test_inputs_stand_beside_their_layers_whatever_the_order_of_a_row() -> None:
    """The valve comes after the head by name, and before it on a row's way."""
    net = GpflNetwork(nn.Flatten(), nn.Linear(64, 10))
    found = dict(zip(weight_layers(net), layer_inputs(net, ROWS), strict=True))
    split: list[Tensor] = []
    net.head.register_forward_hook(lambda _layer, given, _out: split.append(given[0]))
    net(ROWS.inputs)
    assert torch.equal(found[net.head], split[0].T)


def test_the_proximal_term_leaves_the_client_s_own_alone() -> None:
    """What the server sends in their places is nobody's."""
    net, task = network(), replace(LOCAL_TASK, proximal=0.5)
    names = [name for name, _ in net.named_parameters()]
    plan, own = Personalisation(prefixes=(names[-1],)), fresh("own")
    found = []
    for garbage in (0.0, 9.0):
        model = fresh("a")
        model[-10:] = garbage
        found.append(
            train_locally(ClientNetwork(net, plan, own), ROWS, task, {"model": model}, 0).personal
        )
    assert found[0] is not None
    assert found[1] is not None
    assert torch.equal(found[0][-10:], found[1][-10:])
