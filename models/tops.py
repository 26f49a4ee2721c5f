"""Top models: the networks that the active party applies to the embeddings of all parties."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.bottoms import mlp


class ConcatHead(nn.Module):
    """Perceptron over the concatenated embeddings: the top model of FedORA (paper 004, IV-C)."""

    def __init__(self, widths: Sequence[int], hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.perceptron = mlp(sum(widths), hidden, classes)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return logits, ``[batch, classes]``.

        ``embeddings`` has one tensor per party, in party order, ``[batch, width of the party]``.

        Raises:
            ValueError: an embedding does not have the width of its party.
        """
        _check_widths(embeddings, self.widths)
        logits: Tensor = self.perceptron(torch.cat(list(embeddings), dim=1))
        return logits

    @torch.no_grad()
    def scale_logits(self, factor: float) -> None:
        """Scale the last layer in place, so that all logits are multiplied by ``factor``."""
        last = list(self.perceptron.children())[-1]
        for parameter in last.parameters():
            parameter.mul_(factor)


class SumHead(nn.Module):
    """Sum of the parties' logits plus a bias; with linear bottom models its loss is convex."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return logits, ``[batch, classes]``.

        ``embeddings`` has the logits of each party, ``[batch, classes]``.

        Raises:
            ValueError: the width of an embedding is not the number of classes.
        """
        _check_widths(embeddings, [len(self.bias)] * max(1, len(embeddings)))
        return torch.stack(list(embeddings)).sum(dim=0) + self.bias


class OwnHead(nn.Module):
    """A user's network over the concatenated embeddings."""

    def __init__(self, widths: Sequence[int], network: nn.Module) -> None:
        """Apply ``network`` to embeddings of these ``widths``, in party order."""
        super().__init__()
        self.widths = tuple(widths)
        self.network = network

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return the outputs of the network, ``[batch, outputs]``.

        ``embeddings`` has one tensor per party, in party order, ``[batch, width of the party]``.

        Raises:
            ValueError: an embedding does not have the width of its party.
        """
        _check_widths(embeddings, self.widths)
        outputs: Tensor = self.network(torch.cat(list(embeddings), dim=1))
        return outputs


def _check_widths(embeddings: Sequence[Tensor], widths: Sequence[int]) -> None:
    arrived = [embedding.shape[-1] for embedding in embeddings]
    if arrived != list(widths):
        raise ValueError(
            f"the top model expects embeddings of widths {list(widths)} in party order "
            f"(got {arrived}); check `width` of every party in the config"
        )
