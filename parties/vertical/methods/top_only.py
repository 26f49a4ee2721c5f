"""Top-only, a baseline: a fresh top on embeddings of D_r that cross once; the bottoms stay."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from parties.common.errors import Diverged
from parties.common.shared_randomness import Index
from parties.vertical.engine.split_model import Federation, Shrink
from parties.vertical.engine.train import DESCEND, Epoch
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee

FRESH_TOP = Shrink(bottom=0.0, top=1.0)


@dataclass(frozen=True, slots=True)
class TopOnly:
    """The top never saw D_u; the bottoms did, the active party's own among them."""

    name: str = "top-only"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Have embeddings shown once, then learn alone."""
        federation.restore(ORIGINAL, self.name, vfl_pb2.TOP_ONLY)
        federation.shrink(FRESH_TOP, self.name, vfl_pb2.TOP_ONLY)
        epochs = federation.once("a fresh top", list[Epoch], lambda: fit(federation))
        return Facts({"epochs": [asdict(epoch) for epoch in epochs]})


def fit(federation: Federation) -> list[Epoch]:
    """Train the top on the rows that stay, for as many epochs as was agreed.

    Raises:
        Diverged: the loss is no longer finite.
    """
    plan = federation.agreement.unlearning.top_only
    shown = federation.passes.read(vfl_pb2.RETAIN, vfl_pb2.TOP_ONLY).embeddings
    federation.party.watch.phase("top-only", plan.epochs)
    return [_epoch(federation, shown, number) for number in range(1, plan.epochs + 1)]


def _epoch(federation: Federation, shown: Tensor, number: int) -> Epoch:
    widths = [party.width or 0 for party in federation.agreement.feature_parties.values()]
    labels, total = federation.labels[federation.rows.retain], 0.0
    for batch in _batches(federation, number):
        logits = federation.half.model.network(list(torch.split(shown[batch], widths, dim=1)))
        loss = cross_entropy(logits, labels[batch])
        if not math.isfinite(loss.item()):
            raise Diverged(
                f"the loss of a fresh top is no longer finite (epoch {number})",
                "lower unlearning.top_only.learning_rate",
            )
        loss.backward()  # type: ignore[no-untyped-call]
        federation.half.use(DESCEND, 0)
        total += loss.item() * len(batch)
    federation.party.watch.step()
    return Epoch(number, total / len(shown))


def _batches(federation: Federation, number: int) -> Iterator[Index]:
    """Positions among the rows that stay, in the order of an epoch."""
    rows, size = federation.rows, federation.agreement.training.batch
    order = rows.shuffled(vfl_pb2.RETAIN, federation.stream, number)
    places = np.searchsorted(rows.retain, order)
    yield from (places[start : start + size] for start in range(0, len(places), size))
