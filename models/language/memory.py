"""How much memory training or measuring will need, told from the model's config alone.

The parts add up to the peak within a backward pass with AdamW. Activations are counted as torch
keeps them for Llama and its kin with its own attention, which keeps no matrix of all pairs of
tokens; an architecture with other layers needs more or less. Letters: s = bytes of a number in the
model's precision; per token and layer h = hidden, f = intermediate, q and v = columns of all query
and of all value heads; r = rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

from models.language.adapters import Lora, linear_modules
from models.language.loading import PRECISIONS, Precision, Quantisation
from models.language.lora_counts import without_weights

PROCESS = 600_000_000  # bytes of Python and its libraries with nothing loaded
# What passes and what the allocator cannot use again, as a factor of what is kept. Measured on a
# CPU with models of 1 to 20 million weights, so that the total is within a third of the peak.
SLACK = 1.5
_FULL = 4  # bytes of float32, which adapters have in every precision
# Bytes of one quantised weight; 4 bits have one float32 scale for 64 weights.
_QUANTISED: dict[Quantisation, float] = {"int8": 1.0, "int4": 0.5 + 4 / 64}
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is to be trained and how; without ``lora`` every weight is."""

    batch: int  # sequences in one pass, those of all terms of a loss
    length: int  # tokens of the longest
    lora: Lora | None = None
    precision: Precision = "float32"
    quantisation: Quantisation = "none"
    copies: int = 2  # of what is trained: the model received, the update to send
    checkpointing: bool = False  # whether layers are computed again on the way back
    measured: int = 0  # logits at a time in the measurements between lessons

    @property
    def mixed(self) -> bool:
        """Whether weights are in float32, and computed with in bfloat16."""
        return self.lora is None and self.precision == "bfloat16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What a server does with a model: asks it, and may attack a copy of it.

    Attributes:
        learned: what its clients train, with as many copies as the server has vectors of it; its
            ``batch`` is the attacker's.
        batch: sequences asked at a time; 0: none.
        tokens: that are said after the longest prompt.
        rounds: whether weights are rounded, in a copy.
        relearns: whether a copy is taught again.
    """

    learned: Training
    batch: int = 0
    tokens: int = 0
    rounds: bool = False
    relearns: bool = False


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by what needs them."""

    process: int
    weights: int
    gradients: int
    moments: int  # of AdamW, two for every trained number
    copies: int
    activations: int
    logits: int  # logits, their logarithms and gradients: of length x vocabulary

    @property
    def total(self) -> int:
        """The sum of the parts."""
        return sum(getattr(self, field.name) for field in fields(self))

    def sentence(self, available: int | None = None, what: str = "this") -> str:
        """Say the total, rounded up to GB, what there is, and what needs most."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        largest = max(parts, key=lambda name: parts[name])
        most = f"most of it for {largest} ({_gigabytes(parts[largest])} GB)"
        need = f"{what} needs about {_gigabytes(self.total)} GB"
        if available is None:
            return f"{need}, {most}"
        return f"{need}; you have {available / 1e9:.{0 if available >= 1e10 else 1}f}, {most}"


def estimate(config: PreTrainedConfig, training: Training) -> MemoryEstimate:
    """Estimate the peak; no weight is made."""
    model = without_weights(config)
    size = PRECISIONS[training.precision].itemsize
    lora = training.lora
    known = linear_modules(model)
    sides = [(w.shape[1], sum(w.shape)) for name, w in known if lora and name in lora.modules]
    adapters = lora.rank * sum(both for _, both in sides) if lora else 0
    base = sum(parameter.numel() for parameter in model.parameters())
    trained = _FULL * (adapters if lora else base)
    inner = sum(w.numel() for name, w in known if name != "lm_head")
    less = inner * (size - _QUANTISED.get(training.quantisation, size))
    weights = int(size * base - less) + _FULL * adapters
    if training.mixed:
        # All of them in float32, and those of linear maps also as they are computed with.
        weights = _FULL * base + size * sum(w.numel() for _, w in known)
    tokens = training.batch * training.length
    kept = kept_per_token(config, training, [side for side, _ in sides])
    pairs = training.batch * training.length**2  # the mask of padded batches
    numbers = tokens * _of(config, "vocab_size", 0)
    return MemoryEstimate(
        process=PROCESS,
        weights=weights,
        gradients=trained,
        moments=2 * trained,
        copies=training.copies * trained,
        activations=int(SLACK * (tokens * kept + size * pairs)),
        logits=3 * _FULL * max(int(SLACK * numbers), training.measured),
    )


def estimate_measuring(config: PreTrainedConfig, measuring: Measuring) -> MemoryEstimate:
    """Estimate the peak of a server: while it asks or rounds, or while it teaches again."""
    taught = estimate(config, measuring.learned)
    size = PRECISIONS[measuring.learned.precision].itemsize
    length, layers = measuring.learned.length, _of(config, "num_hidden_layers", 1)
    said = measuring.batch * (length + measuring.tokens)
    asked = replace(
        taught,
        gradients=0,
        moments=0,
        copies=taught.copies + measuring.rounds * taught.weights,
        activations=said * layers * 2 * size * _columns(config)[1],  # keys and values
        logits=3 * _FULL * measuring.batch * length * _of(config, "vocab_size", 0),
    )
    again = replace(taught, copies=taught.copies + taught.weights)
    return max(asked, again, key=lambda each: each.total) if measuring.relearns else asked


def available_memory(device: str = "cpu") -> int | None:
    """Bytes that are free on a device, or left to this container; None where nobody says."""
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
    # "max" where the container has no limit of its own.
    bounded = len(limits) == len(_LIMITS) and limits[0].isdecimal()
    return min(free, int(limits[0]) - int(limits[1])) if bounded else free


def kept_per_token(config: PreTrainedConfig, training: Training, inputs: Sequence[int]) -> int:
    """Bytes kept for the backward pass, per token, in all layers; ``inputs`` of adapted maps."""
    size, lora = PRECISIONS[training.precision].itemsize, training.lora
    h, heads = _of(config, "hidden_size", 0), _of(config, "num_attention_heads", 1)
    f, (q, v) = _of(config, "intermediate_size", 4 * h), _columns(config)
    # gate, its SiLU and up; keys and values; queries and their outcome; two norms in float32 with
    # their roots, and the attention's logarithm of each head's sum.
    layer = size * (3 * f + 2 * v + 2 * q) + _FULL * (2 * h + 2 + heads)
    if lora is None:
        # Gradients of weights also need what went into them.
        layer += size * (f + 4 * h)
    if training.mixed:
        # What two norms bring out, and queries and keys before they are turned, in float32.
        layer += size * 2 * h + _FULL * (q + v)
    adapters = 0
    if lora is not None:
        # The input in float32 and the mask of what was dropped, and the r columns between A and B.
        each = _FULL * (2 if lora.dropout else 1)
        adapters = sum(each * side + _FULL * lora.rank for side in inputs)
    layers = _of(config, "num_hidden_layers", 1)
    if training.checkpointing:
        # What goes into each layer, and all of the one that is computed again.
        return (_FULL if training.mixed else size) * h * layers + layer + adapters // layers
    return layer * layers + adapters


def _columns(config: PreTrainedConfig) -> tuple[int, int]:
    """Columns of all query heads, and of all value heads."""
    heads = _of(config, "num_attention_heads", 1)
    width = _of(config, "head_dim", _of(config, "hidden_size", 0) // heads)
    return heads * width, _of(config, "num_key_value_heads", heads) * width


def _of(config: PreTrainedConfig, name: str, otherwise: int) -> int:
    found: Any = getattr(config, name, None)
    return otherwise if found is None else int(found)


def _gigabytes(count: int) -> str:
    return str(ceil(count / 1e9)) if count >= 1e10 else f"{count / 1e9:.1f}"
