"""Estimate of the memory for training or evaluating a model, from the model's config alone.

The estimate has several parts; their sum is the peak during a backward pass with AdamW. Activations
are counted as torch stores them for Llama and similar models with torch's attention, which does not
store a matrix over all pairs of tokens. For other architectures the estimate may be too high or too
low. Notation: s = bytes per number in the model's precision; per token and layer, h = hidden size,
f = intermediate size, q and v = total width of the query heads and of the value heads; r = rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from models.language.adapters import AdapterSettings, linear_modules
from models.language.loading import PRECISIONS, Precision, Quantisation

PROCESS = 600_000_000  # bytes of Python and its libraries before a model is loaded
# Temporary tensors and unusable memory of the allocator, as a factor of what is kept. Measured on a
# CPU with models of 1 to 20 million weights, so that the total is within a third of the peak.
SLACK = 1.5
_FLOAT32 = 4  # bytes; adapters are float32 in every precision
# Bytes of one quantised weight; at 4 bits, 64 weights share one float32 scale.
_QUANTISED: dict[Quantisation, float] = {"int8": 1.0, "int4": 0.5 + 4 / 64}
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoad:
    """Settings that determine the memory of training; without ``lora`` every weight is trained."""

    batch: int  # sequences in one pass, over all terms of the loss
    length: int  # tokens of the longest sequence
    lora: AdapterSettings | None = None
    precision: Precision = "float32"
    quantisation: Quantisation = "none"
    copies: int = 2  # of the trained numbers: the received model and the update to send
    checkpointing: bool = False  # whether layers are recomputed in the backward pass
    measured: int = 0  # logits held at once by an evaluation between training tasks

    @property
    def mixed(self) -> bool:
        """Whether weights are stored in float32 and used in bfloat16."""
        return self.lora is None and self.precision == "bfloat16"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationLoad:
    """Settings that determine the memory of a server's evaluation."""

    # Settings of the model; ``copies`` is here the number of model vectors that the server stores,
    # and ``batch`` is the batch size of the relearning attack.
    training: TrainingLoad
    batch: int = 0  # number of sequences that are generated together; 0 if none is generated
    tokens: int = 0  # number of tokens that are generated after the longest prompt
    quantises: bool = False  # whether the server quantises a copy of the weights
    relearns: bool = False  # whether the server trains a copy of the model in the relearning attack


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Estimated memory in bytes, by purpose."""

    process: int
    weights: int
    gradients: int
    moments: int  # of AdamW, two for each trained number
    copies: int
    activations: int
    logits: int  # logits, log-probabilities and gradients, each length x vocabulary

    @property
    def total(self) -> int:
        """The estimated memory for all purposes together, in bytes."""
        return sum(getattr(self, field.name) for field in fields(self))

    def sentence(self, available: int | None = None, what: str = "this") -> str:
        """Return a sentence with the total in GB, rounded up, and the purpose that needs most.

        ``what`` is the subject of the sentence. If ``available``, the free memory in bytes, is
        given, the sentence also states this number.
        """
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        largest = max(parts, key=lambda name: parts[name])
        most = f"most of it for {largest} ({_gigabytes(parts[largest])} GB)"
        need = f"{what} needs about {_gigabytes(self.total)} GB"
        if available is None:
            return f"{need}, {most}"
        return f"{need}; you have {available / 1e9:.{0 if available >= 1e10 else 1}f}, {most}"


def model_without_weights(config: PreTrainedConfig) -> nn.Module:
    """Return a causal language model without weights, on torch's meta device."""
    with torch.device("meta"):
        made: Any = AutoModelForCausalLM
        found: nn.Module = made.from_config(config, trust_remote_code=False)
    return found


def estimate_training(config: PreTrainedConfig, training: TrainingLoad) -> MemoryEstimate:
    """Return the estimated peak memory of a training run; no weight is allocated."""
    model = model_without_weights(config)
    size = PRECISIONS[training.precision].itemsize
    lora = training.lora
    known = linear_modules(model)
    sides = [(w.shape[1], sum(w.shape)) for name, w in known if lora and name in lora.modules]
    adapters = lora.rank * sum(both for _, both in sides) if lora else 0
    base = sum(parameter.numel() for parameter in model.parameters())
    trained = _FLOAT32 * (adapters if lora else base)
    inner = sum(w.numel() for name, w in known if name != "lm_head")
    less = inner * (size - _QUANTISED.get(training.quantisation, size))
    weights = int(size * base - less) + _FLOAT32 * adapters
    if training.mixed:
        # All weights in float32, and those of linear maps also as bfloat16 copies.
        weights = _FLOAT32 * base + size * sum(w.numel() for _, w in known)
    tokens = training.batch * training.length
    kept = activation_bytes_per_token(config, training, [side for side, _ in sides])
    pairs = training.batch * training.length**2  # the mask of padded batches
    numbers = tokens * _setting(config, "vocab_size", 0)
    return MemoryEstimate(
        process=PROCESS,
        weights=weights,
        gradients=trained,
        moments=2 * trained,
        copies=training.copies * trained,
        activations=int(SLACK * (tokens * kept + size * pairs)),
        logits=3 * _FLOAT32 * max(int(SLACK * numbers), training.measured),
    )


