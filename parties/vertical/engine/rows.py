"""Which common rows play which part; every party derives the same parts by itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from configs.agreement import Agreement
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, Words, in_order, key, permutation, shares
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError


@dataclass(frozen=True, slots=True)
class Shares:
    """Which parts of D_r are drawn once and for all."""

    reference: float  # SAMPLE, that the reference model learns
    correction: float  # PORTION, that ICO-like corrects on

    @classmethod
    def of(cls, agreement: Agreement) -> "Shares":
        """As agreed."""
        plan = agreement.unlearning
        return cls(plan.fedora.reference_share, plan.ico_like.share)


@dataclass(frozen=True, slots=True)
class RowSets:
    """The common rows by their index in the common order.

    Attributes:
        drawn: all training rows of the run, whose order every epoch draws.
        learn: D, training rows that no earlier request removed.
        validation: rows for early stopping and thresholds.
        test: rows for the report.
        forgotten: D_u, the part of ``learn`` that the present request removes.
        stream: of the present model, by which a shadow model's half is drawn.
    """

    seed: int
    shares: Shares
    drawn: Index
    learn: Index
    validation: Index
    test: Index
    forgotten: Index
    stream: str = ""

    def parts(self) -> dict[str, Index]:
        """The arrays, by their names."""
        return {
            "drawn": self.drawn,
            "learn": self.learn,
            "validation": self.validation,
            "test": self.test,
            "forgotten": self.forgotten,
        }

    @property
    def retain(self) -> Index:
        """D_r, training rows that stay."""
        return np.setdiff1d(self.learn, self.forgotten, assume_unique=True)

    def of(self, rows: vfl_pb2.Rows) -> Index:
        """The rows that a word of the protocol means, ascending."""
        known: dict[int, Callable[[], Index]] = {
            vfl_pb2.LEARN: lambda: self.learn,
            vfl_pb2.RETAIN: lambda: self.retain,
            vfl_pb2.FORGOTTEN: lambda: self.forgotten,
            vfl_pb2.VALIDATION: lambda: self.validation,
            vfl_pb2.TEST: lambda: self.test,
            vfl_pb2.TRIGGERED: lambda: self.test,
            vfl_pb2.SAMPLE: lambda: self._part("reference", self.shares.reference),
            vfl_pb2.PORTION: lambda: self._part("correction", self.shares.correction),
            vfl_pb2.HALF: lambda: self._halves()[0],
            vfl_pb2.OTHER_HALF: lambda: self._halves()[1],
        }
        if rows not in known:
            raise RemoteProtocolError(f"asks for rows {rows}, which vfl.proto does not know")
        return known[rows]()

    def shuffled(
        self, rows: vfl_pb2.Rows, stream: str, epoch: int, words: Words | None = None
    ) -> Index:
        """The rows in the order of one epoch.

        All training rows of the run are shuffled and the others are skipped: a paired Retrain
        meets its rows in the order in which the original met them. With ``words``, one of every
        common row's ID, the order is by them alone: rows that are not there, or never were, leave
        no trace in it.
        """
        secret = key(self.seed, "batches", stream, epoch)
        if words is not None:
            chosen = self.of(rows)
            return chosen[in_order(secret, words[chosen])]
        order = self.drawn[permutation(secret, len(self.drawn))]
        return order[np.isin(order, self.of(rows))]

    def within(self, members: Index) -> "RowSets":
        """The parts of a model that learns from some rows only; it is judged by all others."""
        return replace(
            self,
            drawn=np.intersect1d(self.drawn, members),
            learn=np.intersect1d(self.learn, members),
            forgotten=np.intersect1d(self.forgotten, members),
        )

    def forget(self, requested: Index) -> "RowSets":
        """The parts once ``requested`` rows must go; those outside training are dropped at once."""
        return replace(
            self,
            forgotten=np.intersect1d(self.learn, requested),
            validation=np.setdiff1d(self.validation, requested),
            test=np.setdiff1d(self.test, requested),
        )

    def forgotten_for_good(self) -> "RowSets":
        """The parts after the request: D_u is gone."""
        return replace(self, learn=self.retain, forgotten=np.empty(0, np.int64))

    def _halves(self) -> tuple[Index, Index]:
        retain = self.retain
        order = permutation(key(self.seed, "half", self.stream), len(retain))
        middle = len(retain) // 2
        return np.sort(retain[order[:middle]]), np.sort(retain[order[middle:]])

    def _part(self, purpose: str, share: float) -> Index:
        retain = self.retain
        order = permutation(key(self.seed, purpose), len(retain))
        return np.sort(retain[order[: ceil(share * len(retain))]])


class Batches:
    """Cuts row sets into batches; the order of each one's present epoch is drawn once."""

    def __init__(self, rows: RowSets, stream: str, words: Words | None = None) -> None:
        self.rows, self.stream, self._words = replace(rows, stream=stream), stream, words
        self._orders: dict[int, tuple[tuple[int, int], Index]] = {}  # by row set

    def of(self, ask: vfl_pb2.Ask) -> Index:
        """The rows of one batch; raises ``RemoteProtocolError`` when there is no such batch."""
        order = self._order(ask)
        batch = order[ask.index * ask.size : (ask.index + 1) * ask.size]
        if not len(batch):
            raise RemoteProtocolError(f"asks for batch {ask.index} of {len(order)} rows")
        return batch

    def _order(self, ask: vfl_pb2.Ask) -> Index:
        """The rows of the epoch that is asked for; unlearning goes to and fro between row sets."""
        epoch = (ask.order, ask.epoch)
        known = self._orders.get(ask.rows)
        if known is not None and known[0] == epoch:
            return known[1]
        if ask.order == vfl_pb2.SHUFFLED:
            found = self.rows.shuffled(ask.rows, self.stream, ask.epoch, self._words)
        else:
            found = self.rows.of(ask.rows)
        self._orders[ask.rows] = epoch, found
        return found


def split(agreement: Agreement, ids: list[bytes], in_test: NDArray[np.bool_]) -> RowSets:
    """Divide the common rows; ``ids`` and ``in_test`` are in the common order.

    Raises:
        PolicyError: a part would be empty.
    """
    plan = agreement.split
    draw = shares(key(agreement.seed, "split"), ids)
    test_share = 0.0 if plan.kind == "official" else (plan.test or 0.0)
    test = in_test if plan.kind == "official" else draw < test_share
    validation = ~test & (draw >= test_share) & (draw < test_share + plan.validation)
    parts = {"training": ~test & ~validation, "validation": validation, "test": test}
    for part, chosen in parts.items():
        if not chosen.any():
            raise PolicyError(
                f"none of the {len(ids)} common rows is for {part}",
                "change [split], or bring more rows",
            )
    learn, validation_rows, test_rows = (np.flatnonzero(chosen) for chosen in parts.values())
    return RowSets(
        seed=agreement.seed,
        shares=Shares.of(agreement),
        drawn=learn,
        learn=learn,
        validation=validation_rows,
        test=test_rows,
        forgotten=np.empty(0, np.int64),
    )
