"""Pooled data: the common rows with the columns of all parties in one process, without messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from configs.agreement import RowRequest, VerticalAgreement
from configs.config_file import read_config
from models.ensemble import Ensemble
from models.initialisation import build_seeded
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation, torch_seed
from parties.data import preprocess
from parties.data.holding import Holding, read_holding
from parties.data.preprocess import FittedPreprocessing
from parties.vertical.alignment.row_order import order_ids
from parties.vertical.engine.features import DTYPES, make_trigger
from parties.vertical.engine.networks import ActiveNetwork, build_bottom
from parties.vertical.engine.requests import poisoned_rows
from parties.vertical.engine.rows import RowSets, split_rows, time_parts
from parties.vertical.methods.registry import SCHEMA


class WholeModel(nn.Module):
    """All bottom models and the top model as one module, with features in party order."""

    def __init__(self, bottoms: Mapping[str, nn.Module], top: nn.Module) -> None:
        super().__init__()
        self.bottoms, self.top = nn.ModuleDict(bottoms), top

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return logits, ``[batch, classes]``."""
        parts = [bottom(x) for bottom, x in zip(self.bottoms.values(), inputs, strict=True)]
        logits: Tensor = self.top(parts)
        return logits


@dataclass(frozen=True, slots=True)
class PlantedTrigger:
    """The trigger that one party plants in rows that will be forgotten."""

    party: str
    target: int  # class of the rows with the trigger
    rows: Index  # [poisoned], training rows with the trigger
    stamped: Tensor  # the party's features of all common rows with the trigger, [common rows, ...]


@dataclass(frozen=True, slots=True)
class PooledData:
    """Data and models of all parties of one federation, in one process."""

    agreement: VerticalAgreement
    rows: RowSets
    inputs: dict[str, Tensor]  # features of all common rows by party, ``[common rows, ...]``
    labels: Tensor  # labels of all common rows, ``[common rows]``
    trigger: PlantedTrigger | None = None  # trigger of the first request; None without a backdoor

    def fresh(self, streams: Sequence[str]) -> Ensemble:
        """Return one untrained model per random stream, with the parties' initial weights."""
        return Ensemble.of([self._network(stream) for stream in streams])

    def _network(self, stream: str) -> WholeModel:
        active, agreement = self.agreement.active, self.agreement
        bottoms: dict[str, nn.Module] = {}
        top: nn.Module | None = None
        for name in sorted({*agreement.feature_parties, active}):
            network = build_seeded(
                torch_seed(agreement.seed, "weights", stream, name), self._network_builder(name)
            )
            if isinstance(network, ActiveNetwork):
                top = network.top
                if network.bottom is not None:
                    bottoms[name] = network.bottom
            else:
                bottoms[name] = network
        if top is None:
            raise LookupError("the agreement has no active party")
        return WholeModel(bottoms, top).to(DTYPES[agreement.dtype])

    def _network_builder(self, name: str) -> Callable[[], nn.Module]:
        agreement, plan = self.agreement, self.agreement.parties[name]

        def build() -> nn.Module:
            features = self.inputs.get(name)
            shape = None if features is None else tuple(features.shape[1:])
            bottom = None if shape is None else build_bottom(plan, None, shape)
            if name == agreement.active:
                return ActiveNetwork(agreement, bottom)
            if bottom is None:
                raise LookupError(f"passive party {name!r} has no features")
            return bottom

        return build

    def batch(self, rows: Tensor) -> list[Tensor]:
        """Return, for each party, the features of ``rows`` ``[N, batch]``: ``[N, batch, ...]``."""
        return [gather_rows(each, rows) for each in self.inputs.values()]

    @torch.no_grad()
    def logits(self, models: Ensemble, rows: Index, size: int = 1024) -> Tensor:
        """Return every model's logits on the same rows, ``[N, rows, classes]``."""
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


