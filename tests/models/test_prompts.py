"""Mimir's prompts, by hand."""

import pytest
import torch
from torch import nn

from models.prompts import Prompted, PromptGenerator, prompted
from models.seeded import seeded


def test_a_prompt_scales_features_and_keeps_their_norm() -> None:
    found = prompted(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0]))
    assert found[0].tolist() == pytest.approx([1.755617, 4.681646], abs=1e-6)
    assert float(found.norm()) == pytest.approx(5.0)


def test_features_that_vanish_stay_nothing() -> None:
    features = torch.tensor([[0.0, 0.0], [1.0, 0.0]], requires_grad=True)
    found = prompted(features, torch.tensor([0.0, 1.0]))
    assert found.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    found.sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_clients_with_one_descriptor_have_one_prompt_bit_for_bit() -> None:
    generator = PromptGenerator()
    nn.init.normal_(generator.projection)
    base, descriptor = torch.rand(6), torch.rand(6)
    first, second = (generator(descriptor.clone(), base) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, generator(descriptor + 1, base))


def test_a_prompt_by_the_formula() -> None:
    """Attention of [l, 1] queries on [l, 1] keys, entry by entry."""
    generator = PromptGenerator(keys=2, values=3)
    nn.init.normal_(generator.projection)
    d, base = torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0])
    q, k, v = (
        torch.outer(x, w)
        for x, w in ((d, generator.query), (base, generator.key), (base, generator.value))
    )
    wanted = base + (q @ k.T / 2**0.5).softmax(dim=1) @ v @ generator.projection
    assert torch.allclose(generator(d, base), wanted, atol=1e-6)


def network() -> Prompted:
    return seeded(3, lambda: Prompted(nn.Linear(4, 50), nn.Linear(50, 3), PromptGenerator()))


def test_a_generator_begins_so_that_its_attention_is_about_the_descriptor() -> None:
    """E[b exp(tb)] / E[exp(tb)] = t of a normal b: the more entries, the nearer."""
    generator, base = seeded(3, PromptGenerator), seeded(4, lambda: torch.randn(2_000))  # type: ignore[arg-type,return-value]
    few = torch.linspace(-0.5, 0.5, 2_000)
    found = torch.cat([generator(part, base) - base for part in few.split(2_000)])
    assert torch.allclose(found, few, atol=0.15)


def test_a_descriptor_counts_from_the_first_round() -> None:
    one, inputs = network(), torch.rand(7, 4)
    before = one(inputs)
    before.square().sum().backward()
    assert one.descriptor.grad is not None
    assert one.descriptor.grad.norm() > 0.01
    with torch.no_grad():
        one.descriptor.neg_()
    assert not torch.allclose(one(inputs), before, atol=0.1)


def test_with_one_number_all_over_the_base_no_descriptor_would_count() -> None:
    """Why it begins at random: P_i is a multiple of P_base, and the norm takes multiples out."""
    one, inputs = network(), torch.rand(7, 4)
    with torch.no_grad():
        one.base.fill_(1.0)
    found = one(inputs)
    assert torch.allclose(found, one.head(one.backbone(inputs)), atol=1e-5)
    found.square().sum().backward()
    assert one.descriptor.grad is not None
    assert one.descriptor.grad.norm() < 1e-4
