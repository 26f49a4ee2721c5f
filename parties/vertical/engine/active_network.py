"""The active party's half: the top model, and its own bottom where it has features."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from configs.agreement import Agreement, MlpTop
from models.seeded import seeded
from models.tops import ConcatHead, SumHead
from parties.common.device import device_of, embed
from parties.common.shared_randomness import torch_seed
from parties.session.party import Party
from parties.vertical.engine.bottom import build_bottom
from parties.vertical.engine.features import DTYPES, Inputs
from unlearning.sharding import vote


class ActiveNetwork(nn.Module):
    """Top and own bottom as one module, so that one optimiser and one copy cover both."""

    def __init__(self, agreement: Agreement, bottom: nn.Module | None) -> None:
        super().__init__()
        classes = len(agreement.labels.classes)
        widths = [party.width or 0 for party in agreement.feature_parties.values()]
        self.bottom = bottom
        self.top = (
            ConcatHead(widths, agreement.top.hidden, classes)
            if isinstance(agreement.top, MlpTop)
            else SumHead(classes)
        )

    def embed(self, features: Tensor) -> Tensor:
        """The active party's own embeddings, [batch, width].

        Raises:
            LookupError: it has no features.
        """
        if self.bottom is None:
            raise LookupError("the active party has no bottom model")
        return embed(self.bottom, features)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Logits, [batch, classes], from all parties' embeddings in the order of the agreement."""
        device = device_of(self.top)
        logits: Tensor = self.top([each.to(device) for each in embeddings])
        return logits.cpu()


class Voters(nn.ModuleList):
    """The active halves of several models that vote; embeddings hold those of all, side by side."""

    def embed(self, features: Tensor) -> Tensor:
        """The active party's own embeddings, [batch, models * width]; raises ``LookupError``."""
        return torch.cat([cast(ActiveNetwork, each).embed(features) for each in self], dim=1)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """The mean of their logits, [batch, classes]."""
        parts = zip(*(each.chunk(len(self), dim=1) for each in embeddings), strict=True)
        return vote([each(part) for each, part in zip(self, parts, strict=True)])


def build_active(party: Party, stream: str, inputs: Inputs | None) -> ActiveNetwork:
    """A fresh half for ``party``, its weights drawn from ``stream``."""
    name, agreement = party.name, party.agreement

    def build() -> ActiveNetwork:
        shape = None if inputs is None else tuple(inputs.values.shape[1:])
        plan, module = agreement.parties[name], party.seat.module
        bottom = None if shape is None else build_bottom(plan, module, shape)
        return ActiveNetwork(agreement, bottom)

    seed = torch_seed(agreement.seed, "weights", stream, name)
    return seeded(seed, build).to(party.device, DTYPES[agreement.dtype])
