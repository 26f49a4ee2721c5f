"""Rounding of weights to few bits and back: the attack that asks whether forgetting survives it.

A small change of the weights may hide what was learnt and not remove it; 8 or 4 bits undo small
changes (Zhang et al., arXiv 2410.16454). Symmetric round-to-nearest: s = max |w| / (2^(b−1) − 1),
w ← s · round(w / s), one s for each output channel, or for each group of inputs in it.
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from models.language.adapters import adapted_modules, is_turned
from models.language.errors import LanguageModelError

Bits: TypeAlias = Literal[8, 4]

GROUP = 64  # inputs that share one scale, as is usual with 4 bits


def rounded(weight: Tensor, bits: Bits, group: int | None = None) -> Tensor:
    """Round ``[out, in]`` to 2^b − 1 steps and return it as it was typed.

    Without ``group`` all inputs of a channel share a scale; the last group may be shorter.
    """
    if weight.ndim != 2 or not weight.is_floating_point():
        kind = f"{weight.dtype} {tuple(weight.shape)}"
        raise LanguageModelError(f"a matrix of floating-point weights is rounded, not {kind}")
    if group is not None and group < 1:
        raise LanguageModelError(f"a group of {group} inputs", hint=f"{GROUP} is usual")
    parts = torch.split(weight.float(), group or weight.shape[1], dim=1)
    steps = 2 ** (bits - 1) - 1
    return torch.cat([_rounded(part, steps) for part in parts], dim=1).to(weight.dtype)


@torch.no_grad()
def round_weights(model: nn.Module, bits: Bits, group: int | None = None) -> None:
    """Have the linear weights of ``model`` itself go through ``rounded``; copy it first to keep it.

    Embeddings, norms, biases and the output head stay, as they do in common tools; a head may be
    tied to the embeddings.

    Raises:
        LanguageModelError: the model has adapters, whose base alone would be rounded, or no linear
            weight, so that nothing would have been tried.
    """
    if adapted_modules(model):
        raise LanguageModelError(
            "the model has adapters that are not merged", hint="merge them, then round the weights"
        )
    known: Any = model
    head = known.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    count = 0
    for module in model.modules():
        if module is head or not (isinstance(module, nn.Linear) or is_turned(module)):
            continue
        weight = module.get_parameter("weight")
        if is_turned(module):
            weight.copy_(rounded(weight.T, bits, group).T)
        else:
            weight.copy_(rounded(weight, bits, group))
        count += 1
    if not count:
        raise LanguageModelError(
            f"a {type(model).__name__} has no linear weight to round",
            hint="leave evaluation.quantise out; a model that is as it was has survived nothing",
        )


def _rounded(part: Tensor, steps: int) -> Tensor:
    scale = part.abs().amax(dim=1, keepdim=True) / steps
    # A channel of zeros has scale 0 and stays.
    safe = torch.where(scale > 0, scale, 1.0)
    return (part / safe).round().clamp(-steps, steps) * safe
