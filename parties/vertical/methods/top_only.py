"""Top-only, a baseline: train a fresh top model on embeddings of D_r; keep the bottom models."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from parties.common.errors import Diverged
from parties.common.shared_randomness import Index
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import FRESH_TOP, SplitModel
from parties.vertical.engine.train import DESCEND, EpochResult
from parties.vertical.methods.method import MethodResult
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class TopOnlyMethod:
    """A top model trained without D_u, on top of bottom models that were trained on D_u."""

    name: str = "top-only"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Read the embeddings of D_r once, then train the top model without messages."""
        split_model.restore_copy(ORIGINAL, self.name, vfl_pb2.TOP_ONLY)
        split_model.shrink(FRESH_TOP, self.name, vfl_pb2.TOP_ONLY)
        epochs = split_model.once("a fresh top", list[EpochResult], lambda: train_top(split_model))
        return MethodResult({"epochs": [asdict(epoch) for epoch in epochs]})


def train_top(split_model: SplitModel) -> list[EpochResult]:
    """Train the top model on D_r for the agreed number of epochs.

    Raises:
        Diverged: the loss is not finite.
    """
    plan = split_model.agreement.unlearning.top_only
    embeddings = split_model.loop.read(vfl_pb2.RETAIN, vfl_pb2.TOP_ONLY).embeddings
    split_model.party.progress.phase("top-only", plan.epochs)
    return [_epoch(split_model, embeddings, number) for number in range(1, plan.epochs + 1)]


def _epoch(split_model: SplitModel, embeddings: Tensor, number: int) -> EpochResult:
    widths = [party.width or 0 for party in split_model.agreement.feature_parties.values()]
    labels, total = split_model.labels[split_model.rows.retain], 0.0
    for batch in _batches(split_model, number):
        logits = split_model.local_model.model.network(
            list(torch.split(embeddings[batch], widths, dim=1))
        )
        loss = cross_entropy(logits, labels[batch])
        if not math.isfinite(loss.item()):
            raise Diverged(
                f"the loss of the fresh top model is not finite (epoch {number})",
                "lower unlearning.top_only.learning_rate",
            )
        loss.backward()  # type: ignore[no-untyped-call]
        split_model.local_model.use(DESCEND, 0)
        total += loss.item() * len(batch)
    split_model.party.progress.step()
    return EpochResult(number, total / len(embeddings))


def _batches(split_model: SplitModel, number: int) -> Iterator[Index]:
    """Positions in D_r of each batch, [batch], in the order of an epoch."""
    rows, size = split_model.rows, split_model.agreement.training.batch
    order = rows.shuffled(vfl_pb2.RETAIN, split_model.stream, number)
    places = np.searchsorted(rows.retain, order)
    yield from (places[start : start + size] for start in range(0, len(places), size))
