"""Ensembles: each model computes what it would compute alone."""

import pytest
import torch
from torch import nn

from models.bottoms import mlp
from models.ensemble import Ensemble

SHAPES = {
    "perceptron": lambda: mlp(5, (7, 6), 3),
    "no hidden layer": lambda: mlp(5, (), 3),
    "another activation": lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)),
    "no bias": lambda: nn.Sequential(nn.Linear(5, 3, bias=False)),
}


@pytest.mark.parametrize("rows", [(4,), (2, 4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_and_gradients_of_a_part_are_those_of_each_model_alone(
    shape: str, rows: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    networks = [nn.Sequential(SHAPES[shape]()).double() for _ in range(3)]
    inputs = torch.randn(3, *rows, 5, dtype=torch.float64)
    models = Ensemble.of(networks)
    found = models.part("0", inputs)
    alone = [network(own) for network, own in zip(networks, inputs, strict=True)]
    torch.testing.assert_close(found, torch.stack(alone))
    found.square().sum().backward()  # type: ignore[no-untyped-call]
    torch.stack(alone).square().sum().backward()  # type: ignore[no-untyped-call]
    for number, network in enumerate(networks):
        for name, parameter in network.named_parameters():
            gradient = models.parameters[name].grad
            assert gradient is not None
            torch.testing.assert_close(gradient[number], parameter.grad)
