"""Losses of data-free distillation (Mimir, GKT), and the scores by which GKT filters images.

Notation of Mimir (paper 003): S = the student, T_R = the teacher of the remaining client, T_F = the
teacher of the leaving client, f = features, ``[rows, l]``, τ = temperature, A_l = attention map of
layer l.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax, normalize, softmax

FeatureSign: TypeAlias = Literal["align", "repel", "orthogonal"]


def feature_loss(student: Tensor, leaving: Tensor, sign: FeatureSign = "align") -> Tensor:
    """Return the feature loss L_F, a scalar averaged over rows.

    ``student`` and ``leaving`` are the features of S and T_F, ``[rows, l]``. Minimising L_F makes
    the features of S and T_F parallel ("align", as in the paper), opposite ("repel") or orthogonal
    ("orthogonal").
    """
    # Mimir (paper 003) Eq 15: L_F = 1 − cos(f_S, f_F); the other signs are variants.
    cosine = cosine_similarity(student, leaving, dim=1)
    match sign:
        case "align":
            return (1 - cosine).mean()
        case "repel":
            return (1 + cosine).mean()
        case _:
            return cosine.square().mean()


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the distillation loss L_K, a scalar averaged over rows.

    ``student`` and ``teacher`` are logits, ``[rows, classes]``.
    """
    # Mimir (paper 003) Eq 16: L_K = τ² KL(T ‖ S).
    log_s, log_t = (log_softmax(logits / temperature, dim=1) for logits in (student, teacher))
    return (log_t.exp() * (log_t - log_s)).sum(dim=1).mean() * temperature**2


def attention_map(activations: Tensor) -> Tensor:
    """Return the attention map of a layer, each row of norm 1, ``[rows, positions]``.

    If ``activations`` are ``[rows, channels, ...]``, their squares are averaged over the channels,
    and each row is then scaled to norm 1. If ``activations`` are ``[rows, positions]``, each row is
    only scaled to norm 1.
    """
    flat = activations.square().mean(dim=1).flatten(1) if activations.dim() > 2 else activations
    return normalize(flat, dim=1)


def attention_loss(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> Tensor:
    """Return the attention loss L_att, a scalar summed over layers.

    ``student`` and ``teacher`` hold the activations of each layer, ``[rows, channels, ...]`` or
    ``[rows, positions]``.
    """
    # Mimir (paper 003) Eq 17, with squared differences, which are smooth at 0.
    pairs = zip(student, teacher, strict=True)
    parts = [(attention_map(a) - attention_map(b)).square().mean() for a, b in pairs]
    return torch.stack(parts).sum() if parts else torch.zeros(())


def leaving_class_probability(logits: Tensor, leaving: Tensor) -> Tensor:
    """Return GKT's filter score, the summed probability of the leaving classes, ``[rows]``.

    ``logits`` are ``[rows, classes]``; ``leaving`` are the indices of the leaving classes,
    ``[leaving]``.
    """
    return softmax(logits, dim=1)[:, leaving].sum(dim=1)


def feature_similarity(staying: Tensor, leaving: Tensor) -> Tensor:
    """Return FedGKT's filter score, the cosine of the features of two clients, ``[rows]``.

    ``staying`` and ``leaving`` are prompted features, ``[rows, l]``.
    """
    # Mimir (paper 003) §VI-A3: cos(f_P,r, f_P,f).
    return cosine_similarity(staying, leaving, dim=1)
