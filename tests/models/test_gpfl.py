"""Tests of GPFL: its loss against the paper's formulas, written again in NumPy on fixed numbers."""

from typing import TypeAlias

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from models.gpfl import GpflNetwork

Array: TypeAlias = NDArray[np.float64]
FEATURES = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-0.5, 1.0, 0.5], [2.0, 1.0, 0.0]])
LABELS = np.array([0, 1, 1, 0])
OWN_LABELS = torch.tensor([0, 0, 0, 1])  # the client's label frequencies are 3/4 and 1/4
WEIGHT = 0.3


def network() -> GpflNetwork:
    """Return a network with fixed parameters, whose backbone returns its inputs."""
    net = GpflNetwork(nn.Identity(), nn.Linear(3, 2), WEIGHT).double()
    with torch.no_grad():
        for number, each in enumerate(net.parameters()):
            each.copy_(torch.sin(3.0 * torch.arange(each.numel()) + number).view_as(each))
    net.set_label_frequencies(OWN_LABELS)
    net.double().freeze_embeddings()
    return net


def array(net: GpflNetwork, name: str) -> Array:
    values: Array = net.get_parameter(name).detach().numpy()
    return values


def valve_half(net: GpflNetwork, half: str, condition: Array) -> Array:
    """LayerNorm(ReLU(Linear(c))): the half of the valve that gives γ, or β."""
    linear = array(net, f"{half}.0.weight") @ condition + array(net, f"{half}.0.bias")
    active = np.maximum(linear, 0)
    normal = (active - active.mean()) / np.sqrt(active.var() + 1e-5)
    return normal * array(net, f"{half}.2.weight") + array(net, f"{half}.2.bias")


def separated(net: GpflNetwork, condition: Array) -> Array:
    gamma, beta = (valve_half(net, half, condition) for half in ("scale", "shift"))
    return np.maximum(FEATURES * (gamma + 1) + beta, 0)


def mean_cross_entropy(logits: Array) -> float:
    log = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return float(-log[np.arange(len(LABELS)), LABELS].mean())


def unit(vectors: Array) -> Array:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def written_again(net: GpflNetwork, frozen: Array) -> tuple[Array, float]:
    """Return the logits and the loss; ``frozen`` are the class embeddings that the server sent."""
    own, common = (
        separated(net, 0.75 * frozen[0] + 0.25 * frozen[1]),
        separated(net, frozen.mean(axis=0)),
    )
    logits = own @ array(net, "head.weight").T + array(net, "head.bias")
    cosines = unit(common) @ unit(array(net, "classes.weight")).T
    distance = np.sqrt(np.square(common - frozen[LABELS]).sum())
    return logits, mean_cross_entropy(logits) + mean_cross_entropy(cosines) + WEIGHT * distance


def computed(net: GpflNetwork) -> tuple[Array, float]:
    inputs = torch.from_numpy(FEATURES)
    loss = net.objective(inputs, torch.from_numpy(LABELS))
    logits: Array = net(inputs).detach().numpy()
    return logits, loss.item()


def test_loss_and_logits_are_those_of_the_paper() -> None:
    net = network()
    logits, loss = written_again(net, array(net, "classes.weight"))
    assert computed(net)[0] == pytest.approx(logits)
    assert computed(net)[1] == pytest.approx(loss)


def test_conditions_stay_fixed_during_a_round() -> None:
    """Only the cosines follow the class embeddings that a step has changed."""
    net = network()
    sent = array(net, "classes.weight").copy()
    with torch.no_grad():
        net.classes.weight.add_(torch.tensor([[1.0, 0.0, -2.0], [0.5, 3.0, 0.0]]))
    logits, loss = written_again(net, sent)
    assert computed(net)[0] == pytest.approx(logits)
    assert computed(net)[1] == pytest.approx(loss)
    net.freeze_embeddings()
    later, _ = written_again(net, array(net, "classes.weight"))
    assert computed(net)[0] == pytest.approx(later)
    assert abs(later - logits).max() > 0.01


def test_the_distance_grows_with_the_batch() -> None:
    """The Frobenius norm of a batch that is there twice is √2 of the batch's."""
    net = network()
    inputs, labels = torch.from_numpy(FEATURES), torch.from_numpy(LABELS)
    twice = net.objective(inputs.repeat(2, 1), labels.repeat(2)).item()
    common = separated(net, array(net, "classes.weight").mean(axis=0))
    distance = np.linalg.norm(common - array(net, "classes.weight")[LABELS])
    assert twice - computed(net)[1] == pytest.approx(WEIGHT * (2**0.5 - 1) * distance)
