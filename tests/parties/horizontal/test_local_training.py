"""Local training compared with the same steps written by hand."""

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

from models.full_networks import full_mlp, lenet5, mimir_cnn, two_convolution_cnn
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
    """Return the change after plain SGD, batch by batch."""
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
def test_training_equals_gradient_descent_by_hand(prox: float) -> None:
    task, model = replace(LOCAL_TASK, epochs=2, proximal=prox), fresh("a")
    update = train_locally(ClientNetwork(network()), ROWS, task, {"model": model}, 0)
    assert torch.allclose(update.delta, by_hand(model, task, prox=prox), atol=1e-6)
    assert (update.rows, update.steps) == (40, 6)


def test_unlearning_loss_and_ascent_raise_the_loss_and_ascent_stops_early() -> None:
    model = (
        fresh("a")
        + train_locally(
            ClientNetwork(network()), ROWS, replace(LOCAL_TASK, epochs=30), {"model": fresh("a")}, 0
        ).delta
    )
    for aim in ("unlearning-loss", "ascent"):
        task = replace(LOCAL_TASK, aim=aim, epochs=20)  # type: ignore[arg-type]
        update = train_locally(ClientNetwork(network()), ROWS, task, {"model": model}, 0)
        assert mean_loss(model + update.delta) > mean_loss(model) + 0.5
        if aim == "ascent":
            assert update.steps < 20 * 3
            assert mean_loss(model + update.delta) < 4 * math.log(10)


def test_fedforget_ascent_ignores_forgotten_rows() -> None:
    """The model predicts class 3 for rows of all other classes, so the loss is already capped."""
    model = fresh("a")
    model[-10:] = 20 * (torch.arange(10) == 3)
    rows = ROWS.take(np.flatnonzero(ROWS.labels.numpy() != 3))
    ascent = replace(LOCAL_TASK, aim="teachers", teacher_mode="ga", teacher_weights=(0.93, 0.245))
    update = train_locally(
        ClientNetwork(network()), rows, ascent, {"model": model, "teacher": model}, 0
    )
    assert float(update.delta.abs().max()) < 1e-6


def test_pseudo_labels_use_the_teacher_s_probabilities() -> None:
    task, model, net = replace(LOCAL_TASK, aim="pseudo-labels", batch=40), fresh("a"), network()
    teacher = 3 * fresh("b")
    update = train_locally(ClientNetwork(net), ROWS, task, {"model": model, "teacher": teacher}, 0)
    vector_to_parameters(teacher.clone(), net.parameters())
    probabilities = net(ROWS.inputs).detach().softmax(dim=1)
    vector_to_parameters(model.clone(), net.parameters())
    loss = cross_entropy(net(ROWS.inputs), probabilities)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    expected = -task.learning_rate * torch.cat([each.flatten() for each in gradients])
    assert torch.allclose(update.delta, expected, atol=1e-6)
    assert update.delta.norm() > 0.01


def test_ewc_ascends_the_loss_and_descends_the_penalty() -> None:
    """One step is θ + η (∇L_ce − λ F (θ − θ_g)), entry by entry."""
    task = replace(LOCAL_TASK, aim="elastic", batch=40, proximal=2.0)
    model, net = fresh("a"), network()
    fisher = torch.linspace(0, 1, len(model))
    slots = {"model": model, "anchor": fresh("b"), "fisher": fisher}
    delta = train_locally(ClientNetwork(net), ROWS, task, slots, 0).delta
    vector_to_parameters(model.clone(), net.parameters())
    loss = cross_entropy(net(ROWS.inputs), ROWS.labels)
    ascent = torch.cat([e.flatten() for e in torch.autograd.grad(loss, list(net.parameters()))])
    assert torch.allclose(delta, 0.1 * (ascent - 2 * fisher * (model - fresh("b"))), atol=1e-6)


def mean_loss(model: Tensor) -> float:
    net = network()
    vector_to_parameters(model.clone(), net.parameters())
    return float(cross_entropy(net(ROWS.inputs), ROWS.labels).detach())


def test_steps_are_limited() -> None:
    assert (
        train_locally(
            ClientNetwork(network()), ROWS, replace(LOCAL_TASK, steps=2), {"model": fresh("a")}, 0
        ).steps
        == 2
    )


