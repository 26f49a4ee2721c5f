"""Quantisation attack: round weights to few bits, to test whether forgotten knowledge returns.

A method that changes weights only slightly can hide knowledge without removing it. Rounding to 8 or
4 bits undoes such small changes, so that the knowledge returns (Zhang et al., arXiv 2410.16454).
The rounding is symmetric and to the nearest step. Each output channel, or each group of inputs in a
channel, has one scale s.
"""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from models.language.adapters import adapted_modules, has_transposed_weight
from models.language.errors import LanguageModelError

Bits: TypeAlias = Literal[8, 4]

GROUP = 64  # inputs that share one scale, as is usual with 4 bits


def round_matrix(weight: Tensor, bits: Bits, group: int | None = None) -> Tensor:
    """Return ``weight`` rounded to 2^b − 1 values per scale, ``[out, in]``.

    ``weight`` is ``[out, in]``; the result has the same type. ``group`` is the number of inputs
    that share a scale; the last group may be smaller. Without ``group`` all inputs of a channel
    share one scale.

    Raises:
        LanguageModelError: ``weight`` is not a floating-point matrix, or ``group`` is less than 1.
    """
    if weight.ndim != 2 or not weight.is_floating_point():
        kind = f"{weight.dtype} {tuple(weight.shape)}"
        raise LanguageModelError(f"only a floating-point matrix can be rounded (got {kind})")
    if group is not None and group < 1:
        raise LanguageModelError(
            f"a group must have 1 or more inputs (got {group})",
            hint=f"use {GROUP}, the usual size",
        )
    parts = torch.split(weight.float(), group or weight.shape[1], dim=1)
    steps = 2 ** (bits - 1) - 1
    return torch.cat([_round_group(part, steps) for part in parts], dim=1).to(weight.dtype)


@torch.no_grad()
def round_weights(model: nn.Module, bits: Bits, group: int | None = None) -> None:
    """Round the linear weights of ``model`` in place.

    Embeddings, norms, biases and the output head are not rounded, as in common quantisation tools;
    the output head may share its weight with the embeddings.

    Raises:
        LanguageModelError: the model has adapters, which would not be rounded, or the model has no
            linear weight to round.
    """
    if adapted_modules(model):
        raise LanguageModelError(
            "the model has adapters, which rounding would leave unchanged",
            hint="merge the adapters first, then round the weights",
        )
    known: Any = model
    head = known.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    count = 0
    for module in model.modules():
        if module is head or not (isinstance(module, nn.Linear) or has_transposed_weight(module)):
            continue
        weight = module.get_parameter("weight")
        if has_transposed_weight(module):
            weight.copy_(round_matrix(weight.T, bits, group).T)
        else:
            weight.copy_(round_matrix(weight, bits, group))
        count += 1
    if not count:
        raise LanguageModelError(
            f"the model ({type(model).__name__}) has no linear weight to round",
            hint="set evaluation.quantise = false, because an unrounded model would show nothing",
        )


def _round_group(part: Tensor, steps: int) -> Tensor:
    # Symmetric round-to-nearest: s = max |w| / (2^(b−1) − 1), w ← s · round(w / s).
    scale = part.abs().amax(dim=1, keepdim=True) / steps
    # A channel of zeros has scale 0 and stays zero.
    safe = torch.where(scale > 0, scale, 1.0)
    return (part / safe).round().clamp(-steps, steps) * safe
