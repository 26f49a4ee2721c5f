"""Tests of rounding weights to few bits, by hand, on random matrices and on a model."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from models.language.adapters import AdapterSettings, add_adapters
from models.language.errors import LanguageModelError
from models.language.rounding import round_matrix, round_weights


def test_four_bits_by_hand() -> None:
    """The step is 7/7 = 1 in the first channel and 14/7 = 2 in the second; the third is zero."""
    weight = torch.tensor([[7.0, 3.4, -3.6, 0.2], [-14.0, 2.9, 3.1, 0.9], [0.0, 0.0, 0.0, 0.0]])
    expected = [[7.0, 3.0, -4.0, 0.0], [-14.0, 2.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert round_matrix(weight, 4).tolist() == expected


def test_each_group_has_its_own_step() -> None:
    """Groups of 2, 2 and 1 inputs have steps 1, 0.1 and 3/7."""
    result = round_matrix(torch.tensor([[7.0, 3.4, 0.7, 0.34, 3.0]]), 4, group=2)
    torch.testing.assert_close(result, torch.tensor([[7.0, 3.0, 0.7, 0.3, 3.0]]))


def test_eight_bits_by_hand() -> None:
    result = round_matrix(torch.tensor([[1.27, 0.504, -0.006]]), 8)
    torch.testing.assert_close(result, torch.tensor([[1.27, 0.50, -0.01]]))


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    bits=st.sampled_from([8, 4]),
    group=st.sampled_from([None, 1, 3, 64]),
)
def test_the_error_is_half_a_step_and_rounding_is_idempotent(seed, bits, group) -> None:
    weight = torch.randn(5, 70, generator=torch.Generator().manual_seed(seed))
    once = round_matrix(weight, bits, group)
    step = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    assert bool(((once - weight).abs() <= step * 0.5001).all())
    torch.testing.assert_close(round_matrix(once, bits, group), once, rtol=1e-5, atol=1e-6)


def test_only_linear_weights_of_a_model_are_rounded(model) -> None:
    before = deepcopy(model.state_dict())
    result = deepcopy(model)
    round_weights(result, 4, group=16)
    changed = {
        name for name, each in result.state_dict().items() if not torch.equal(each, before[name])
    }
    linear = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name != "lm_head"
    }
    assert changed == linear
    assert len(linear) == 14
    name = "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(result.state_dict()[name], round_matrix(before[name], 4, 16))


@torch.no_grad()
def gap(model, tokens, bits, group) -> float:
    other = deepcopy(model)
    round_weights(other, bits, group)
    return float((other(input_ids=tokens).logits - model(input_ids=tokens).logits).norm())


def test_more_bits_change_the_model_less(model, tokens) -> None:
    gaps = [gap(model, tokens, *how) for how in ((8, None), (4, 8), (4, None))]
    assert 0 < gaps[0] < gaps[1] < gaps[2]


def test_bfloat16_stays_bfloat16() -> None:
    assert round_matrix(torch.ones(2, 2, dtype=torch.bfloat16), 8).dtype == torch.bfloat16


def test_transposed_weights_of_a_gpt2_are_rounded_along_their_inputs() -> None:
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
    assert torch.equal(after[name], round_matrix(before[name].T, 4).T)


def test_a_model_without_a_linear_weight_is_refused() -> None:
    with pytest.raises(LanguageModelError, match="no linear weight to round"):
        round_weights(nn.Sequential(nn.Embedding(4, 2)), 8)


def test_adapters_that_are_not_merged_are_refused(model) -> None:
    with pytest.raises(LanguageModelError, match="has adapters, which rounding"):
        round_weights(add_adapters(model, AdapterSettings(rank=2), 0), 8)


@pytest.mark.parametrize("wrong", [torch.ones(3), torch.ones(2, 2, dtype=torch.int8)])
def test_other_tensors_than_matrices_of_weights_are_refused(wrong) -> None:
    with pytest.raises(LanguageModelError, match="only a floating-point matrix"):
        round_matrix(wrong, 8)


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(LanguageModelError, match=r"1 or more inputs \(got 0\)"):
        round_matrix(torch.ones(2, 2), 4, group=0)
