"""Tests of adapters: the shared initial A, merging, and trainable tensors by name."""

import math
from copy import deepcopy
from hashlib import sha256

import numpy as np
import pytest
import torch

from models.language.adapters import (
    PROJECTIONS,
    AdapterSettings,
    adapted_modules,
    add_adapters,
    freeze_a,
    initial_a,
    merge_adapters,
)
from models.language.errors import LanguageModelError
from models.language.trainable import (
    VectorLayout,
    make_all_trainable,
    set_trainable,
    trainable_parameters,
    trainable_values,
)
from tests.models.language.logits import logit_gap

SMALL = AdapterSettings(rank=2, alpha=4, dropout=0.0)


def trained(model, seed: int = 3):
    """Return the model with adapters whose B are random."""
    adapted = add_adapters(model, SMALL, seed).train(False)
    generator = torch.Generator().manual_seed(seed)
    set_trainable(
        adapted,
        {
            n: torch.randn(v.shape, generator=generator) / 10
            for n, v in trainable_values(adapted).items()
        },
    )
    return adapted


def test_an_adapted_model_starts_as_its_base(model, tokens) -> None:
    base = deepcopy(model)
    adapted = add_adapters(model, SMALL, seed=3)
    assert logit_gap(adapted, base, tokens) == 0
    assert len(adapted_modules(adapted)) == 2 * len(PROJECTIONS)
    named = trainable_parameters(adapted)
    assert len(named) == 2 * 2 * len(PROJECTIONS)
    assert all(".lora_A.weight" in name or ".lora_B.weight" in name for name in named)


def test_the_initial_a_depends_on_the_seed_alone(model) -> None:
    other = deepcopy(model)
    torch.manual_seed(1)
    first = trainable_values(add_adapters(model, SMALL, seed=3))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = trainable_values(add_adapters(other, SMALL, seed=3))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_initial_a_is_uniform_and_depends_on_module_and_seed() -> None:
    one = initial_a(torch.Size([64, 256]), "a", 3)
    assert one.abs().max() < 1 / 16
    # The variance of U(−b, b) is b²/3; 16,384 draws put its error near 1 %.
    assert float(one.var()) == pytest.approx(1 / 256 / 3, rel=0.05)
    assert not torch.equal(one, initial_a(torch.Size([64, 256]), "b", 3))
    assert not torch.equal(one, initial_a(torch.Size([64, 256]), "a", 4))


