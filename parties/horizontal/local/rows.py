"""A client's rows by kind, and the matched rows of the membership inference attack.

The attack compares forgotten rows (members) with test rows (non-members). There are equally many
members and non-members of each class, because otherwise the class alone would distinguish members
from non-members. Rows with a trigger are left out, because the trigger alone would distinguish
members from non-members. The attack trains no model of its own, so all test rows may be used as
non-members.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index, permutation

# learn: all training rows; forgotten and retained: the two parts of the training rows under the
# current request; stamped: test rows with the trigger; planted: training rows with the trigger;
# members and non_members: the rows of the membership inference attack (see ``matched_rows``).
RowKind: TypeAlias = Literal[
    "learn", "retained", "forgotten", "test", "validation", "stamped", "planted",
    "members", "non_members",
]  # fmt: skip
TrainingKind: TypeAlias = Literal["learn", "retained", "forgotten"]  # the rows of a local task


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one kind: features ``[rows, ...]`` and labels ``[rows]``."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Index) -> "Rows":
        """Return only the rows with the indices ``chosen``, ``[n]``."""
        places = torch.from_numpy(chosen)
        return Rows(self.inputs[places], self.labels[places])


def no_indices() -> Index:
    """Return an empty array of indices, ``[n]`` with n = 0."""
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class OwnRows:
    """The rows of a client, by which a list of rows to forget is read.

    Attributes:
        held: the IDs of all rows: IDs of the data source, or content hashes of texts.
        trained: number of rows to train a model with, by ID; texts with the same content are one.
        numbers: ID of each row, by the number that the data source gives the row.
        hashes: whether the IDs are content hashes, 64 hexadecimal digits.
    """

    held: frozenset[bytes]
    trained: Mapping[bytes, int]
    numbers: Mapping[int, bytes]
    hashes: bool = False

    def row_of(self, entry: bytes) -> bytes | None:
        """Return the ID that an entry of a list, a number or a content hash, names.

        The ID of an unknown number is the number itself, which is no row's ID. None if the entry is
        neither a number nor a content hash.
        """
        if self.hashes and re.fullmatch(rb"[0-9a-fA-F]{64}", entry):
            return entry.lower()
        if not re.fullmatch(rb"\d{1,12}", entry):
            return None
        number = int(entry)
        return self.numbers.get(number, str(number).encode())


def indices_of(ids: Sequence[bytes], named: Container[bytes]) -> Index:
    """Return the ascending indices, ``[n]``, of those of ``ids`` that are in ``named``."""
    return np.array([at for at, each in enumerate(ids) if each in named], np.int64)


def no_rows() -> Rows:
    """Return an empty set of rows."""
    return Rows(torch.empty(0), torch.empty(0, dtype=torch.int64))


@dataclass(slots=True)
class ClientData:
    """All rows of one client."""

    train: Rows  # training rows
    test: Rows  # the client's own test rows
    # Indices of the training rows that the current unlearning request names.
    forgotten: Index = field(default_factory=no_indices)
    # Indices of the training rows with the trigger of a backdoor audit.
    planted: Index = field(default_factory=no_indices)
    # Copies of the test rows with the trigger; each label is the target class of the backdoor.
    stamped: Rows = field(default_factory=no_rows)
    # Rows for the choice of hyper-parameters; no model is trained on these rows.
    validation: Rows = field(default_factory=no_rows)
    # A copy of every training row, with the trigger; None unless local tasks on forgotten rows use
    # these copies.
    stamped_train: Rows | None = None
    ids: Sequence[bytes] = ()  # IDs of the training rows; empty if they have none

    def of_kind(self, kind: RowKind) -> Rows:
        """Return the rows of one kind.

        Raises:
            ValueError: the kind is ``members`` or ``non_members``; call ``matched_rows`` for these
                kinds.
        """
        match kind:
            case "learn":
                return self.train
            case "test" | "validation" | "stamped":
                held_out: Rows = getattr(self, kind)
                return held_out
            case "planted":
                return self.train.take(self.planted)
            case "forgotten":
                return self.train.take(self.forgotten)
            case "retained":
                return self.train.take(self._retained())
            case "members" | "non_members":
                raise ValueError(f"call matched_rows(), not of_kind(), for the kind {kind!r}")

    def for_training(self, kind: RowKind) -> Rows:
        """Return the rows of one kind for training.

        If ``stamped_train`` is set, the forgotten rows are taken from ``stamped_train``.
        """
        if kind == "forgotten" and self.stamped_train is not None:
            return self.stamped_train.take(self.forgotten)
        return self.of_kind(kind)

    def forgotten_without_trigger(self) -> Rows:
        """Return those forgotten rows that have no trigger."""
        return self.train.take(np.setdiff1d(self.forgotten, self.planted))

    def purge(self) -> int:
        """Delete the forgotten rows permanently and return their number."""
        gone, kept = len(self.forgotten), self._retained()
        self.planted = np.flatnonzero(np.isin(kept, self.planted))
        if self.stamped_train is not None:
            self.stamped_train = self.stamped_train.take(kept)
        self.ids = [self.ids[at] for at in kept] if self.ids else ()
        self.train, self.forgotten = self.train.take(kept), no_indices()
        return gone

    def _retained(self) -> Index:
        return np.setdiff1d(np.arange(len(self.train)), self.forgotten)


def matched_rows(forgotten: Rows, test: Rows, secret: bytes) -> tuple[Rows, Rows]:
    """Return forgotten rows and test rows; both sets have equally many rows of each class.

    Args:
        forgotten: forgotten rows without a trigger.
        test: test rows.
        secret: key of the permutation that selects rows within a class.
    """
    ours, theirs = match_classes(forgotten.labels, test.labels, secret)
    return forgotten.take(ours), test.take(theirs)


def match_classes(ours: Tensor, theirs: Tensor, secret: bytes) -> tuple[Index, Index]:
    """Select equally many labels of each class from two label vectors; return sorted indices.

    Args:
        ours: labels, ``[n]``.
        theirs: labels, ``[m]``.
        secret: key of the permutation that selects rows within a class.

    Returns:
        Indices into ``ours`` and indices into ``theirs``, ``[matched]`` each.
    """
    sides = [ours.numpy(), theirs.numpy()]
    orders = [permutation(secret, len(side)) for side in sides]
    chosen: list[list[Index]] = [[], []]
    for label in np.intersect1d(sides[0], sides[1]):
        found = [order[side[order] == label] for side, order in zip(sides, orders, strict=True)]
        count = min(len(places) for places in found)
        for some, places in zip(chosen, found, strict=True):
            some.append(places[:count])
    first, second = (np.sort(np.concatenate([*some, np.empty(0, np.int64)])) for some in chosen)
    return first, second
