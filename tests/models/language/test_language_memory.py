"""Tests of the memory estimate: its parts by hand, torch's own memory, the peak of a process."""

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from models.language.adapters import (
    PROJECTIONS,
    AdapterSettings,
    adapted_modules,
    add_adapters,
    linear_modules,
)
from models.language.loading import PRECISIONS
from models.language.memory import (
    PROCESS,
    MemoryEstimate,
    TrainingLoad,
    activation_bytes_per_token,
    available_memory,
    estimate_training,
)
from models.language.trainable import enable_checkpointing
from models.torchvision_ops import declare_missing_operators
from tests.models.language.llama_configs import paper_configs

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
    """Llama-3.2-1B in bfloat16 with adapters in float32, two moments and two copies."""
    config = paper_configs()["Llama-3.2-1B"]
    result = estimate_training(
        config, TrainingLoad(batch=1, length=1, lora=AdapterSettings(), precision="bfloat16")
    )
    assert result.weights == 2 * 1_235_814_400 + 4 * 22_544_384
    assert result.gradients == 4 * 22_544_384
    assert result.moments == result.copies == 2 * result.gradients
    mixed = estimate_training(config, TrainingLoad(batch=1, length=1, precision="bfloat16"))
    linear = 973_078_528 + 2048 * 128_256  # the head is tied and has a bfloat16 copy
    assert mixed.weights == 4 * 1_235_814_400 + 2 * linear
    assert mixed.gradients == 4 * 1_235_814_400
    full = estimate_training(config, TrainingLoad(batch=1, length=1))
    assert full.weights == full.gradients == 4 * 1_235_814_400
    assert full.moments == 8 * 1_235_814_400


@pytest.mark.parametrize(
    ("name", "adapters", "base", "percent"),
    [
        ("Llama-3.2-1B", 22_544_384, 1_235_814_400, 1.79),
        ("Llama-3.2-3B", 48_627_712, 3_212_749_824, 1.49),
        ("Llama-3.1-8B", 83_886_080, 8_030_261_248, 1.03),
        ("Llama-2-7B", 79_953_920, 6_738_415_616, 1.17),
    ],
)
def test_the_numbers_of_parameters_in_the_paper(
    name: str, adapters: int, base: int, percent: float
) -> None:
    """Table 1 of paper 000, at rank 32; its column "Model" includes the adapters."""
    training = TrainingLoad(batch=1, length=1, lora=AdapterSettings(rank=32))
    result = estimate_training(paper_configs()[name], training)
    assert result.gradients == 4 * adapters
    assert result.weights == 4 * (base + adapters)
    assert round(100 * adapters / (base + adapters), 2) == percent


@pytest.mark.parametrize("modules", [("q_proj",), ("k_proj", "down_proj"), PROJECTIONS])
def test_the_number_of_adapter_parameters_is_pefts(model, modules) -> None:
    lora = AdapterSettings(rank=3, modules=modules)
    result = estimate_training(model.config, TrainingLoad(batch=1, length=1, lora=lora))
    trained, total = add_adapters(model, lora, 0).get_nb_trainable_parameters()
    assert result.gradients == 4 * trained
    assert result.weights == 4 * total


def test_quantised_weights_need_a_byte_or_half_a_byte() -> None:
    """973,078,528 weights of linear maps are quantised; embeddings and norms stay in bfloat16."""
    config, lora = paper_configs()["Llama-3.2-1B"], AdapterSettings()
    inner, adapters = 973_078_528, 4 * 22_544_384
    sizes = {
        kind: estimate_training(
            config,
            TrainingLoad(batch=1, length=1, lora=lora, precision="bfloat16", quantisation=kind),
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


def kept_bytes(model: nn.Module, batch: int, length: int) -> float:
    """Return the bytes per token that torch keeps for the backward pass, without weights."""
    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    result: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            result[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = torch.ones(batch, length, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.get_base_model().model(tokens) if adapted_modules(model) else model.model(tokens)
    return sum(result.values()) / (batch * length)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("dropout", [None, 0.05], ids=["full", "lora"])
def test_estimated_activations_agree_with_torch(precision, dropout) -> None:
    """The estimate is within a tenth; bfloat16 copies of weights are counted separately."""
    lora = None if dropout is None else AdapterSettings(rank=4, dropout=dropout)
    training = TrainingLoad(batch=4, length=128, lora=lora, precision=precision)
    model = LlamaForCausalLM(CONFIG).to(PRECISIONS["float32" if training.mixed else precision])
    known = linear_modules(model)
    inputs = [w.shape[1] for name, w in known if lora and name in lora.modules]
    estimated = activation_bytes_per_token(CONFIG, training, inputs)
    casts = 2 * sum(w.numel() for name, w in known if name != "lm_head") if training.mixed else 0
    with torch.autocast("cpu", torch.bfloat16, enabled=training.mixed):
        measured = kept_bytes((add_adapters(model, lora, 0) if lora else model).train(), 4, 128)
    measured -= casts / (4 * 128)
    assert estimated == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("lora", [None, AdapterSettings(rank=4)], ids=["full", "lora"])
def test_recomputed_layers_keep_only_their_input(precision, lora) -> None:
    """With checkpointing each further layer keeps its input, estimated and measured."""
    training = TrainingLoad(batch=4, length=128, lora=lora, precision=precision, checkpointing=True)
    estimated, measured = [], []
    for layers in (3, 6):
        config = LlamaConfig(**(CONFIG.to_dict() | {"num_hidden_layers": layers}))
        model = LlamaForCausalLM(config)
        model.to(PRECISIONS["float32" if training.mixed else precision])
        inputs = [w.shape[1] for name, w in linear_modules(model) if lora and name in lora.modules]
        estimated.append(activation_bytes_per_token(config, training, inputs))
        model = add_adapters(model, lora, 0) if lora else model
        enable_checkpointing(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=training.mixed):
            measured.append(kept_bytes(model.train(), 4, 128))
    assert estimated[1] - estimated[0] == pytest.approx(measured[1] - measured[0], rel=0.1)


def resident(word: str) -> int:
    result = re.search(rf"{word}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert result
    return int(result[1]) << 10


def peak_of_a_step(batch: int, length: int) -> int:
    """Return the bytes that one forward and backward step adds to the process."""
    model = LlamaForCausalLM(CONFIG)
    tokens = torch.ones(batch, length, dtype=torch.long)
    model(input_ids=tokens[:1, :8], labels=tokens[:1, :8]).loss.backward()  # loads libraries
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    model(input_ids=tokens, labels=tokens).loss.backward()
    return resident("VmHWM") - before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="NOT RUN, no Linux")
def test_the_peak_of_a_process_within_a_factor_of_two() -> None:
    training = TrainingLoad(batch=32, length=256)
    estimated = estimate_training(CONFIG, training)
    # In a new process: this one has pages of earlier tests, which a step would reuse.
    with ProcessPoolExecutor(1, get_context("spawn"), declare_missing_operators) as pool:
        peak = pool.submit(peak_of_a_step, training.batch, training.length).result()
    new = estimated.activations + estimated.logits
    assert new / 2 < peak < new * 2
    assert (
        estimated.total == PROCESS + estimated.weights * 6 + new
    )  # weights, gradients, two moments, two copies


def test_the_memory_of_this_machine() -> None:
    result = available_memory()
    assert result is None or 10**7 < result < 10**14
