"""Prompted networks: one backbone for all, and for every client a prompt that scales its features.

Letters of Mimir (paper 003): θ = backbone, φ = head, f = features ``[rows, l]``, d_i = the client's
descriptor, P_base = the prompt of all, G_p = the prompt generator, P_i = the client's prompt; d_i,
P_base and P_i are ``[l]``. d_i never leaves its client.

Where to begin the paper does not say, and it decides: with one number all over P_base, attention
finds the same at every entry, P_i is a multiple of P_base, and Eq 8 takes multiples out. Then no
descriptor has a gradient, and the network is one for all. So P_base begins at random, and the
generator so that a descriptor counts from the first round.
"""

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class PromptGenerator(nn.Module):
    """G_p: cross-attention of the descriptor's entries on those of the base prompt.

    It begins with W_Q · W_K = √l_k and W_V · W_proj = 1, where the attention of a normal P_base is
    about d_i, as long as d_i is small.
    """

    def __init__(self, keys: int = 8, values: int = 8) -> None:
        super().__init__()
        query, value = _direction(keys) * keys**0.25, _direction(values)
        self.query, self.key = nn.Parameter(query), nn.Parameter(query.clone())
        self.value, self.projection = nn.Parameter(value), nn.Parameter(value.clone())

    def forward(self, descriptor: Tensor, base: Tensor) -> Tensor:
        """P_i, ``[l]``, of d_i and P_base."""
        # Mimir Eq 7: P_i = P_base + (softmax(Q Kᵀ / √l_k) V W_proj)ᵀ; Q, K and V are [l, width].
        scores = torch.outer(descriptor, base) * (self.query @ self.key) / sqrt(len(self.key))
        values = base * (self.value @ self.projection)
        found: Tensor = base + scores.softmax(dim=1) @ values
        return found


def _direction(width: int) -> Tensor:
    """A random vector of length 1."""
    return normalize(torch.randn(width), dim=0)


def prompted(features: Tensor, prompt: Tensor) -> Tensor:
    """f_P = ‖f‖ (P ∘ f) / ‖P ∘ f‖ (Mimir Eq 8), ``[rows, l]``; a row of zeros stays one."""
    scaled = prompt * features
    sizes = scaled.norm(dim=1, keepdim=True)
    ratio = features.norm(dim=1, keepdim=True) / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    return torch.where(sizes > 0, ratio * scaled, torch.zeros_like(scaled))


class Prompted(nn.Module):
    """Backbone, prompt and head; ``descriptor`` is the client's own."""

    def __init__(self, backbone: nn.Module, head: nn.Linear, generator: PromptGenerator) -> None:
        super().__init__()
        self.backbone, self.head, self.generator = backbone, head, generator
        self.base = nn.Parameter(torch.randn(head.in_features))
        self.descriptor = nn.Parameter(torch.randn(head.in_features))

    def features(self, inputs: Tensor) -> Tensor:
        """f_P, ``[rows, l]``."""
        return self.refined(self.backbone(inputs))

    def refined(self, features: Tensor) -> Tensor:
        """f_P of f."""
        return prompted(features, self.generator(self.descriptor, self.base))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, ``[rows, classes]``."""
        found: Tensor = self.head(self.features(inputs))
        return found
