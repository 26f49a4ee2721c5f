"""Ensembles: each model computes what it would compute alone."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from models.bottoms import mlp
from models.ensemble import Ensemble

RELU = nn.ReLU()
SHAPES = {
    "perceptron": lambda: mlp(5, (7, 6), 3),
    "no hidden layer": lambda: mlp(5, (), 3),
    "one layer twice": lambda: nn.Sequential(
        nn.Linear(5, 4), RELU, nn.Linear(4, 4), RELU, nn.Linear(4, 3)
    ),
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("models", [1, 2, 40])
def test_perceptrons_are_those_of_vmap_bit_for_bit(models: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    networks = [nn.Sequential(mlp(32, (16,), 10)).to(dtype) for _ in range(models)]
    inputs = torch.randn(models, 24, 32, dtype=dtype)
    ensemble = Ensemble.of(networks)
    found, expected = (
        ensemble.part("0", inputs),
        vmap(partial(functional_call, networks[0]))(ensemble.parameters, inputs),
    )
    assert torch.equal(found, expected)
    parameters = ensemble.with_prefix()
    direct, mapped = (
        torch.autograd.grad(each.square().sum(), parameters) for each in (found, expected)
    )
    assert all(map(torch.equal, direct, mapped))
