"""Mimir's and GKT's losses for distillation without data, and which images pass a gate.

Letters (paper 003): S = the student, T_R = the teacher of the client that stays, T_F = that of the
client that leaves, f = features ``[rows, l]``, τ = temperature, A_l = a layer's attention map.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax, normalize, softmax

Sign: TypeAlias = Literal["align", "repel", "orthogonal"]


def feature_loss(student: Tensor, leaving: Tensor, sign: Sign = "align") -> Tensor:
    """L_F, a mean over rows: 1 − cos(f_S, f_F) (Eq 15), or what keeps the student away from T_F."""
    cosine = cosine_similarity(student, leaving, dim=1)
    match sign:
        case "align":
            return (1 - cosine).mean()
        case "repel":
            return (1 + cosine).mean()
        case _:
            return cosine.square().mean()


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """L_K: KL(T ‖ S) τ² of ``[rows, classes]`` logits, a mean over rows (Eq 16)."""
    log_s, log_t = (log_softmax(each / temperature, dim=1) for each in (student, teacher))
    return (log_t.exp() * (log_t - log_s)).sum(dim=1).mean() * temperature**2


def attention(activations: Tensor) -> Tensor:
    """The map of a layer, ``[rows, places]``: mean of squares over channels, of norm 1 each."""
    flat = activations.square().mean(dim=1).flatten(1) if activations.dim() > 2 else activations
    return normalize(flat, dim=1)


def attention_loss(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> Tensor:
    """L_att: the maps' mean squared differences, summed over layers (Eq 17, squared at 0)."""
    pairs = zip(student, teacher, strict=True)
    parts = [(attention(a) - attention(b)).square().mean() for a, b in pairs]
    return torch.stack(parts).sum() if parts else torch.zeros(())


def class_chance(logits: Tensor, leaving: Tensor) -> Tensor:
    """GKT's gate, ``[rows]``: the chance of the leaving classes, whose indices these are."""
    return softmax(logits, dim=1)[:, leaving].sum(dim=1)


def feature_likeness(staying: Tensor, leaving: Tensor) -> Tensor:
    """FedGKT's gate, ``[rows]``: cos(f_P,r, f_P,f), of features ``[rows, l]`` (§VI-A3)."""
    return cosine_similarity(staying, leaving, dim=1)
