"""Low-rank adapters on a frozen language model (Hu et al., arXiv 2106.09685), by peft.

W + (α/r) B A, with A ``[r, in]`` and B ``[out, r]``. Paper 000 writes A B and leaves α/r out.
All parties draw the same first A from a seed that they share, so that it need not be sent; B
begins at zero, so that the adapted model begins as the base.
"""

from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from warnings import catch_warnings, filterwarnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from models.language.errors import LanguageModelError
from models.seeded import seeded

# The linear maps of one layer of Llama and its kin.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """How the adapters are made; the defaults are those of paper 000."""

    rank: int = 32  # r
    alpha: int = 64  # α
    dropout: float = 0.05  # share of each adapter's inputs dropped in training
    modules: tuple[str, ...] = PROJECTIONS

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha < 1:
            raise LanguageModelError(f"rank {self.rank} and alpha {self.alpha} must be 1 or more")
        if not 0 <= self.dropout < 1:
            raise LanguageModelError(f"dropout {self.dropout} must be 0 or more and below 1")
        if not self.modules:
            raise LanguageModelError("adapters on no module", hint=f"such as {PROJECTIONS[0]}")


def adapt(model: PreTrainedModel, lora: Lora, seed: int) -> PeftModel:
    """Put adapters on ``model`` itself and freeze its own weights.

    Raises:
        LanguageModelError: the model has no module of such a name, or is adapted already.
    """
    if isinstance(model, PeftModel) or adapted_modules(model):
        raise LanguageModelError("the model has adapters already", hint="load the base afresh")
    _check_modules(model, lora)
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.modules),
        bias="none",
        task_type="CAUSAL_LM",
    )
    # peft draws from torch's global generator, which is left as it was; its draws are replaced.
    found = seeded(seed, lambda: _put_on(model, settings))
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if ".lora_A." in name:
                parameter.copy_(first_a(parameter.shape, plain_name(name), seed))
    return found


def first_a(shape: torch.Size, name: str, seed: int) -> Tensor:
    """Draw A, ``[r, in]`` float32, uniform within ±1/√in as torch and peft have it.

    Its own generator on the CPU and its own seed for every name: the draw depends on neither
    the order of modules, nor the device, nor anything drawn before.
    """
    own = int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1
    bound = 1 / sqrt(shape[1])
    generator = torch.Generator().manual_seed(own)
    return torch.empty(shape, dtype=torch.float32).uniform_(-bound, bound, generator=generator)


def freeze_a(model: PeftModel) -> None:
    """Leave every A as it is from now on (``FFA-LoRA``, Sun et al., arXiv 2403.12313)."""
    for name, parameter in model.named_parameters():
        if ".lora_A." in name:
            parameter.requires_grad_(False)


def plain(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """The model without adapters: they are merged into it, as ``merge`` does; or as it is."""
    return merge(model) if isinstance(model, PeftModel) else model


def merge(model: PeftModel) -> PreTrainedModel:
    """Add (α/r) B A to the weights and take the adapters off; ``model`` is used up.

    Copy it first to keep it. In bfloat16 the sums are rounded to that.

    Raises:
        LanguageModelError: a sum is not finite.
    """
    try:
        found: PreTrainedModel = model.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise LanguageModelError(
            f"the adapters cannot be merged: {error}", hint="they diverged; take an earlier round"
        ) from error
    return found


@torch.no_grad()
def logits_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Its logits without dropout, ``[batch, length, vocabulary]`` float64."""
    mode = model.training
    found: Tensor = model.eval()(input_ids=tokens).logits
    model.train(mode)
    return found.double()


def plain_name(name: str) -> str:
    """A parameter's name as peft's files have it, without the adapter's own name."""
    return name.replace(".lora_A.default.", ".lora_A.").replace(".lora_B.default.", ".lora_B.")


def adapted_modules(model: nn.Module) -> list[str]:
    """Names of the modules that carry adapters."""
    return [name for name, module in model.named_modules() if hasattr(module, "lora_A")]


def linear_modules(model: nn.Module) -> list[tuple[str, Tensor]]:
    """The last name and the weight of every linear map, Conv1D of GPT-2 and its kin included."""
    return [
        (name.rpartition(".")[2], module.get_parameter("weight"))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) or is_turned(module)
    ]


def is_turned(module: nn.Module) -> bool:
    """Whether it is a linear map whose weight lies as ``[in, out]``: Conv1D of GPT-2."""
    return type(module).__name__ == "Conv1D"


def _check_modules(model: nn.Module, lora: Lora) -> None:
    known = {name for name, _ in linear_modules(model)}
    absent = [name for name in lora.modules if name not in known]
    if absent:
        raise LanguageModelError(
            f"the model has no linear module {', '.join(absent)}",
            hint=f"this model has {', '.join(sorted(known))}",
        )


def _put_on(model: PreTrainedModel, settings: LoraConfig) -> PeftModel:
    with catch_warnings():
        # peft asks transformers by a name that the latter gave another.
        filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        found = get_peft_model(model, settings)
    if not isinstance(found, PeftModel):
        raise TypeError(f"peft made a {type(found).__name__}")
    return found
