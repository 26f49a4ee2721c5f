"""Top models: what the active party computes on all parties' embeddings, in party order."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.bottoms import mlp


class ConcatHead(nn.Module):
    """A perceptron over the concatenated embeddings; the top model of FedORA, Sec. IV-C."""

    def __init__(self, widths: Sequence[int], hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.perceptron = mlp(sum(widths), hidden, classes)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Map embeddings, each ``[batch, width of that party]``, to logits ``[batch, classes]``."""
        _expect(embeddings, self.widths)
        logits: Tensor = self.perceptron(torch.cat(list(embeddings), dim=1))
        return logits

    @torch.no_grad()
    def sharpen(self, factor: float) -> None:
        """Multiply all logits by ``factor``, in place: a temperature that the weights bear."""
        last = list(self.perceptron.children())[-1]
        for parameter in last.parameters():
            parameter.mul_(factor)


class SumHead(nn.Module):
    """The sum of the parties' logits plus a bias: additive, so convex over linear bottoms."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Map embeddings, each ``[batch, classes]``, to logits ``[batch, classes]``."""
        _expect(embeddings, [len(self.bias)] * max(1, len(embeddings)))
        return torch.stack(list(embeddings)).sum(dim=0) + self.bias


def _expect(embeddings: Sequence[Tensor], widths: Sequence[int]) -> None:
    arrived = [embedding.shape[-1] for embedding in embeddings]
    if arrived != list(widths):
        raise ValueError(
            f"the top model expects embeddings of widths {list(widths)} in party order, "
            f"got {arrived}; check `width` of every party in the config"
        )
