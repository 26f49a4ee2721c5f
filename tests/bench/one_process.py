"""Any shipped run in one process without parties or messages: the reference for accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from configs.agreement import VerticalAgreement
from configs.config_file import read_config
from models.initialisation import build_seeded
from parties.common.shared_randomness import torch_seed
from parties.data.holding import Holding, read_holding
from parties.data.preprocess import fit_preprocessing
from parties.vertical.alignment.row_order import order_ids
from parties.vertical.engine.networks import ActiveNetwork, build_bottom
from parties.vertical.engine.rows import RowSets, split_rows
from parties.vertical.methods.registry import SCHEMA
from protocol import vfl_pb2


@dataclass
class OneProcess:
    """All parties' networks and features as one model."""

    agreement: VerticalAgreement
    rows: RowSets
    inputs: Mapping[str, Tensor]
    labels: Tensor
    networks: Mapping[str, nn.Module]

    def logits(self, rows: np.ndarray) -> Tensor:
        """Return the logits of some common rows."""
        active = self.networks[self.agreement.active]
        embeddings = []
        for name in self.agreement.feature_parties:
            bottom = active.bottom if name == self.agreement.active else self.networks[name]
            embeddings.append(bottom(self.inputs[name][rows]))
        return active.top(embeddings)

    def train(self) -> None:
        """Train by the settings of the agreement, with early stopping."""
        plan = self.agreement.training
        parameters = [p for network in self.networks.values() for p in network.parameters()]
        kind = torch.optim.Adam if plan.optimiser == "adam" else torch.optim.SGD
        extra = {} if plan.optimiser == "adam" else {"momentum": plan.momentum}
        descent = kind(parameters, plan.learning_rate, weight_decay=plan.weight_decay, **extra)
        best, best_epoch, best_values = float("inf"), 0, []
        for epoch in range(1, plan.epochs + 1):
            order = self.rows.shuffled(vfl_pb2.TRAIN_ROWS, "original", epoch)
            for start in range(0, len(order), plan.batch):
                batch = order[start : start + plan.batch]
                descent.zero_grad()
                cross_entropy(self.logits(batch), self.labels[batch]).backward()
                descent.step()
            loss = self.loss(self.rows.validation)
            if loss < best:
                best, best_epoch = loss, epoch
                best_values = [p.detach().clone() for p in parameters]
            elif plan.patience is not None and epoch - best_epoch >= plan.patience:
                break
        if plan.patience is not None:
            with torch.no_grad():
                for parameter, value in zip(parameters, best_values, strict=True):
                    parameter.copy_(value)

    @torch.no_grad()
    def loss(self, rows: np.ndarray) -> float:
        """Return the mean cross entropy of some common rows."""
        return cross_entropy(self.logits(rows), self.labels[rows]).item()

    @torch.no_grad()
    def accuracy(self, rows: np.ndarray) -> float:
        """Return the accuracy on some common rows."""
        return (self.logits(rows).argmax(1) == self.labels[rows]).double().mean().item()


def one_process(config: Path, data: Path, changes: tuple[str, ...] = ()) -> OneProcess:
    """Read the data of all parties, join it by ID, and return the untrained model."""
    config_file = read_config(config, SCHEMA, changes)
    agreement = config_file.agreement
    holdings = {
        name: read_holding(
            config_file.settings(name).data,
            folder=data,
            classes=agreement.labels.classes,
            active=name == agreement.active,
        )
        for name in agreement.parties
    }
    common = set.intersection(*(set(each.ids) for each in holdings.values()))
    common_rows = {name: _common_rows(agreement, each, common) for name, each in holdings.items()}
    active_holding = holdings[agreement.active]
    active_rows = common_rows[agreement.active]
    rows = split_rows(
        agreement,
        [active_holding.ids[row] for row in active_rows],
        active_holding.in_test[active_rows],
    )
    inputs = {
        name: _features(holdings[name], common_rows[name], rows)
        for name in agreement.feature_parties
    }
    networks = {name: _network(agreement, name, inputs.get(name)) for name in agreement.parties}
    return OneProcess(
        agreement, rows, inputs, torch.from_numpy(active_holding.labels[active_rows]), networks
    )


def _common_rows(agreement: VerticalAgreement, holding: Holding, common: set[bytes]) -> np.ndarray:
    rows = np.array([row for row, name in enumerate(holding.ids) if name in common])
    return rows[order_ids(agreement, [holding.ids[row] for row in rows])]


def _features(holding: Holding, places: np.ndarray, row_sets: RowSets) -> Tensor:
    fitted = fit_preprocessing(holding, places[row_sets.train])
    return torch.from_numpy(np.asarray(fitted.transform(holding, places))).float()


def _network(agreement: VerticalAgreement, name: str, features: Tensor | None) -> nn.Module:
    def build() -> nn.Module:
        bottom = None
        if features is not None:
            bottom = build_bottom(agreement.parties[name], None, tuple(features.shape[1:]))
        return ActiveNetwork(agreement, bottom) if name == agreement.active else bottom

    return build_seeded(torch_seed(agreement.seed, "weights", "original", name), build)
