"""Tests of the memory estimate: its parts by hand, what torch keeps, and the peak of a process."""

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from models.language.adapters import Lora, adapt, adapted_modules, linear_modules
from models.language.loading import PRECISIONS
from models.language.lora_counts import public_configs
from models.language.memory import (
    PROCESS,
    MemoryEstimate,
    Training,
    available_memory,
    estimate,
    kept_per_token,
)
from models.language.trainable import spare_activations
from models.torchvision_ops import declare_absent

CONFIG = LlamaConfig(
    vocab_size=500,
    hidden_size=64,
    intermediate_size=176,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    tie_word_embeddings=True,
)


def test_the_parts_of_a_billion_by_hand() -> None:
    """Llama-3.2-1B in bfloat16: adapters in float32, two moments, what was received and is sent."""
    config = public_configs()["Llama-3.2-1B"]
    found = estimate(config, Training(batch=1, length=1, lora=Lora(), precision="bfloat16"))
    assert found.weights == 2 * 1_235_814_400 + 4 * 22_544_384
    assert found.gradients == 4 * 22_544_384
    assert found.moments == found.copies == 2 * found.gradients
    mixed = estimate(config, Training(batch=1, length=1, precision="bfloat16"))
    linear = 973_078_528 + 2048 * 128_256  # the head is tied, and computed with in bfloat16
    assert mixed.weights == 4 * 1_235_814_400 + 2 * linear
    assert mixed.gradients == 4 * 1_235_814_400
    full = estimate(config, Training(batch=1, length=1))
    assert full.weights == full.gradients == 4 * 1_235_814_400
    assert full.moments == 8 * 1_235_814_400


def test_quantised_weights_take_a_byte_or_a_half() -> None:
    """973,078,528 weights of linear maps; embeddings and norms stay in bfloat16."""
    config, lora = public_configs()["Llama-3.2-1B"], Lora()
    inner, adapters = 973_078_528, 4 * 22_544_384
    sizes = {
        kind: estimate(
            config,
            Training(batch=1, length=1, lora=lora, precision="bfloat16", quantisation=kind),
        ).weights
        for kind in ("int8", "int4")
    }
    rest = 2 * (1_235_814_400 - inner) + adapters
    assert sizes == {"int8": rest + inner, "int4": rest + inner * 9 // 16}


def test_the_sentence() -> None:
    parts = MemoryEstimate(600_000_000, 5 * 10**9, 0, 0, 0, 15 * 10**9 + 1, 10**9)
    most = "most of it for activations (16 GB)"
    assert parts.total == 21_600_000_001
    assert parts.sentence() == f"this needs about 22 GB, {most}"
    assert parts.sentence(16 * 10**9) == f"this needs about 22 GB; you have 16, {most}"
    assert "you have 1.2," in parts.sentence(1_234_000_000)


def kept(model: nn.Module, batch: int, length: int) -> float:
    """Bytes a token that torch keeps for the backward pass, weights left out."""
    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    found: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = torch.ones(batch, length, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.get_base_model().model(tokens) if adapted_modules(model) else model.model(tokens)
    return sum(found.values()) / (batch * length)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("dropout", [None, 0.05], ids=["full", "lora"])
def test_what_torch_keeps(precision, dropout) -> None:
    """Counted and measured agree within a tenth; weights as they are computed with count apart."""
    lora = None if dropout is None else Lora(rank=4, dropout=dropout)
    training = Training(batch=4, length=128, lora=lora, precision=precision)
    model = LlamaForCausalLM(CONFIG).to(PRECISIONS["float32" if training.mixed else precision])
    known = linear_modules(model)
    inputs = [w.shape[1] for name, w in known if lora and name in lora.modules]
    told = kept_per_token(CONFIG, training, inputs)
    casts = 2 * sum(w.numel() for name, w in known if name != "lm_head") if training.mixed else 0
    with torch.autocast("cpu", torch.bfloat16, enabled=training.mixed):
        measured = kept((adapt(model, lora, 0) if lora else model).train(), 4, 128)
    measured -= casts / (4 * 128)
    assert told == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("lora", [None, Lora(rank=4)], ids=["full", "lora"])
def test_layers_computed_again_keep_what_goes_in(precision, lora) -> None:
    """Each further layer costs its input, told and measured."""
    training = Training(batch=4, length=128, lora=lora, precision=precision, checkpointing=True)
    told, measured = [], []
    for layers in (3, 6):
        config = LlamaConfig(**(CONFIG.to_dict() | {"num_hidden_layers": layers}))
        model = LlamaForCausalLM(config)
        model.to(PRECISIONS["float32" if training.mixed else precision])
        inputs = [w.shape[1] for name, w in linear_modules(model) if lora and name in lora.modules]
        told.append(kept_per_token(config, training, inputs))
        model = adapt(model, lora, 0) if lora else model
        spare_activations(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=training.mixed):
            measured.append(kept(model.train(), 4, 128))
    assert told[1] - told[0] == pytest.approx(measured[1] - measured[0], rel=0.1)


def resident(word: str) -> int:
    found = re.search(rf"{word}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def peak_of_a_step(batch: int, length: int) -> int:
    """What one forward and backward step adds, in bytes."""
    model = LlamaForCausalLM(CONFIG)
    tokens = torch.ones(batch, length, dtype=torch.long)
    model(input_ids=tokens[:1, :8], labels=tokens[:1, :8]).loss.backward()  # load what it needs
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    model(input_ids=tokens, labels=tokens).loss.backward()
    return resident("VmHWM") - before


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="NOT RUN, no Linux")
def test_the_peak_of_a_process_within_a_factor_of_two() -> None:
    training = Training(batch=32, length=256)
    told = estimate(CONFIG, training)
    # A process of its own: this one has pages of earlier tests, which a step would use again.
    with ProcessPoolExecutor(1, get_context("spawn"), declare_absent) as pool:
        peak = pool.submit(peak_of_a_step, training.batch, training.length).result()
    new = told.activations + told.logits
    assert new / 2 < peak < new * 2
    assert told.total == PROCESS + told.weights * 6 + new  # one each, two moments, two copies


def test_the_memory_of_this_machine() -> None:
    found = available_memory()
    assert found is None or 10**7 < found < 10**14
