"""The row sets of a vertical run: training, validation and test rows, forgotten rows, and batches.

Every party computes the same row sets from the agreed seed, so no message contains row sets, except
for a split by time: the active party, which alone has dates, sends the part of each row once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from configs.agreement import SplitSettings, VerticalAgreement
from parties.common.errors import PolicyError
from parties.common.shared_randomness import (
    Index,
    Words,
    derive_key,
    id_fractions,
    keyed_order,
    permutation,
)
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError


@dataclass(frozen=True, slots=True)
class Sample:
    """A fixed part of D_r: the row set ``SAMPLE``."""

    stream: str  # random stream of the draw
    share: float  # fraction of the rows of D_r


@dataclass(frozen=True, slots=True)
class RowSets:
    """The common rows of each set, as indices into the common order, ascending."""

    seed: int  # the agreed seed, from which every sample and every order is computed
    # [rows], all training rows at the start of the run; each epoch shuffles these rows.
    initial_train: Index
    train: Index  # [rows], the set D of all training rows that no earlier request removed
    validation: Index  # [rows], rows for early stopping and thresholds
    test: Index  # [rows], rows for the metrics of the report
    forgotten: Index  # [rows], D_u: the part of ``train`` that the current request removes
    # Random stream of the current model. For a shadow model, the stream also selects the half of
    # D_r on which this model is trained.
    stream: str = ""
    sample: Sample | None = None  # the row set ``SAMPLE``; None: it has no rows
    # Whether the current request corrects labels: D_u stays in D_r, with other labels.
    corrects: bool = False

    def arrays(self) -> dict[str, Index]:
        """The sets that are stored as index arrays, each [rows], by attribute name."""
        return {
            "initial_train": self.initial_train,
            "train": self.train,
            "validation": self.validation,
            "test": self.test,
            "forgotten": self.forgotten,
        }

    @property
    def retain(self) -> Index:
        """D_r, [rows]: training rows that are not forgotten; all if the request corrects labels."""
        if self.corrects:
            return self.train
        return np.setdiff1d(self.train, self.forgotten, assume_unique=True)

    def select(self, rows: vfl_pb2.Rows) -> Index:
        """The indices, [rows], of the row set with the enum value ``rows``, ascending.

        Raises:
            RemoteProtocolError: ``rows`` is not the enum value of a row set.
        """
        sets: dict[int, Callable[[], Index]] = {
            vfl_pb2.TRAIN_ROWS: lambda: self.train,
            vfl_pb2.RETAIN: lambda: self.retain,
            vfl_pb2.FORGOTTEN: lambda: self.forgotten,
            vfl_pb2.VALIDATION: lambda: self.validation,
            vfl_pb2.TEST: lambda: self.test,
            vfl_pb2.TRIGGERED: lambda: self.test,
            vfl_pb2.SAMPLE: self._sampled,
            vfl_pb2.SHADOW_HALF: lambda: self._halves()[0],
            vfl_pb2.SHADOW_OTHER_HALF: lambda: self._halves()[1],
        }
        if rows not in sets:
            raise RemoteProtocolError(
                f"the active party requests row set {rows}, but vfl.proto defines no such row set"
            )
        return sets[rows]()

    def shuffled(
        self, rows: vfl_pb2.Rows, stream: str, epoch: int, words: Words | None = None
    ) -> Index:
        """The indices of a row set in the order of one epoch, [rows].

        All initial training rows are shuffled, and rows outside the set are skipped. Therefore a
        Retrain with the same stream reads the rows of D_r in the same order as the trained model.

        ``words``, [common_rows], has one random word per row ID. If ``words`` is given, the order
        depends only on the random words of the rows in the set. Rows that were removed, or never
        present, do not influence the order.
        """
        secret = derive_key(self.seed, "batches", stream, epoch)
        if words is not None:
            chosen = self.select(rows)
            return chosen[keyed_order(secret, words[chosen])]
        order = self.initial_train[permutation(secret, len(self.initial_train))]
        return order[np.isin(order, self.select(rows))]

    def restricted(self, members: Index) -> "RowSets":
        """Return these row sets without the training rows that are not in ``members``, [rows].

        Validation and test rows do not change.
        """
        return replace(
            self,
            initial_train=np.intersect1d(self.initial_train, members),
            train=np.intersect1d(self.train, members),
            forgotten=np.intersect1d(self.forgotten, members),
        )

    def forget(self, requested: Index, *, corrects: bool = False) -> "RowSets":
        """Return the row sets after a request to forget rows, or to correct their labels.

        Requested training rows become D_u. Requested validation and test rows are left out of the
        returned sets, unless their labels are corrected.

        Args:
            requested: the rows of the request, [rows].
            corrects: whether D_u stays in D_r, with other labels.
        """
        if corrects:
            learned = np.intersect1d(self.train, requested)
            return replace(self, forgotten=learned, corrects=True)
        return replace(
            self,
            forgotten=np.intersect1d(self.train, requested),
            corrects=False,
            validation=np.setdiff1d(self.validation, requested),
            test=np.setdiff1d(self.test, requested),
        )

    def without_forgotten(self) -> "RowSets":
        """The sets after the request was carried out: D_r becomes D, and D_u is empty."""
        gone = np.empty(0, np.int64)
        return replace(self, train=self.retain, forgotten=gone, corrects=False)

    def _halves(self) -> tuple[Index, Index]:
        retain = self.retain
        order = permutation(derive_key(self.seed, "half", self.stream), len(retain))
        middle = len(retain) // 2
        return np.sort(retain[order[:middle]]), np.sort(retain[order[middle:]])

    def _sampled(self) -> Index:
        if self.sample is None:
            return np.empty(0, np.int64)
        retain = self.retain
        order = permutation(derive_key(self.seed, self.sample.stream), len(retain))
        return np.sort(retain[order[: ceil(self.sample.share * len(retain))]])


class Batches:
    """The batches of all row sets; the order of a row set is computed once per epoch."""

    def __init__(self, rows: RowSets, stream: str, words: Words | None = None) -> None:
        self.rows, self.stream, self._words = replace(rows, stream=stream), stream, words
        self._orders: dict[int, tuple[tuple[int, int], Index]] = {}  # by row set

    def rows_of(self, request: vfl_pb2.BatchRequest) -> Index:
        """The row indices of one batch, [batch].

        Raises:
            RemoteProtocolError: the batch is beyond the end of the row set.
        """
        order = self._order(request)
        batch = order[request.index * request.size : (request.index + 1) * request.size]
        if not len(batch):
            raise RemoteProtocolError(
                f"the active party requests batch {request.index} of size {request.size}, but the "
                f"row set has only {len(order)} rows"
            )
        return batch

    def _order(self, request: vfl_pb2.BatchRequest) -> Index:
        """The indices of the requested row set in the requested order, [rows].

        The last order of each row set is kept, because unlearning alternates between two row sets.
        """
        epoch = (request.order, request.epoch)
        last = self._orders.get(request.rows)
        if last is not None and last[0] == epoch:
            return last[1]
        if request.order == vfl_pb2.SHUFFLED:
            indices = self.rows.shuffled(request.rows, self.stream, request.epoch, self._words)
        else:
            indices = self.rows.select(request.rows)
        self._orders[request.rows] = epoch, indices
        return indices


IN_TRAINING, IN_VALIDATION, IN_TEST = 0, 1, 2  # the parts of a split by time


def time_parts(plan: SplitSettings, times: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The part of each common row in a split by time: [common_rows].

    The newest rows are test rows, and the newest of the others are validation rows. Each of the two
    parts begins with all rows of one date, so it has at least the agreed fraction of the rows.

    Args:
        plan: the fractions of the parts.
        times: [common_rows], the dates, as numbers that grow with time.
    """
    parts = np.full(len(times), IN_TRAINING, np.uint8)
    for part, share in ((IN_TEST, plan.test or 0.0), (IN_VALIDATION, plan.validation)):
        left = np.sort(times[parts == IN_TRAINING])
        count = min(len(left), ceil(share * len(times)))
        if count:
            parts[(parts == IN_TRAINING) & (times >= left[-count])] = part
    return parts


