"""Base model of a process: its frozen weights, and its trainable weights as one vector."""

from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from math import log
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import models.language  # noqa: F401  sets up transformers and must come before its first import
from configs.language import BaseModelSettings, FullTuning, LanguageAgreement, LoraSettings, Tuning
from models.language.adapters import AdapterSettings as Adapters
from models.language.adapters import adapter_name, add_adapters, freeze_a
from models.language.errors import LanguageModelError
from models.language.loading import load_language_model, load_tokenizer
from models.language.trainable import (
    VectorLayout,
    enable_checkpointing,
    make_all_trainable,
    set_trainable,
    trainable_parameters,
    trainable_values,
)
from parties.common.errors import PolicyError
from parties.common.shared_randomness import torch_seed
from parties.language.engine.errors import translate_model_errors
from parties.language.texts.encoding import TextEncoder, build_encoder
from parties.language.texts.templates import ChatTemplate, PlainTemplate

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, eq=False)
class BaseModel:
    """A language model with its tokenizer and the layout of its trainable weights."""

    # The model; either its adapters or all its weights are trainable.
    model: "PreTrainedModel | PeftModel"
    encoder: TextEncoder  # encoder of texts for this model
    layout: VectorLayout  # positions of the trainable weights in a vector ``[d]``
    initial: Tensor  # trainable weights before the first round, ``[d]``, equal for all parties
    pad_token: int  # id of the padding token
    digest: str  # digest of the base model's files, in hex
    mixed_precision: bool = False  # true if weights are float32 and computations use bfloat16
    # A party must acquire the lock before it uses the model, because the parties of one process
    # share the model.
    lock: RLock = field(default_factory=RLock)

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        return next(self.model.parameters()).device

    @property
    def context_length(self) -> int:
        """Context length of the model in tokens; ``model.length`` if the model has no limit."""
        config: Any = self.model.config
        found = getattr(config.get_text_config(), "max_position_embeddings", None)
        return int(found) if found and found > 0 else self.encoder.longest

    @property
    def uniform_loss(self) -> float:
        """Loss per token, in nats, of a uniform distribution over the vocabulary."""
        config: Any = self.model.config
        return log(config.get_text_config().vocab_size)

    def autocast(self) -> AbstractContextManager[object]:
        """Return a context manager that sets the precision of forward passes."""
        if self.mixed_precision:
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def load(self, vector: Tensor) -> None:
        """Set the trainable weights from a vector ``[d]``.

        Raises:
            LanguageModelError: the vector is not finite, or has another length.
        """
        set_trainable(self.model, self.layout.unflatten(vector))

    def named_tensors(self, vector: Tensor) -> dict[str, Tensor]:
        """Return the weights ``[d]`` and frozen adapter factors as named tensors, of any shape."""
        frozen = {
            adapter_name(name): each.detach().cpu()
            for name, each in self.model.named_parameters()
            if ".lora_" in name and not each.requires_grad
        }
        return self.layout.unflatten(vector) | frozen

    def trainable_vector(self) -> Tensor:
        """Return the current trainable weights, ``[d]`` float32."""
        return self.layout.flatten(trainable_values(self.model)).float()

    def frozen_copy(self, vector: Tensor) -> "PreTrainedModel | PeftModel":
        """Return a copy of the model in evaluation mode, with the weights ``vector``, ``[d]``.

        No weight of the copy is trainable; the model and the copy share the frozen weights.
        """
        shared = {id(each): each for each in self.model.parameters() if not each.requires_grad}
        other = deepcopy(self.model, shared)
        set_trainable(other, self.layout.unflatten(vector))
        return other.requires_grad_(False).eval()


@dataclass(frozen=True, slots=True)
class _CacheKey:
    """All settings on which a base model depends; agreements with equal settings share a model."""

    settings: str
    base: Path
    device: str
    agreement: LanguageAgreement = field(compare=False)


def load_base_model(agreement: LanguageAgreement, base: Path, device: str) -> BaseModel:
    """Load the base model and make the agreed weights trainable; cache the last loaded model.

    Raises:
        DataError: the folder has no usable model.
        PolicyError: the digest of the folder differs from the agreed digest.
    """
    settings = agreement.model_dump_json(include={"model", "tuning", "seed"})
    settings += " checkpointing" * agreement.training.checkpointing
    return _cached(_CacheKey(settings, base.resolve(), device, agreement))


@lru_cache(maxsize=1)
def _cached(key: _CacheKey) -> BaseModel:
    with translate_model_errors():
        return _loaded(key.agreement, key.base, key.device)


def _loaded(agreement: LanguageAgreement, base: Path, device: str) -> BaseModel:
    plan = agreement.model
    # In bfloat16 steps of 1e-5 vanish by rounding, so trainable weights are float32, as adapters.
    mixed = isinstance(agreement.tuning, FullTuning) and plan.precision == "bfloat16"
    precision = "float32" if mixed else plan.precision
    loaded = load_language_model(base, precision, device, plan.quantised)
    if plan.digest not in (None, loaded.digest):
        raise PolicyError(
            f"the base model in {base} has the digest {loaded.digest[:12]}…, but the agreed digest "
            f"is {str(plan.digest)[:12]}…",
            "copy the model folder from the author of the agreement: all parties must use the same "
            "base model",
        )
    model = make_trainable(loaded.model, agreement.tuning, torch_seed(agreement.seed, "adapters"))
    if agreement.training.checkpointing:
        enable_checkpointing(model)
    layout = VectorLayout.of(trainable_parameters(model))
    pad = loaded.tokenizer.pad_token_id
    if not isinstance(pad, int):
        raise LanguageModelError(
            f"{base}: the tokenizer has no padding token", "set pad_token in tokenizer_config.json"
        )
    initial = layout.flatten(trainable_values(model)).float()
    return BaseModel(
        model, _encoder(loaded.tokenizer, plan), layout, initial, pad, loaded.digest, mixed
    )


def load_encoder(agreement: LanguageAgreement, base: Path) -> TextEncoder:
    """Load the encoder of a base model without loading the model.

    Raises:
        DataError: the folder has no usable tokenizer.
    """
    with translate_model_errors():
        return _encoder(load_tokenizer(base), agreement.model)


def _encoder(tokenizer: "PreTrainedTokenizerBase", plan: BaseModelSettings) -> TextEncoder:
    return build_encoder(tokenizer, ChatTemplate() if plan.chat else PlainTemplate(), plan.length)


def make_trainable(
    model: "PreTrainedModel", plan: Tuning, seed: int
) -> "PreTrainedModel | PeftModel":
    """Make all weights trainable, or add adapters; ``seed`` initialises the adapters' factors A."""
    if not isinstance(plan, LoraSettings):
        make_all_trainable(model)
        return model
    settings = Adapters(
        rank=plan.rank, alpha=plan.alpha, dropout=plan.dropout, modules=tuple(plan.modules)
    )
    adapted = add_adapters(model, settings, seed)
    if plan.merging == "freeze_A":
        freeze_a(adapted)
    return adapted
