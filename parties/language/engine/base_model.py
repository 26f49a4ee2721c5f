"""The model that a process has laid out: the base with what is taught of it, as one vector."""

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

import models.language  # noqa: F401  before transformers, see there
from configs.language import BaseModel, FullTuning, Language, Lora, Tuning
from models.language.adapters import Lora as Adapters
from models.language.adapters import adapt, freeze_a, plain_name
from models.language.errors import LanguageModelError
from models.language.loading import load_language_model, load_tokenizer
from models.language.trainable import (
    Layout,
    spare_activations,
    trainable,
    tune_all,
    values,
    write,
)
from parties.common.errors import PolicyError
from parties.common.shared_randomness import torch_seed
from parties.language.engine.errors import told
from parties.language.texts.encoding import Encoder, encoder
from parties.language.texts.templates import Chat, Plain

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """A model, its tokenizer's encoder, and how what is taught lies in a vector ``[d]``.

    Attributes:
        start: what is taught before the first round; the same at everybody.
        digest: of the base's files, in hex.
        mixed: whether weights are float32 and computed with in bfloat16.
        alone: held by whoever works with the model: parties in one process share it.
    """

    model: "PreTrainedModel | PeftModel"
    encoder: Encoder
    layout: Layout
    start: Tensor
    pad: int
    digest: str
    mixed: bool = False
    alone: RLock = field(default_factory=RLock)

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return next(self.model.parameters()).device

    @property
    def context(self) -> int:
        """Tokens that the base takes at once; where it does not say, those of a training text."""
        config: Any = self.model.config
        found = getattr(config.get_text_config(), "max_position_embeddings", None)
        return int(found) if found and found > 0 else self.encoder.longest

    @property
    def guess(self) -> float:
        """Nats a token of a uniform guess among the tokens."""
        config: Any = self.model.config
        return log(config.get_text_config().vocab_size)

    def computing(self) -> AbstractContextManager[object]:
        """While the model computes; the backward pass needs it no more."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.mixed else nullcontext()

    def take(self, vector: Tensor) -> None:
        """Become this model.

        Raises:
            LanguageModelError: it is not finite, or of another length.
        """
        write(self.model, self.layout.named(vector))

    def delivered(self, vector: Tensor) -> dict[str, Tensor]:
        """What is taught by its names, with the factors that stay as they were drawn."""
        frozen = {
            plain_name(name): each.detach().cpu()
            for name, each in self.model.named_parameters()
            if ".lora_" in name and not each.requires_grad
        }
        return self.layout.named(vector) | frozen

    def vector(self) -> Tensor:
        """What is taught as it is now, ``[d]`` float32."""
        return self.layout.flat(values(self.model)).float()

    def twin(self, vector: Tensor) -> "PreTrainedModel | PeftModel":
        """A second model beside this one, which nobody teaches; what is frozen, both share."""
        shared = {id(each): each for each in self.model.parameters() if not each.requires_grad}
        other = deepcopy(self.model, shared)
        write(other, self.layout.named(vector))
        return other.requires_grad_(False).eval()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a room depends on; two agreements that agree on it share one."""

    words: str
    base: Path
    device: str
    agreement: Language = field(compare=False)


def furnish(agreement: Language, base: Path, device: str) -> Room:
    """Load the base model and make what is taught of it; the last one is kept.

    Raises:
        DataError: the folder cannot be used.
        PolicyError: it is not the model that was agreed on.
    """
    words = agreement.model_dump_json(include={"model", "tuning", "seed"})
    words += " checkpointing" * agreement.training.checkpointing
    return _furnished(_Wanted(words, base.resolve(), device, agreement))


@lru_cache(maxsize=1)
def _furnished(wanted: _Wanted) -> Room:
    with told():
        return _loaded(wanted.agreement, wanted.base, wanted.device)


def _loaded(agreement: Language, base: Path, device: str) -> Room:
    plan = agreement.model
    # Steps of 1e-5 round away in bfloat16, so what is taught is kept in float32, as adapters are.
    mixed = isinstance(agreement.tuning, FullTuning) and plan.precision == "bfloat16"
    kept = "float32" if mixed else plan.precision
    loaded = load_language_model(base, kept, device, plan.quantised)
    if plan.digest not in (None, loaded.digest):
        raise PolicyError(
            f"the base model in {base} has the digest {loaded.digest[:12]}…, and the one agreed on "
            f"{str(plan.digest)[:12]}…",
            "all begin with one model: copy its folder from whoever wrote the agreement",
        )
    model = tuned(loaded.model, agreement.tuning, torch_seed(agreement.seed, "adapters"))
    if agreement.training.checkpointing:
        spare_activations(model)
    layout = Layout.of(trainable(model))
    pad = loaded.tokenizer.pad_token_id
    if not isinstance(pad, int):
        raise LanguageModelError(f"{base}: the tokenizer has no token to pad with")
    start = layout.flat(values(model)).float()
    return Room(model, _encoder(loaded.tokenizer, plan), layout, start, pad, loaded.digest, mixed)


def reading(agreement: Language, base: Path) -> Encoder:
    """The encoder of a room, without the model.

    Raises:
        DataError: the folder has no tokenizer that can be used.
    """
    with told():
        return _encoder(load_tokenizer(base), agreement.model)


def _encoder(tokenizer: "PreTrainedTokenizerBase", plan: BaseModel) -> Encoder:
    return encoder(tokenizer, Chat() if plan.chat else Plain(), plan.length)


def tuned(model: "PreTrainedModel", plan: Tuning, seed: int) -> "PreTrainedModel | PeftModel":
    """A model of which what was agreed on can be taught; a first A is drawn under ``seed``."""
    if not isinstance(plan, Lora):
        tune_all(model)
        return model
    how = Adapters(
        rank=plan.rank, alpha=plan.alpha, dropout=plan.dropout, modules=tuple(plan.modules)
    )
    adapted = adapt(model, how, seed)
    if plan.merging == "freeze_A":
        freeze_a(adapted)
    return adapted
