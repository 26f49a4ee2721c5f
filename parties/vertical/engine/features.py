"""This party's features of the common rows, fitted on the rows that may teach it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index, Words, id_words, key
from parties.data import preprocess
from parties.session.party import Party
from parties.vertical.engine.rows import RowSets, split
from parties.vertical.engine.trigger import Trigger
from parties.vertical.privacy.external_statistics import statistics_apart
from protocol import vfl_pb2

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Features of all common rows, [common rows, ...], and the preprocessing that made them."""

    values: Tensor
    fitted: preprocess.Fitted


class Features:
    """The common rows of one party in the common order; forgotten rows are erased from it."""

    def __init__(self, party: Party, rows: Index) -> None:
        self._party, self.rows = party, rows.copy()
        self._cache: dict[bytes, Inputs] = {}
        self.trigger: Trigger | None = None  # of a backdoor that we plant
        self._warned: set[str] = set()

    @property
    def dtype(self) -> torch.dtype:
        """The element type of the run."""
        return DTYPES[self._party.agreement.dtype]

    @property
    def present(self) -> bool:
        """Whether this party has features at all."""
        return self._party.agreement.parties[self._party.name].width is not None

    def split(self) -> RowSets:
        """The parts of the common rows."""
        holding = self._party.holding
        ids = [holding.ids[row] for row in self.rows]
        return split(self._party.agreement, ids, holding.in_test[self.rows])

    def words(self) -> Words:
        """64 random bits of every common row's ID, [common rows]; 0 where it was erased."""
        found, live = np.zeros(len(self.rows), np.uint64), self.rows >= 0
        ids = [self._party.holding.ids[row] for row in self.rows[live].tolist()]
        found[live] = id_words(key(self._party.agreement.seed, "shards"), ids)
        return found

    def fit(self, rows: RowSets, which: vfl_pb2.Rows) -> Inputs:
        """Features of all common rows by the statistics of some of them only.

        A seat may name statistics of its own; then these rows teach nothing.
        """
        chosen = rows.of(which)
        name = chosen.tobytes()
        if name not in self._cache:
            fitted = self._fitted(chosen)
            self._warn(fitted)
            self._cache[name] = self.inputs(fitted)
        return self._cache[name]

    def inputs(self, fitted: preprocess.Fitted) -> Inputs:
        """Features of all common rows by statistics that are known."""
        return Inputs(self._transformed(fitted), fitted)

    def known(self, in_use: Iterable[Inputs]) -> list[Inputs]:
        """All features that are in memory: those in use, and those kept for the next model."""
        return [*self._cache.values(), *in_use]

    def forget(self, rows: Index, in_use: Iterable[Inputs]) -> None:
        """Erase rows: their place in the row map, and their features wherever they are in use."""
        self.rows[rows] = -1
        for inputs in self.known(in_use):
            inputs.values[rows] = 0
        self._cache.clear()
        self.trigger = None

    def _fitted(self, chosen: Index) -> preprocess.Fitted:
        if self._party.agreement.preprocessing == "declared":
            return preprocess.declared(self._party.holding, self._party.seat.data)
        known = statistics_apart(self._party)
        return known or preprocess.fit(self._party.holding, self.rows[chosen])

    def _warn(self, fitted: preprocess.Fitted) -> None:
        """Say once what every fit says again."""
        for text in set(fitted.warnings) - self._warned:
            self._party.watch.warn(text)
        self._warned.update(fitted.warnings)

    def _transformed(self, fitted: preprocess.Fitted) -> Tensor:
        live = self.rows >= 0
        values = fitted.transform(self._party.holding, self.rows[live])
        features = torch.zeros((len(self.rows), *values.shape[1:]), dtype=self.dtype)
        features[torch.from_numpy(live)] = torch.from_numpy(np.asarray(values)).to(self.dtype)
        if self.trigger is not None:
            stamped = torch.from_numpy(self.trigger.rows)
            features[stamped] = self.trigger.stamp(features[stamped], fitted)
        return features


def labels(party: Party, rows: Index) -> Tensor:
    """The active party's labels of the common rows, [common rows]."""
    held = party.holding.labels
    if held is None:
        raise LookupError("only the active party has labels")
    return torch.from_numpy(held[rows].astype(np.int64))
