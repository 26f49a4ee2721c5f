"""Tests of rounding to few bits and back: by hand, as properties, and on a model."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from models.language.adapters import Lora, adapt
from models.language.errors import LanguageModelError
from models.language.rounding import round_weights, rounded


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


@settings(max_examples=50)
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
    found = deepcopy(model)
    round_weights(found, 4, group=16)
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
    name = "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(found.state_dict()[name], rounded(before[name], 4, 16))


@torch.no_grad()
def gap(model, tokens, bits, group) -> float:
    other = deepcopy(model)
    round_weights(other, bits, group)
    return float((other(input_ids=tokens).logits - model(input_ids=tokens).logits).norm())


def test_more_bits_are_nearer(model, tokens) -> None:
    gaps = [gap(model, tokens, *how) for how in ((8, None), (4, 8), (4, None))]
    assert 0 < gaps[0] < gaps[1] < gaps[2]


def test_bfloat16_stays_bfloat16() -> None:
    assert rounded(torch.ones(2, 2, dtype=torch.bfloat16), 8).dtype == torch.bfloat16


def test_a_gpt2_has_its_turned_weights_rounded_along_their_inputs() -> None:
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    )
    before = deepcopy(model.state_dict())
    round_weights(model, 4)
    after = model.state_dict()
    changed = {name for name, each in after.items() if not torch.equal(each, before[name])}
    block = "transformer.h.0"
    parts = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    assert changed == {f"{block}.{part}.weight" for part in parts}
    name = f"{block}.mlp.c_fc.weight"
    assert torch.equal(after[name], rounded(before[name].T, 4).T)


def test_a_model_without_a_linear_weight_has_survived_nothing() -> None:
    with pytest.raises(LanguageModelError, match="no linear weight to round"):
        round_weights(nn.Sequential(nn.Embedding(4, 2)), 8)


def test_adapters_that_are_not_merged_are_refused(model) -> None:
    with pytest.raises(LanguageModelError, match="not merged"):
        round_weights(adapt(model, Lora(rank=2), 0), 8)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(2, 2, dtype=torch.int8)])
def test_what_is_no_matrix_of_weights_is_refused(wrong) -> None:
    with pytest.raises(LanguageModelError, match="a matrix of floating-point weights"):
        rounded(wrong, 8)


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(LanguageModelError, match="a group of 0"):
        rounded(torch.ones(2, 2), 4, group=0)
