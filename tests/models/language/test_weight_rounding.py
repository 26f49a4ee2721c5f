"""Tests of rounding to few bits and back: by hand, as properties, and on a model."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from models.language.adapters import Lora, adapt
from models.language.errors import LanguageModelError
from models.language.rounding import rounded, rounded_model


def test_four_bits_by_hand() -> None:
    """Steps of 7/7 = 1 in the first channel, 14/7 = 2 in the second; the third stays zero."""
    weight = torch.tensor([[7.0, 3.4, -3.6, 0.2], [-14.0, 2.9, 3.1, 0.9], [0.0, 0.0, 0.0, 0.0]])
    expected = [[7.0, 3.0, -4.0, 0.0], [-14.0, 2.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert rounded(weight, 4).tolist() == expected


def test_groups_have_a_step_each() -> None:
    """Two groups of 2 and a last one of 1: steps 1, 0.1 and 3/7."""
    found = rounded(torch.tensor([[7.0, 3.4, 0.7, 0.34, 3.0]]), 4, group=2)
    torch.testing.assert_close(found, torch.tensor([[7.0, 3.0, 0.7, 0.3, 3.0]]))


def test_eight_bits_by_hand() -> None:
    found = rounded(torch.tensor([[1.27, 0.504, -0.006]]), 8)
    torch.testing.assert_close(found, torch.tensor([[1.27, 0.50, -0.01]]))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    bits=st.sampled_from([8, 4]),
    group=st.sampled_from([None, 1, 3, 64]),
)
def test_the_error_is_half_a_step_and_a_second_time_changes_nothing(seed, bits, group) -> None:
    weight = torch.randn(5, 70, generator=torch.Generator().manual_seed(seed))
    once = rounded(weight, bits, group)
    step = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    assert bool(((once - weight).abs() <= step * 0.5001).all())
    torch.testing.assert_close(rounded(once, bits, group), once, rtol=1e-5, atol=1e-6)


def test_a_model_has_its_linear_weights_rounded_and_no_others(model) -> None:
    before = deepcopy(model.state_dict())
    found = rounded_model(model, 4, group=16)
    changed = {
        name for name, each in found.state_dict().items() if not torch.equal(each, before[name])
    }
    linear = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name != "lm_head"
    }
    assert changed == linear
    assert len(linear) == 14
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    name = "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(found.state_dict()[name], rounded(before[name], 4, 16))


def test_more_bits_are_nearer(model, tokens) -> None:
    with torch.no_grad():
        told = model(input_ids=tokens).logits
        gaps = [
            float((rounded_model(model, bits, group)(input_ids=tokens).logits - told).norm())
            for bits, group in ((8, None), (4, 8), (4, None))
        ]
    assert 0 < gaps[0] < gaps[1] < gaps[2]


def test_bfloat16_stays_bfloat16() -> None:
    assert rounded(torch.ones(2, 2, dtype=torch.bfloat16), 8).dtype == torch.bfloat16


def test_adapters_that_are_not_merged_are_refused(model) -> None:
    with pytest.raises(LanguageModelError, match="not merged"):
        rounded_model(adapt(model, Lora(rank=2), 0), 8)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(2, 2, dtype=torch.int8)])
def test_what_is_no_matrix_of_weights_is_refused(wrong) -> None:
    with pytest.raises(LanguageModelError, match="a matrix of floating-point weights"):
        rounded(wrong, 8)


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(LanguageModelError, match="a group of 0"):
        rounded(torch.ones(2, 2), 4, group=0)
