"""Tests of adapters: what peft makes of them, the shared first A, merging, and their files."""

import json
import math
import warnings
from copy import deepcopy
from hashlib import sha256

import numpy as np
import pytest
import torch
from peft import PeftModel

from models.language.adapter_files import load_adapters, save_adapters
from models.language.adapters import (
    PROJECTIONS,
    Lora,
    adapt,
    adapted_modules,
    first_a,
    freeze_a,
    merge,
)
from models.language.errors import LanguageModelError
from models.language.trainable import Layout, trainable, tune_all, values, write
from tests.models.language.logits import logit_gap

SMALL = Lora(rank=2, alpha=4, dropout=0.0)


def trained(model, seed: int = 3):
    """Adapters whose B are no longer zero."""
    adapted = adapt(model, SMALL, seed).train(False)
    generator = torch.Generator().manual_seed(seed)
    write(
        adapted,
        {n: torch.randn(v.shape, generator=generator) / 10 for n, v in values(adapted).items()},
    )
    return adapted


def test_an_adapted_model_begins_as_its_base(model, tokens) -> None:
    base = deepcopy(model)
    adapted = adapt(model, SMALL, seed=3)
    assert logit_gap(adapted, base, tokens) == 0
    assert len(adapted_modules(adapted)) == 2 * len(PROJECTIONS)
    named = trainable(adapted)
    assert len(named) == 2 * 2 * len(PROJECTIONS)
    assert all(".lora_A.weight" in name or ".lora_B.weight" in name for name in named)


def test_the_first_a_depends_on_the_seed_alone(model) -> None:
    other = deepcopy(model)
    torch.manual_seed(1)
    first = values(adapt(model, SMALL, seed=3))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = values(adapt(other, SMALL, seed=3))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_first_a_is_uniform_and_not_that_of_another_module_or_seed() -> None:
    one = first_a(torch.Size([64, 256]), "a", 3)
    assert one.abs().max() < 1 / 16
    # The variance of U(−b, b) is b²/3; 16,384 draws put its error near 1 %.
    assert float(one.var()) == pytest.approx(1 / 256 / 3, rel=0.05)
    assert not torch.equal(one, first_a(torch.Size([64, 256]), "b", 3))
    assert not torch.equal(one, first_a(torch.Size([64, 256]), "a", 4))


def test_the_first_a_is_the_same_on_every_machine() -> None:
    # The Mersenne Twister as NumPy has it; torch takes 32 bits of the seed and 24 of every number.
    own = int.from_bytes(sha256(b"7/q").digest()[:8], "big") >> 1
    drawn = np.random.RandomState(own % 2**32).randint(0, 2**32, 4, dtype=np.uint32)
    expected = (drawn % 2**24) / 2**24 - 0.5  # ±1/√4
    found = first_a(torch.Size([1, 4]), "q", 7)
    assert found[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_merged_is_adapted(model, tokens, precision) -> None:
    base = deepcopy(model.to(precision))
    adapted = trained(model)
    merged = merge(deepcopy(adapted))
    assert not adapted_modules(merged)
    limit = 1e-5 if precision == torch.float32 else 0.05
    assert logit_gap(adapted, merged, tokens) < limit < logit_gap(base, merged, tokens)


def test_merging_adds_the_scaled_product(model) -> None:
    before = model.model.layers[0].mlp.up_proj.weight.detach().clone()
    adapted = trained(model)
    named = values(adapted)
    stem = "base_model.model.model.layers.0.mlp.up_proj.lora_"
    product = named[stem + "B.weight"] @ named[stem + "A.weight"]
    after = merge(adapted).model.layers[0].mlp.up_proj.weight
    torch.testing.assert_close(after, before + 2 * product)  # α/r = 4/2


def test_adapters_that_diverged_are_not_merged(model) -> None:
    adapted = trained(model)
    with torch.no_grad():
        next(iter(trainable(adapted).values())).fill_(math.inf)
    with pytest.raises(LanguageModelError, match="cannot be merged"):
        merge(adapted)


def test_a_frozen_a_is_neither_trained_nor_sent(model, tokens) -> None:
    adapted = adapt(model, SMALL, seed=3)
    freeze_a(adapted)
    assert all(name.endswith("lora_B.weight") for name in trainable(adapted))
    adapted(input_ids=tokens, labels=tokens).loss.backward()
    factors = [(n, p) for n, p in adapted.named_parameters() if "lora_" in n]
    assert all((p.grad is None) == (".lora_A." in name) for name, p in factors)


def test_adapting_twice_is_refused(model) -> None:
    adapted = adapt(model, SMALL, seed=3)
    with pytest.raises(LanguageModelError, match="has adapters already"):
        adapt(adapted, SMALL, seed=3)


def test_an_unknown_module_is_refused_with_the_known(model) -> None:
    with pytest.raises(LanguageModelError, match="no linear module c_attn") as caught:
        adapt(model, Lora(modules=("q_proj", "c_attn")), seed=3)
    assert "down_proj, gate_proj" in caught.value.hint
    assert not adapted_modules(model)


@pytest.mark.parametrize(
    "wrong", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}, {"modules": ()}], ids=str
)
def test_settings_that_mean_nothing_are_refused(wrong) -> None:
    with pytest.raises(LanguageModelError):
        Lora(**wrong)