def test_the_initial_a_is_the_same_on_every_machine() -> None:
    # NumPy has the same Mersenne Twister; torch uses 32 bits of the seed and 24 of each number.
    own = int.from_bytes(sha256(b"7/q").digest()[:8], "big") >> 1
    drawn = np.random.RandomState(own % 2**32).randint(0, 2**32, 4, dtype=np.uint32)
    expected = (drawn % 2**24) / 2**24 - 0.5  # ±1/√4
    result = initial_a(torch.Size([1, 4]), "q", 7)
    assert result[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_merged_model_equals_the_adapted_model(model, tokens, precision) -> None:
    base = deepcopy(model.to(precision))
    adapted = trained(model)
    merged = merge_adapters(deepcopy(adapted))
    assert not adapted_modules(merged)
    limit = 1e-5 if precision == torch.float32 else 0.05
    assert logit_gap(adapted, merged, tokens) < limit < logit_gap(base, merged, tokens)


def test_merging_adds_the_scaled_product(model) -> None:
    before = model.model.layers[0].mlp.up_proj.weight.detach().clone()
    adapted = trained(model)
    named = trainable_values(adapted)
    stem = "base_model.model.model.layers.0.mlp.up_proj.lora_"
    product = named[stem + "B.weight"] @ named[stem + "A.weight"]
    after = merge_adapters(adapted).model.layers[0].mlp.up_proj.weight
    torch.testing.assert_close(after, before + 2 * product)  # α/r = 4/2


def test_infinite_adapters_are_not_merged(model) -> None:
    adapted = trained(model)
    with torch.no_grad():
        next(iter(trainable_parameters(adapted).values())).fill_(math.inf)
    with pytest.raises(LanguageModelError, match="cannot be merged"):
        merge_adapters(adapted)


def test_a_frozen_a_is_not_trainable(model, tokens) -> None:
    adapted = add_adapters(model, SMALL, seed=3)
    freeze_a(adapted)
    assert all(name.endswith("lora_B.weight") for name in trainable_parameters(adapted))
    adapted(input_ids=tokens, labels=tokens).loss.backward()
    factors = [(n, p) for n, p in adapted.named_parameters() if "lora_" in n]
    assert all((p.grad is None) == (".lora_A." in name) for name, p in factors)


def test_adapting_twice_is_refused(model) -> None:
    adapted = add_adapters(model, SMALL, seed=3)
    with pytest.raises(LanguageModelError, match="has adapters already"):
        add_adapters(adapted, SMALL, seed=3)


def test_an_unknown_module_is_refused_with_the_known_ones(model) -> None:
    with pytest.raises(LanguageModelError, match="no linear module c_attn") as caught:
        add_adapters(model, AdapterSettings(modules=("q_proj", "c_attn")), seed=3)
    assert "down_proj, gate_proj" in caught.value.hint
    assert not adapted_modules(model)


@pytest.mark.parametrize(
    "wrong", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}, {"modules": ()}], ids=str
)
def test_invalid_settings_are_refused(wrong) -> None:
    with pytest.raises(LanguageModelError):
        AdapterSettings(**wrong)


# --- trainable tensors ----------------------------------------------------------------------------


def test_full_tuning_lists_tied_weights_once(model) -> None:
    make_all_trainable(model)
    named = trainable_parameters(model)
    assert "model.embed_tokens.weight" in named
    assert "lm_head.weight" not in named
    # 300·32 embeddings; a layer 2·32² + 2·32·16 + 3·32·48 + 2·32; the last norm 32.
    assert sum(each.numel() for each in named.values()) == 9600 + 2 * 7744 + 32


def test_values_that_are_set_are_returned(model) -> None:
    adapted = trained(model)
    sent = {name: each + 1 for name, each in trainable_values(adapted).items()}
    set_trainable(adapted, sent)
    result = trainable_values(adapted)
    assert list(result) == list(sent)
    assert all(torch.equal(result[name], sent[name]) for name in sent)
    result[next(iter(result))].zero_()  # a copy
    assert torch.equal(next(iter(trainable_values(adapted).values())), next(iter(sent.values())))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda v, name: v.pop(name), "missing in the received values"),
        (lambda v, name: v.update({"zz": v[name]}), "zz is not trainable in this model"),
        (lambda v, name: v.update({name: v[name][:1]}), r"has shape \(1, 32\); expected \(2, 32\)"),
        (lambda v, name: v.update({name: v[name] * math.nan}), "has elements that are not finite"),
    ],
)
def test_values_that_do_not_fit_change_nothing(model, spoil, message) -> None:
    adapted = trained(model)
    before = trainable_values(adapted)
    given = {name: each + 1 for name, each in before.items()}
    spoil(given, next(reversed([n for n in before if n.endswith("q_proj.lora_A.weight")])))
    with pytest.raises(LanguageModelError, match=message):
        set_trainable(adapted, given)
    after = trainable_values(adapted)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_tensors_are_flattened_and_back() -> None:
    named = {"b": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "a": torch.tensor(5.0)}
    layout = VectorLayout.of(named)
    assert layout.flatten(named).tolist() == [1, 2, 3, 4, 5]
    back = layout.unflatten(torch.arange(5.0))
    assert back["b"].tolist() == [[0, 1], [2, 3]]
    assert back["a"].item() == 4
    with pytest.raises(LanguageModelError, match=r"has shape \(4,\), expected \(5,\)"):
        layout.unflatten(torch.arange(4.0))
