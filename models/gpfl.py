"""GPFL: features split into what is common and what is the client's, by a conditional valve.

Letters (Zhang et al., ICCV 2023): f = features ``[rows, l]`` of the backbone, C = embeddings of the
classes, ``[classes, l]``, g = their mean, p_i = their mean by the client's label frequencies; the
valve turns f and a condition into γ and β, and ReLU((1 + γ) f + β) is the split feature.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize


class GpflNetwork(nn.Module):
    """Backbone, valve, class embeddings and the client's own head."""

    def __init__(self, backbone: nn.Module, head: nn.Linear, weight: float = 0.01) -> None:
        super().__init__()
        width, classes = head.in_features, head.out_features
        self.backbone, self.head, self.weight = backbone, head, weight
        self.classes = nn.Embedding(classes, width)
        self.scale, self.shift = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("_frequencies", torch.full((classes,), 1 / classes))

    def knows(self, labels: Tensor) -> None:
        """Take the client's own label frequencies for its condition."""
        counts = torch.bincount(labels, minlength=self.head.out_features).float()
        self._frequencies = counts / counts.sum().clamp_min(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, ``[rows, classes]``."""
        own = (self._frequencies[:, None] * self.classes.weight.detach()).sum(dim=0)
        found: Tensor = self.head(self._split(self.backbone(inputs), own))
        return found

    def objective(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The loss that is learned from: the head's, the class embeddings', and their distance."""
        features, embeddings = self.backbone(inputs), self.classes.weight
        own = (self._frequencies[:, None] * embeddings.detach()).sum(dim=0)
        common = self._split(features, embeddings.detach().mean(dim=0))
        similar = normalize(common, dim=1) @ normalize(embeddings, dim=1).T
        near = (common - embeddings.detach()[labels]).norm(dim=1).mean()
        logits = self.head(self._split(features, own))
        found: Tensor = cross_entropy(logits, labels) + cross_entropy(similar, labels)
        total: Tensor = found + self.weight * near
        return total

    def _split(self, features: Tensor, condition: Tensor) -> Tensor:
        given = self.norm(features * 0 + condition)
        found: Tensor = torch.relu((1 + self.scale(given)) * features + self.shift(given))
        return found
