"""How many numbers low-rank adapters have, exactly, from a model's config alone.

r · Σ (in + out) over the adapted modules of all layers: A is ``[r, in]`` and B ``[out, r]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig

from models.language.adapters import PROJECTIONS, linear_modules
from models.language.errors import LanguageModelError


@dataclass(frozen=True, slots=True)
class LoraCount:
    """Trainable and all numbers of an adapted model (paper 000, Table 1)."""

    adapters: int
    base: int  # a tied weight counts once

    @property
    def model(self) -> int:
        """Base and adapters, which the paper's column "Model" adds up."""
        return self.base + self.adapters

    @property
    def share(self) -> float:
        """The adapters' share of that sum."""
        return self.adapters / self.model

    @property
    def bytes_each_way(self) -> int:
        """What one client sends, or receives, in a round: float32 numbers, framing left out."""
        return 4 * self.adapters


def lora_count(
    config: PreTrainedConfig, rank: int = 32, modules: Sequence[str] = PROJECTIONS
) -> LoraCount:
    """Count for any causal language model; no weight is made.

    Raises:
        LanguageModelError: the model lacks one of the modules.
    """
    model = without_weights(config)
    known = linear_modules(model)
    absent = sorted(set(modules) - {name for name, _ in known})
    if absent:
        raise LanguageModelError(
            f"a {config.model_type} has no linear module {', '.join(absent)}",
            hint=f"it has {', '.join(sorted({name for name, _ in known}))}",
        )
    base = sum(parameter.numel() for parameter in model.parameters())
    sides = (sum(weight.shape) for name, weight in known if name in modules)  # in + out
    return LoraCount(rank * sum(sides), base)


def without_weights(config: PreTrainedConfig) -> nn.Module:
    """Build a causal language model of shapes only, on torch's meta device."""
    with torch.device("meta"):
        made: Any = AutoModelForCausalLM
        found: nn.Module = made.from_config(config, trust_remote_code=False)
    return found


def public_configs() -> dict[str, LlamaConfig]:
    """The shapes of the paper's base models, as their publishers' configs have them."""
    return {
        "Llama-3.2-1B": _llama(2048, 8192, 16, 32, 8, 128256, tied=True),
        "Llama-3.2-3B": _llama(3072, 8192, 28, 24, 8, 128256, tied=True),
        "Llama-3.1-8B": _llama(4096, 14336, 32, 32, 8, 128256, tied=False),
        "Llama-2-7B": _llama(4096, 11008, 32, 32, 32, 32000, tied=False),
    }


def _llama(
    hidden: int,
    between: int,
    layers: int,
    heads: int,
    key_heads: int,
    vocabulary: int,
    *,
    tied: bool,
) -> LlamaConfig:
    """All of these have heads of hidden / heads columns."""
    return LlamaConfig(
        hidden_size=hidden,
        intermediate_size=between,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
    )
