"""Prompted networks: a shared backbone, and for each client a prompt that scales its features.

Notation of Mimir (paper 003): θ = backbone, φ = head, f = features, ``[rows, l]``, d_i = the
client's descriptor, P_base = the shared base prompt, G_p = the prompt generator, P_i = the client's
prompt; d_i, P_base and P_i are ``[l]``. The descriptor d_i never leaves its client.

The paper gives no initial values for P_base and G_p, but not all initial values work. If all
elements of P_base are equal, attention gives the same value for every element, so P_i is a multiple
of P_base, and the normalisation in Eq 8 removes the factor. Then the gradient of every descriptor
is zero, and the network is the same for all clients. Therefore P_base is initialised at random, and
the initial generator is chosen such that a descriptor has an effect from the first round.
"""

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class PromptGenerator(nn.Module):
    """Prompt generator G_p: cross-attention from the elements of d_i to the elements of P_base.

    The initial weights satisfy W_Q · W_K = √l_k and W_V · W_proj = 1. With these weights and a
    P_base sampled from a normal distribution, the attention's output is approximately d_i for small
    d_i.
    """

    def __init__(self, keys: int = 8, values: int = 8) -> None:
        super().__init__()
        query, value = _random_unit_vector(keys) * keys**0.25, _random_unit_vector(values)
        self.query, self.key = nn.Parameter(query), nn.Parameter(query.clone())
        self.value, self.projection = nn.Parameter(value), nn.Parameter(value.clone())

    def forward(self, descriptor: Tensor, base: Tensor) -> Tensor:
        """Return the client's prompt P_i, ``[l]``; d_i and P_base are ``[l]``."""
        # Mimir Eq 7: P_i = P_base + (softmax(Q Kᵀ / √l_k) V W_proj)ᵀ; Q, K and V are [l, width].
        scores = torch.outer(descriptor, base) * (self.query @ self.key) / sqrt(len(self.key))
        values = base * (self.value @ self.projection)
        found: Tensor = base + scores.softmax(dim=1) @ values
        return found


def _random_unit_vector(width: int) -> Tensor:
    return normalize(torch.randn(width), dim=0)


def apply_prompt(features: Tensor, prompt: Tensor) -> Tensor:
    """Return the prompted features f_P, ``[rows, l]``; a row of zeros stays zero.

    ``features`` are ``[rows, l]`` and ``prompt`` is ``[l]``.
    """
    # Mimir Eq 8: f_P = ‖f‖ (P ∘ f) / ‖P ∘ f‖.
    scaled = prompt * features
    sizes = scaled.norm(dim=1, keepdim=True)
    ratio = features.norm(dim=1, keepdim=True) / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    return torch.where(sizes > 0, ratio * scaled, torch.zeros_like(scaled))


class PromptedNetwork(nn.Module):
    """Network with backbone, prompt and head; ``descriptor`` belongs to one client."""

    def __init__(self, backbone: nn.Module, head: nn.Linear, generator: PromptGenerator) -> None:
        super().__init__()
        self.backbone, self.head, self.generator = backbone, head, generator
        self.base = nn.Parameter(torch.randn(head.in_features))
        self.descriptor = nn.Parameter(torch.randn(head.in_features))

    def features(self, inputs: Tensor) -> Tensor:
        """Return the prompted features f_P of ``inputs``, ``[rows, ...] -> [rows, l]``."""
        return self.prompt_features(self.backbone(inputs))

    def prompt_features(self, features: Tensor) -> Tensor:
        """Return the prompted features f_P of the features f, both ``[rows, l]``."""
        return apply_prompt(features, self.generator(self.descriptor, self.base))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of ``inputs``, ``[rows, ...] -> [rows, classes]``."""
        found: Tensor = self.head(self.features(inputs))
        return found
