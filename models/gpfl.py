"""GPFL: a small network, the conditional valve, separates global and personal features.

Notation (Zhang et al., ICCV 2023): f = features of the backbone, ``[rows, l]``, C = embeddings of
the classes, ``[classes, l]``, C̄ = C as the server sent it, which stays fixed during a round, g =
mean of the rows of C̄, p_i = mean of the rows of C̄ weighted by the client's label frequencies. From
a condition, g or p_i, the valve computes γ and β; the separated feature is ReLU((1 + γ) f + β).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize


class GpflNetwork(nn.Module):
    """GPFL network: backbone, valve, class embeddings and the client's own head.

    Call ``freeze_embeddings`` after every change of the parameters that is no training step.
    """

    def __init__(self, backbone: nn.Module, head: nn.Linear, weight: float = 0.01) -> None:
        super().__init__()
        width, classes = head.in_features, head.out_features
        self.backbone, self.head, self.weight = backbone, head, weight
        self.classes = nn.Embedding(classes, width)
        self.scale, self.shift = _valve_half(width), _valve_half(width)
        self.register_buffer("_frequencies", torch.full((classes,), 1 / classes))
        self.register_buffer("_frozen", self.classes.weight.detach().clone())

    def set_label_frequencies(self, labels: Tensor) -> None:
        """Set the label frequencies, the weights in p_i, from a client's ``labels``, ``[rows]``."""
        counts = torch.bincount(labels, minlength=self.head.out_features).float()
        self._frequencies = counts / counts.sum().clamp_min(1)

    def freeze_embeddings(self) -> None:
        """Set C̄ to the present class embeddings C; training steps change C, but not C̄."""
        self._frozen = self.classes.weight.detach().clone()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of ``inputs``, ``[rows, ...] -> [rows, classes]``."""
        found: Tensor = self.head(self._separate(self.backbone(inputs), self._personal_condition()))
        return found

    def objective(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the training loss, a scalar.

        ``inputs`` are ``[rows, ...]`` and ``labels`` are ``[rows]``.
        """
        # Zhang et al., ICCV 2023: cross entropy of the head on personalised features + cross
        # entropy of the cosines of global features with C + weight · distance of the global
        # features to the embeddings of their classes in C̄. As in the authors' code, the distance
        # is the Frobenius norm over the batch.
        features = self.backbone(inputs)
        common = self._separate(features, self._frozen.mean(dim=0))
        similar = normalize(common, dim=1) @ normalize(self.classes.weight, dim=1).T
        far = (common - self._frozen[labels]).norm()
        logits = self.head(self._separate(features, self._personal_condition()))
        found: Tensor = cross_entropy(logits, labels) + cross_entropy(similar, labels)
        total: Tensor = found + self.weight * far
        return total

    def _personal_condition(self) -> Tensor:
        """p_i, ``[l]``."""
        return self._frequencies @ self._frozen

    def _separate(self, features: Tensor, condition: Tensor) -> Tensor:
        # The valve gets the condition once per row, so that every layer has one input per row.
        given = condition.expand_as(features)
        found: Tensor = torch.relu((1 + self.scale(given)) * features + self.shift(given))
        return found


def _valve_half(width: int) -> nn.Sequential:
    """The half of the valve that computes γ, or β: LayerNorm(ReLU(Linear(c)))."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width))