def test_training_without_rows_is_refused() -> None:
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
    [
        (lenet5, (1, 28, 28)),
        (two_convolution_cnn, (3, 32, 32)),
        (mimir_cnn, (1, 28, 28)),
        (small_mlp, (1, 28, 28)),
    ],
)
def test_weight_times_layer_inputs_gives_the_layer_outputs(
    build: Callable[[Sequence[int], int], nn.Module], shape: tuple[int, ...]
) -> None:
    net, rows = build(shape, 3), Rows(torch.rand(2, *shape), torch.zeros(2, dtype=torch.int64))
    first, inputs = weight_layers(net)[0], layer_inputs(net, rows)[0]
    flat = first(rows.inputs.flatten(1) if isinstance(first, nn.Linear) else rows.inputs)
    expected = flat.T if flat.dim() == 2 else flat.flatten(2).transpose(0, 1).flatten(1)
    assert first.bias is not None
    assert torch.allclose(
        first.weight.flatten(1) @ inputs + first.bias[:, None], expected, atol=1e-4
    )


def test_kinds_of_rows_of_a_client() -> None:
    test, validation = ROWS.take(np.arange(3)), ROWS.take(np.arange(4))
    client_data = ClientData(ROWS, test, np.array([1, 5]), np.array([5, 7]), validation=validation)
    kinds: list[RowKind] = ["learn", "forgotten", "retained", "test", "validation"]
    assert [len(client_data.of_kind(kind)) for kind in kinds] == [40, 2, 38, 3, 4]
    assert torch.equal(client_data.of_kind("forgotten").labels, ROWS.labels[[1, 5]])
    assert client_data.purge() == 2
    assert (len(client_data.of_kind("learn")), len(client_data.of_kind("forgotten"))) == (38, 0)
    assert torch.equal(client_data.of_kind("planted").labels, ROWS.labels[[7]])


def test_order_of_rows_depends_on_the_client() -> None:
    one, other = (
        NetworkClientTask(name, network(), ClientData(ROWS, ROWS), 0) for name in ("one", "other")
    )
    slots = {"model": fresh("a")}
    deltas = [each.run_task("learn", LOCAL_TASK, slots).delta for each in (one, other, one)]
    assert torch.equal(deltas[0], deltas[2])
    assert not torch.equal(deltas[0], deltas[1])


def test_inputs_of_fewer_rows_than_a_batch() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))
    client = NetworkClientTask("ash", net, ClientData(ROWS.take(np.arange(5)), ROWS), 0)
    model = parameters_to_vector(net.parameters()).detach()
    update = client.run_task("learn", replace(LOCAL_TASK, aim="inputs"), {"model": model})
    assert update.delta.numel() == 5 * (9 + 72)


def test_inputs_belong_to_their_layers_in_any_order_of_the_forward_pass() -> None:
    """By name the valve comes after the head, but in the forward pass it comes before the head."""
    net = GpflNetwork(nn.Flatten(), nn.Linear(64, 10))
    inputs_by_layer = dict(zip(weight_layers(net), layer_inputs(net, ROWS), strict=True))
    head_inputs: list[Tensor] = []
    net.head.register_forward_hook(lambda _layer, inputs, _out: head_inputs.append(inputs[0]))
    net(ROWS.inputs)
    assert torch.equal(inputs_by_layer[net.head], head_inputs[0].T)


def test_proximal_term_excludes_personal_parameters() -> None:
    """The values that the server sends in place of personal parameters have no effect."""
    net, task = network(), replace(LOCAL_TASK, proximal=0.5)
    names = [name for name, _ in net.named_parameters()]
    plan, own = Personalisation(prefixes=(names[-1],)), fresh("own")
    personal = []
    for sent in (0.0, 9.0):
        model = fresh("a")
        model[-10:] = sent
        personal.append(
            train_locally(ClientNetwork(net, plan, own), ROWS, task, {"model": model}, 0).personal
        )
    assert personal[0] is not None
    assert personal[1] is not None
    assert torch.equal(personal[0][-10:], personal[1][-10:])
