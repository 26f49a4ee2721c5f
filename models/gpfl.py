"""GPFL: a small network, the conditional valve, separates global and personal features.

Notation (Zhang et al., ICCV 2023): f = features of the backbone, ``[rows, l]``, C = embeddings of
the classes, ``[classes, l]``, g = mean of the class embeddings, p_i = mean of the class embeddings
weighted by the client's label frequencies. From a condition, g or p_i, the valve computes γ and β;
the separated feature is ReLU((1 + γ) f + β).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize


class GpflNetwork(nn.Module):
    """GPFL network: backbone, valve, class embeddings and the client's own head."""

    def __init__(self, backbone: nn.Module, head: nn.Linear, weight: float = 0.01) -> None:
        super().__init__()
        width, classes = head.in_features, head.out_features
        self.backbone, self.head, self.weight = backbone, head, weight
        self.classes = nn.Embedding(classes, width)
        self.scale, self.shift = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("_frequencies", torch.full((classes,), 1 / classes))

    def set_label_frequencies(self, labels: Tensor) -> None:
        """Set the label frequencies, the weights in p_i, from a client's ``labels``, ``[rows]``."""
        counts = torch.bincount(labels, minlength=self.head.out_features).float()
        self._frequencies = counts / counts.sum().clamp_min(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of ``inputs``, ``[rows, ...] -> [rows, classes]``."""
        own = (self._frequencies[:, None] * self.classes.weight.detach()).sum(dim=0)
        found: Tensor = self.head(self._separate(self.backbone(inputs), own))
        return found

    def objective(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the training loss, a scalar.

        ``inputs`` are ``[rows, ...]`` and ``labels`` are ``[rows]``.
        """
        # Zhang et al., ICCV 2023: cross entropy of the head on personalised features + cross
        # entropy of the cosines of global features with C + weight · mean distance of the global
        # features to the embedding of their class.
        features, embeddings = self.backbone(inputs), self.classes.weight
        own = (self._frequencies[:, None] * embeddings.detach()).sum(dim=0)
        common = self._separate(features, embeddings.detach().mean(dim=0))
        similar = normalize(common, dim=1) @ normalize(embeddings, dim=1).T
        near = (common - embeddings.detach()[labels]).norm(dim=1).mean()
        logits = self.head(self._separate(features, own))
        found: Tensor = cross_entropy(logits, labels) + cross_entropy(similar, labels)
        total: Tensor = found + self.weight * near
        return total

    def _separate(self, features: Tensor, condition: Tensor) -> Tensor:
        given = self.norm(features * 0 + condition)
        found: Tensor = torch.relu((1 + self.scale(given)) * features + self.shift(given))
        return found