def split_rows(
    agreement: VerticalAgreement,
    ids: list[bytes],
    in_test: NDArray[np.bool_],
    parts: NDArray[np.uint8] | None = None,
) -> RowSets:
    """Divide the common rows into training, validation and test rows.

    Args:
        agreement: defines the kind of split, and the fractions of validation and test rows.
        ids: the IDs of the common rows, in the common order.
        in_test: [common_rows], true for rows of the official test set, in the common order.
        parts: [common_rows], the part of each row in a split by time; None for other splits.

    Raises:
        PolicyError: one of the three sets would be empty.
        LookupError: the split is by time, but ``parts`` is None.
    """
    plan = agreement.split
    if plan.kind == "time":
        if parts is None:
            raise LookupError("a split by time needs the parts that the active party sends")
        test, validation = parts == IN_TEST, parts == IN_VALIDATION
    else:
        draw = id_fractions(derive_key(agreement.seed, "split"), ids)
        test_share = 0.0 if plan.kind == "official" else (plan.test or 0.0)
        test = in_test if plan.kind == "official" else draw < test_share
        validation = ~test & (draw >= test_share) & (draw < test_share + plan.validation)
    return _row_sets(agreement.seed, test, validation)


def _row_sets(seed: int, test: NDArray[np.bool_], validation: NDArray[np.bool_]) -> RowSets:
    """The row sets from masks of the test rows and of the validation rows, [common_rows]."""
    parts = {"training": ~test & ~validation, "validation": validation, "test": test}
    for part, chosen in parts.items():
        if not chosen.any():
            raise PolicyError(
                f"[split] assigns none of the {len(test)} common rows to the {part} set",
                "change [split], or add rows to every party's data",
            )
    train, validation_rows, test_rows = (np.flatnonzero(chosen) for chosen in parts.values())
    return RowSets(
        seed=seed,
        initial_train=train,
        train=train,
        validation=validation_rows,
        test=test_rows,
        forgotten=np.empty(0, np.int64),
    )


def shuffled_requests(
    rows: vfl_pb2.Rows, count: int, epoch: int, size: int
) -> Iterator[vfl_pb2.BatchRequest]:
    """Yield the requests of one shuffled epoch over a row set of ``count`` rows."""
    for index in range(ceil(count / size)):
        yield vfl_pb2.BatchRequest(
            rows=rows, order=vfl_pb2.SHUFFLED, epoch=epoch, size=size, index=index
        )


def part_of(share: float, count: int) -> int:
    """The number of rows that are a ``share`` of ``count`` rows, rounded up."""
    return ceil(share * count)


def ordered_requests(rows: vfl_pb2.Rows, count: int, size: int) -> Iterator[vfl_pb2.BatchRequest]:
    """Yield the requests of one pass in index order over a row set of ``count`` rows."""
    for index in range(ceil(count / size)):
        yield vfl_pb2.BatchRequest(rows=rows, order=vfl_pb2.BY_INDEX, size=size, index=index)