# --- what is trained ------------------------------------------------------------------------------


def test_full_tuning_lists_tied_weights_once(model) -> None:
    tune_all(model)
    named = trainable(model)
    assert "model.embed_tokens.weight" in named
    assert "lm_head.weight" not in named
    # 300·32 embeddings; a layer 2·32² + 2·32·16 + 3·32·48 + 2·32; the last norm 32.
    assert sum(each.numel() for each in named.values()) == 9600 + 2 * 7744 + 32


def test_what_is_written_is_read(model) -> None:
    adapted = trained(model)
    sent = {name: each + 1 for name, each in values(adapted).items()}
    write(adapted, sent)
    found = values(adapted)
    assert list(found) == list(sent)
    assert all(torch.equal(found[name], sent[name]) for name in sent)
    found[next(iter(found))].zero_()  # a copy
    assert torch.equal(next(iter(values(adapted).values())), next(iter(sent.values())))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda v, name: v.pop(name), "the values lack base_model"),
        (lambda v, name: v.update({"zz": v[name]}), "have no place for zz"),
        (lambda v, name: v.update({name: v[name][:1]}), r"is \(1, 32\) and not \(2, 32\)"),
        (lambda v, name: v.update({name: v[name] * math.nan}), "is not finite"),
    ],
)
def test_values_that_do_not_fit_change_nothing(model, spoil, told) -> None:
    adapted = trained(model)
    before = values(adapted)
    given = {name: each + 1 for name, each in before.items()}
    spoil(given, next(reversed([n for n in before if n.endswith("q_proj.lora_A.weight")])))
    with pytest.raises(LanguageModelError, match=told):
        write(adapted, given)
    after = values(adapted)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_flat_vector_has_its_layout() -> None:
    named = {"b": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "a": torch.tensor(5.0)}
    layout = Layout.of(named)
    assert layout.flat(named).tolist() == [1, 2, 3, 4, 5]
    back = layout.named(torch.arange(5.0))
    assert back["b"].tolist() == [[0, 1], [2, 3]]
    assert back["a"].item() == 4
    with pytest.raises(LanguageModelError, match=r"is \(4,\) and not \(5,\)"):
        layout.named(torch.arange(4.0))


# --- files ----------------------------------------------------------------------------------------


def test_adapters_come_back_and_peft_reads_them(model, tokens, tmp_path) -> None:
    base, again = deepcopy(model), deepcopy(model)
    adapted = trained(model)
    save_adapters(adapted, tmp_path / "adapter", base="a tiny Llama")
    assert logit_gap(adapted, load_adapters(again, tmp_path / "adapter"), tokens) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft's own, see adapt
        theirs = PeftModel.from_pretrained(base, tmp_path / "adapter")
    assert logit_gap(adapted, theirs, tokens) == 0
    told = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == "a tiny Llama"
    assert sorted(path.name for path in (tmp_path / "adapter").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


def test_adapters_that_peft_wrote_are_read(model, tokens, tmp_path) -> None:
    again = deepcopy(model)
    adapted = trained(model)
    adapted.save_pretrained(tmp_path)
    assert logit_gap(adapted, load_adapters(again, tmp_path), tokens) == 0


def test_a_frozen_a_is_in_the_file_too(model, tokens, tmp_path) -> None:
    again = deepcopy(model)
    adapted = trained(model)
    freeze_a(adapted)
    save_adapters(adapted, tmp_path)
    assert logit_gap(adapted, load_adapters(again, tmp_path), tokens) == 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"peft_type": "IA3"}, "'IA3' cannot be read"),
        ({"use_dora": True}, "use_dora is set"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is set"),
        ({"some_new_setting": 1}, "some_new_setting is set"),
        ({"target_modules": "all-linear"}, "no list of names"),
        ({"r": None}, "is no number"),
        ({"r": 3}, "and not"),
    ],
)
def test_other_adapters_are_refused(model, tmp_path, settings, told) -> None:
    again = deepcopy(model)
    save_adapters(trained(model), tmp_path)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(LanguageModelError, match=told):
        load_adapters(again, tmp_path)


def test_adapters_without_safetensors_are_refused(model, tmp_path) -> None:
    again = deepcopy(model)
    with pytest.raises(LanguageModelError, match=r"holds no adapter_config.json"):
        load_adapters(again, tmp_path)
    save_adapters(trained(model), tmp_path)
    (tmp_path / "adapter_model.safetensors").rename(tmp_path / "adapter_model.bin")
    with pytest.raises(LanguageModelError, match="cannot be read") as caught:
        load_adapters(again, tmp_path)
    assert "never pickles" in caught.value.hint
