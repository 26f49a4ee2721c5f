"""Tests of Mimir's prompts."""

import pytest
import torch
from torch import nn

from models.initialisation import build_seeded
from models.prompts import PromptedNetwork, PromptGenerator, apply_prompt


def test_a_prompt_scales_features_and_keeps_their_norm() -> None:
    result = apply_prompt(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0]))
    assert result[0].tolist() == pytest.approx([1.755617, 4.681646], abs=1e-6)
    assert float(result.norm()) == pytest.approx(5.0)


def test_zero_features_stay_zero() -> None:
    features = torch.tensor([[0.0, 0.0], [1.0, 0.0]], requires_grad=True)
    result = apply_prompt(features, torch.tensor([0.0, 1.0]))
    assert result.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    result.sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_equal_descriptors_give_bit_equal_prompts() -> None:
    generator = PromptGenerator()
    nn.init.normal_(generator.projection)
    base, descriptor = torch.rand(6), torch.rand(6)
    first, second = (generator(descriptor.clone(), base) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, generator(descriptor + 1, base))


def test_a_prompt_by_the_formula() -> None:
    """Compute the attention of ``[l, 1]`` queries on ``[l, 1]`` keys entry by entry."""
    generator = PromptGenerator(keys=2, values=3)
    nn.init.normal_(generator.projection)
    d, base = torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0])
    q, k, v = (
        torch.outer(x, w)
        for x, w in ((d, generator.query), (base, generator.key), (base, generator.value))
    )
    expected = base + (q @ k.T / 2**0.5).softmax(dim=1) @ v @ generator.projection
    assert torch.allclose(generator(d, base), expected, atol=1e-6)


def network() -> PromptedNetwork:
    return build_seeded(
        3, lambda: PromptedNetwork(nn.Linear(4, 50), nn.Linear(50, 3), PromptGenerator())
    )


def test_the_initial_attention_is_about_the_descriptor() -> None:
    """E[b exp(tb)] / E[exp(tb)] = t for a normal b; more entries are nearer to t."""
    generator, base = build_seeded(3, PromptGenerator), build_seeded(4, lambda: torch.randn(2_000))  # type: ignore[arg-type,return-value]
    few = torch.linspace(-0.5, 0.5, 2_000)
    result = torch.cat([generator(part, base) - base for part in few.split(2_000)])
    assert torch.allclose(result, few, atol=0.15)


def test_a_descriptor_has_an_effect_from_the_first_round() -> None:
    one, inputs = network(), torch.rand(7, 4)
    before = one(inputs)
    before.square().sum().backward()
    assert one.descriptor.grad is not None
    assert one.descriptor.grad.norm() > 0.01
    with torch.no_grad():
        one.descriptor.neg_()
    assert not torch.allclose(one(inputs), before, atol=0.1)


def test_with_a_constant_base_prompt_no_descriptor_has_an_effect() -> None:
    """The reason for a random start: P_i is a multiple of P_base, and Eq 8 removes multiples."""
    one, inputs = network(), torch.rand(7, 4)
    with torch.no_grad():
        one.base.fill_(1.0)
    result = one(inputs)
    assert torch.allclose(result, one.head(one.backbone(inputs)), atol=1e-5)
    result.square().sum().backward()
    assert one.descriptor.grad is not None
    assert one.descriptor.grad.norm() < 1e-4
