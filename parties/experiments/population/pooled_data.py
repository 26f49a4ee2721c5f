"""A config's data in one place: all parties' columns of their common rows, without messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from configs.agreement import Agreement
from configs.schema import read_config
from models.ensemble import Ensemble
from models.seeded import seeded
from parties.common.shared_randomness import Index, key, permutation, torch_seed
from parties.data.holding import Holding, preprocess, read_holding
from parties.vertical.engine.active_network import ActiveNetwork
from parties.vertical.engine.bottom import build_bottom
from parties.vertical.engine.features import DTYPES
from parties.vertical.engine.rows import RowSets, split
from psi.alignment import common_order, order_words
from psi.id_list import IdList


class Whole(nn.Module):
    """All parties' bottoms and the top as one module, on all parties' features in party order."""

    def __init__(self, bottoms: Mapping[str, nn.Module], top: nn.Module) -> None:
        super().__init__()
        self.bottoms, self.top = nn.ModuleDict(bottoms), top

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Logits, ``[batch, classes]``."""
        parts = [bottom(x) for bottom, x in zip(self.bottoms.values(), inputs, strict=True)]
        logits: Tensor = self.top(parts)
        return logits


@dataclass(frozen=True, slots=True)
class Together:
    """One federation's data and models, as if one machine held them.

    Attributes:
        inputs: features of all common rows by party, ``[common rows, ...]``.
        labels: of all common rows, ``[common rows]``.
    """

    agreement: Agreement
    rows: RowSets
    inputs: dict[str, Tensor]
    labels: Tensor

    def fresh(self, streams: Sequence[str]) -> Ensemble:
        """Untrained models, each with the weights that the parties draw from its stream."""
        return Ensemble.of([self._network(stream) for stream in streams])

    def _network(self, stream: str) -> Whole:
        active, agreement = self.agreement.active, self.agreement
        bottoms: dict[str, nn.Module] = {}
        top: nn.Module | None = None
        for name in sorted({*agreement.feature_parties, active}):
            half = seeded(torch_seed(agreement.seed, "weights", stream, name), self._half(name))
            if isinstance(half, ActiveNetwork):
                top = half.top
                if half.bottom is not None:
                    bottoms[name] = half.bottom
            else:
                bottoms[name] = half
        if top is None:
            raise LookupError("an agreement has an active party")
        return Whole(bottoms, top).to(DTYPES[agreement.dtype])

    def _half(self, name: str) -> Callable[[], nn.Module]:
        agreement, plan = self.agreement, self.agreement.parties[name]

        def build() -> nn.Module:
            features = self.inputs.get(name)
            shape = None if features is None else tuple(features.shape[1:])
            bottom = None if shape is None else build_bottom(plan, None, shape)
            if name == agreement.active:
                return ActiveNetwork(agreement, bottom)
            if bottom is None:
                raise LookupError("a passive party always has features")
            return bottom

        return build

    def batch(self, rows: Tensor) -> list[Tensor]:
        """Features of ``rows``, ``[N, batch]``, by party: ``[N, batch, ...]`` each."""
        return [gathered(each, rows) for each in self.inputs.values()]

    @torch.no_grad()
    def logits(self, models: Ensemble, rows: Index, size: int = 1024) -> Tensor:
        """Every model's outputs for the same rows, ``[N, rows, classes]``."""
        parts = [
            models(
                [
                    each[torch.from_numpy(rows[start : start + size])].expand(
                        len(models), *[-1] * each.dim()
                    )
                    for each in self.inputs.values()
                ]
            )
            for start in range(0, len(rows), size)
        ]
        return torch.cat(parts, dim=1)


def gathered(values: Tensor, rows: Tensor) -> Tensor:
    """``values[rows]``, several times as fast where a row is long."""
    found = embedding(rows, values.flatten(1))
    return found.view(*rows.shape, *values.shape[1:])


def read_together(
    config: Path, data: Path | None, changes: Sequence[str] = (), most: int | None = None
) -> Together:
    """Read every party's data and join it by plain sets.

    Preprocessing is fitted on all training rows, so it is the same for every model. ``most`` bounds
    the training rows: the others take no part at all.
    """
    read = read_config(config, tuple(changes))
    agreement = read.agreement
    holdings = {
        name: read_holding(
            read.seat(name).data,
            folder=data or config.parent,
            classes=agreement.labels.classes,
            active=name == agreement.active,
        )
        for name in agreement.parties
    }
    common = set.intersection(*(set(each.ids) for each in holdings.values()))
    places = {name: _common(agreement, each, common) for name, each in holdings.items()}
    ours, at = holdings[agreement.active], places[agreement.active]
    rows = split(agreement, [ours.ids[row] for row in at], ours.in_test[at])
    if most is not None and most < len(rows.learn):
        order = permutation(key(agreement.seed, "population"), len(rows.learn))
        kept = np.sort(rows.learn[order[:most]])
        rows = replace(rows, drawn=kept, learn=kept)
    inputs = {
        name: _features(agreement, holdings[name], places[name], rows)
        for name in agreement.feature_parties
    }
    if ours.labels is None:
        raise LookupError("only the active party has labels")
    return Together(agreement, rows, inputs, torch.from_numpy(ours.labels[at].astype(np.int64)))


def _common(agreement: Agreement, holding: Holding, common: set[bytes]) -> Index:
    rows = np.array([row for row, name in enumerate(holding.ids) if name in common])
    secret = key(agreement.seed, "order", agreement.federation)
    ids = IdList.of(holding.ids)
    found: Index = rows[common_order(lambda part: order_words(ids, rows, secret, part))]
    return found


def _features(agreement: Agreement, holding: Holding, place: Index, rows: RowSets) -> Tensor:
    fitted = preprocess.fit(holding, place[rows.learn])
    values = np.asarray(fitted.transform(holding, place))
    return torch.from_numpy(values).to(DTYPES[agreement.dtype])