def estimate_evaluation(config: PreTrainedConfig, evaluation: EvaluationLoad) -> MemoryEstimate:
    """Return a server's estimated peak memory while it generates, quantises or trains."""
    trained = estimate_training(config, evaluation.training)
    size = PRECISIONS[evaluation.training.precision].itemsize
    length, layers = evaluation.training.length, _setting(config, "num_hidden_layers", 1)
    generated = evaluation.batch * (length + evaluation.tokens)
    generating = replace(
        trained,
        gradients=0,
        moments=0,
        copies=trained.copies + evaluation.quantises * trained.weights,
        activations=generated * layers * 2 * size * _columns(config)[1],  # keys and values
        logits=3 * _FLOAT32 * evaluation.batch * length * _setting(config, "vocab_size", 0),
    )
    relearning = replace(trained, copies=trained.copies + trained.weights)
    if not evaluation.relearns:
        return generating
    return max(generating, relearning, key=lambda each: each.total)


def available_memory(device: str = "cpu") -> int | None:
    """Return the free memory in bytes of a device or of this container; None if unknown."""
    if torch.device(device).type == "cuda":
        if not torch.cuda.is_available():
            return None
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line)
        limits = [path.read_text().strip() for path in _LIMITS if path.exists()]
    except (OSError, ValueError, StopIteration):
        return None
    # The limit is "max" if the container has none.
    bounded = len(limits) == len(_LIMITS) and limits[0].isdecimal()
    return min(free, int(limits[0]) - int(limits[1])) if bounded else free


def activation_bytes_per_token(
    config: PreTrainedConfig, training: TrainingLoad, inputs: Sequence[int]
) -> int:
    """Return the bytes per token that all layers store for the backward pass.

    ``inputs`` holds the input width of each linear layer with an adapter.
    """
    size, lora = PRECISIONS[training.precision].itemsize, training.lora
    h, heads = _setting(config, "hidden_size", 0), _setting(config, "num_attention_heads", 1)
    f, (q, v) = _setting(config, "intermediate_size", 4 * h), _columns(config)
    # gate, its SiLU and up; keys and values; queries and the attention's output; two norms in
    # float32 with their roots, and the attention's logarithm of each head's sum.
    layer = size * (3 * f + 2 * v + 2 * q) + _FLOAT32 * (2 * h + 2 + heads)
    if lora is None:
        # The gradients of weights also need the inputs of the linear maps.
        layer += size * (f + 4 * h)
    if training.mixed:
        # The outputs of two norms, and queries and keys before the rotation, in float32.
        layer += size * 2 * h + _FLOAT32 * (q + v)
    adapters = 0
    if lora is not None:
        # The input in float32 and the dropout mask, and the r columns between A and B.
        per_input = _FLOAT32 * (2 if lora.dropout else 1)
        adapters = sum(per_input * side + _FLOAT32 * lora.rank for side in inputs)
    layers = _setting(config, "num_hidden_layers", 1)
    if training.checkpointing:
        # The input of each layer, and everything of the one layer that is recomputed.
        return (_FLOAT32 if training.mixed else size) * h * layers + layer + adapters // layers
    return layer * layers + adapters


def _columns(config: PreTrainedConfig) -> tuple[int, int]:
    """Return the columns of all query heads, and of all value heads."""
    heads = _setting(config, "num_attention_heads", 1)
    width = _setting(config, "head_dim", _setting(config, "hidden_size", 0) // heads)
    return heads * width, _setting(config, "num_key_value_heads", heads) * width


def _setting(config: PreTrainedConfig, name: str, default: int) -> int:
    found: Any = getattr(config, name, None)
    return default if found is None else int(found)


def _gigabytes(count: int) -> str:
    return str(ceil(count / 1e9)) if count >= 1e10 else f"{count / 1e9:.1f}"