def gather_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Return ``values[rows]`` as ``[*rows, ...]`` for values ``[common rows, ...]``.

    If each row has many values, this function is several times faster than ``values[rows]``.
    """
    gathered = embedding(rows, values.flatten(1))
    return gathered.view(*rows.shape, *values.shape[1:])


def read_pooled_data(
    config: Path, data: Path | None, changes: Sequence[str] = (), most: int | None = None
) -> PooledData:
    """Read the data of every party and join the rows of all parties by ID.

    Preprocessing is fitted on all training rows, so it is the same for every model. ``most`` is the
    largest number of training rows; further rows are not used.

    Raises:
        LookupError: a party lacks the features or labels that its role requires.
        PolicyError: the labels are not one of several classes, or the loss has weights.
    """
    read = read_config(config, SCHEMA, tuple(changes))
    agreement = read.agreement
    _refuse_other_tasks(agreement, config)
    holdings = {
        name: read_holding(
            read.settings(name).data,
            folder=data or config.parent,
            classes=agreement.labels.classes,
            active=name == agreement.active,
        )
        for name in agreement.parties
    }
    common = set.intersection(*(set(each.ids) for each in holdings.values()))
    places = {name: _common(agreement, each, common) for name, each in holdings.items()}
    ours, at = holdings[agreement.active], places[agreement.active]
    parts = None if ours.times is None else time_parts(agreement.split, ours.times[at])
    rows = split_rows(agreement, [ours.ids[row] for row in at], ours.in_test[at], parts)
    if most is not None and most < len(rows.train):
        order = permutation(derive_key(agreement.seed, "population"), len(rows.train))
        kept = np.sort(rows.train[order[:most]])
        rows = replace(rows, initial_train=kept, train=kept)
    fitted = {
        name: preprocess.fit_preprocessing(holdings[name], places[name][rows.train])
        for name in agreement.feature_parties
    }
    inputs = {
        name: _features(agreement, holdings[name], places[name], each)
        for name, each in fitted.items()
    }
    if ours.labels is None:
        raise LookupError("the active party's data has no labels")
    labels = torch.from_numpy(ours.labels[at].astype(np.int64))
    pooled = PooledData(agreement, rows, inputs, labels)
    trigger = _trigger(pooled, holdings, places, fitted)
    return replace(pooled, trigger=trigger)


def _refuse_other_tasks(agreement: VerticalAgreement, config: Path) -> None:
    if agreement.labels.task != "classification":
        raise PolicyError(
            f"a study of many models measures class probabilities, but {config.name} has "
            f"labels.task = {agreement.labels.task!r}",
            "use a config whose labels are classes",
        )
    weights = {
        "class": agreement.training.class_weights is not None,
        "sample": agreement.training.sample_weights,
    }
    for kind in (each for each, used in weights.items() if used):
        raise PolicyError(
            f"a study of many models has no {kind} weights, but {config.name} has "
            f"training.{kind}_weights",
            "remove the key",
        )


def rows_of_classes(pooled: PooledData, request: RowRequest) -> Index:
    """Return the fraction of the training rows of each requested class, ``[rows]``."""
    agreement, rows, labels = pooled.agreement, pooled.rows, pooled.labels.numpy()
    parts = []
    for name in request.classes:
        members = rows.train[labels[rows.train] == agreement.labels.classes.index(name)]
        secret = derive_key(agreement.seed, "request", request.name, request.seed, name)
        order = permutation(secret, len(members))
        parts.append(members[order[: round(request.fraction * len(members))]])
    return np.sort(np.concatenate(parts))


def _trigger(
    pooled: PooledData,
    holdings: Mapping[str, Holding],
    places: Mapping[str, Index],
    fitted: Mapping[str, FittedPreprocessing],
) -> PlantedTrigger | None:
    """The trigger of the first request; None without a backdoor."""
    agreement = pooled.agreement
    plan = agreement.unlearn[0].backdoor if agreement.unlearn else None
    if plan is None:
        return None
    name, request = plan.party, agreement.unlearn[0]
    rows = poisoned_rows(agreement, request, rows_of_classes(pooled, request), pooled.labels)
    train = places[name][pooled.rows.train]
    trigger = make_trigger(plan, holdings[name], train, rows)
    stamped = trigger.stamp(pooled.inputs[name], fitted[name])
    return PlantedTrigger(name, agreement.labels.classes.index(plan.target), rows, stamped)


def _common(agreement: VerticalAgreement, holding: Holding, common: set[bytes]) -> Index:
    rows = np.array([row for row, name in enumerate(holding.ids) if name in common])
    gathered: Index = rows[order_ids(agreement, [holding.ids[row] for row in rows])]
    return gathered


def _features(
    agreement: VerticalAgreement, holding: Holding, place: Index, fitted: FittedPreprocessing
) -> Tensor:
    values = np.asarray(fitted.transform(holding, place))
    return torch.from_numpy(values).to(DTYPES[agreement.dtype])
