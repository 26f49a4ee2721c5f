"""Low-rank adapters (LoRA, Hu et al., arXiv 2106.09685) on a frozen language model, with peft.

The adapted weight is W + (α/r) B A, with A ``[r, in]`` and B ``[out, r]``; Oblivionis (paper 000)
writes this product as A B and omits the factor α/r. All parties sample the same initial A from a
shared seed, so the parties need not send the initial A. The initial B is zero, so the initial
adapted model equals the base model.
"""

from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from warnings import catch_warnings, filterwarnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from models.initialisation import build_seeded
from models.language.errors import LanguageModelError

# The linear maps of one layer of Llama and similar models.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """Settings of the adapters; the defaults are those of Oblivionis (paper 000)."""

    rank: int = 32  # r
    alpha: int = 64  # α
    dropout: float = 0.05  # share of each adapter's inputs that are dropped in training
    modules: tuple[str, ...] = PROJECTIONS

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            LanguageModelError: a setting is out of its range, or no module is named.
        """
        if self.rank < 1 or self.alpha < 1:
            raise LanguageModelError(
                "the keys 'rank' and 'alpha' of the adapters must be at least 1 "
                f"(got rank = {self.rank} and alpha = {self.alpha})"
            )
        if not 0 <= self.dropout < 1:
            raise LanguageModelError(
                "the key 'dropout' of the adapters must be 0 or more and below 1 "
                f"(got {self.dropout})"
            )
        if not self.modules:
            raise LanguageModelError(
                "adapters need at least one module of the model, but 'modules' is empty",
                hint=f"add a module to the key 'modules', such as {PROJECTIONS[0]}",
            )


def add_adapters(model: PreTrainedModel, settings: AdapterSettings, seed: int) -> PeftModel:
    """Add adapters to ``model`` in place, freeze all other weights, and return the adapted model.

    Raises:
        LanguageModelError: the model lacks a module that ``settings`` names, or has adapters
            already.
    """
    if isinstance(model, PeftModel) or adapted_modules(model):
        raise LanguageModelError("the model has adapters already", hint="load the base model again")
    _check_modules(model, settings)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.modules),
        bias="none",
        task_type="CAUSAL_LM",
    )
    # peft draws from torch's global generator, which is restored; its draws of A are replaced.
    adapted = build_seeded(seed, lambda: _peft_model(model, config))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if ".lora_A." in name:
                parameter.copy_(initial_a(parameter.shape, adapter_name(name), seed))
    return adapted


def initial_a(shape: torch.Size, name: str, seed: int) -> Tensor:
    """Return the initial A of the module ``name``, uniform in ±1/√in, ``[r, in]`` float32.

    ``shape`` is ``(r, in)``. Each name has its own seed and its own generator on the CPU, so A
    depends neither on the order of modules, nor on the device, nor on earlier random numbers.
    """
    own = int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1
    bound = 1 / sqrt(shape[1])
    generator = torch.Generator().manual_seed(own)
    return torch.empty(shape, dtype=torch.float32).uniform_(-bound, bound, generator=generator)


def freeze_a(model: PeftModel) -> None:
    """Freeze every A, so that only B is trained (FFA-LoRA, Sun et al., arXiv 2403.12313)."""
    for name, parameter in model.named_parameters():
        if ".lora_A." in name:
            parameter.requires_grad_(False)


def without_adapters(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """Return ``model`` with its adapters merged, or ``model`` itself if it has none.

    Raises:
        LanguageModelError: a merged weight is not finite.
    """
    return merge_adapters(model) if isinstance(model, PeftModel) else model


def merge_adapters(model: PeftModel) -> PreTrainedModel:
    """Return the base model with (α/r) B A added to its weights.

    ``model`` is changed and cannot be used afterwards. If the weights are bfloat16, the sums are
    rounded to bfloat16.

    Raises:
        LanguageModelError: a merged weight is not finite.
    """
    try:
        merged: PreTrainedModel = model.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise LanguageModelError(
            f"the adapters cannot be merged: {error}",
            hint="the adapters diverged; use the adapters of an earlier round",
        ) from error
    return merged


@torch.no_grad()
def model_logits(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return a model's logits without dropout, ``[batch, length, vocabulary]`` float64.

    ``tokens`` are token ids, ``[batch, length]``.
    """
    mode = model.training
    logits: Tensor = model.eval()(input_ids=tokens).logits
    model.train(mode)
    return logits.double()


def adapter_name(name: str) -> str:
    """Return a parameter's name as in peft's files, which omit the name of the adapter."""
    return name.replace(".lora_A.default.", ".lora_A.").replace(".lora_B.default.", ".lora_B.")


def adapted_modules(model: nn.Module) -> list[str]:
    """Return the names of the modules that have adapters."""
    return [name for name, module in model.named_modules() if hasattr(module, "lora_A")]


def linear_modules(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the name and the weight of every linear layer; a name is the last part of the path.

    Weights are ``[out, in]``, or ``[in, out]`` for Conv1D layers of GPT-2 and similar models.
    """
    return [
        (name.rpartition(".")[2], module.get_parameter("weight"))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) or has_transposed_weight(module)
    ]


def has_transposed_weight(module: nn.Module) -> bool:
    """Return whether a module is a linear layer with weight ``[in, out]``, like Conv1D of GPT-2."""
    return type(module).__name__ == "Conv1D"


def _check_modules(model: nn.Module, settings: AdapterSettings) -> None:
    known = {name for name, _ in linear_modules(model)}
    absent = [name for name in settings.modules if name not in known]
    if absent:
        raise LanguageModelError(
            f"the model has no linear module {', '.join(absent)}",
            hint=f"choose from the modules of this model: {', '.join(sorted(known))}",
        )


def _peft_model(model: PreTrainedModel, config: LoraConfig) -> PeftModel:
    with catch_warnings():
        # peft uses an attribute that transformers has renamed.
        filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        adapted = get_peft_model(model, config)
    if not isinstance(adapted, PeftModel):
        raise TypeError(
            f"the library peft returned a {type(adapted).__name__}; expected a PeftModel"
        )
    return adapted
