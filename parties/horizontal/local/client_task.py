"""A client's part of a task: local tasks, evaluation, and the rows that a request names."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from parties.common.shared_randomness import Index
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind, no_indices


class ForgettableData(Protocol):
    """A client's data, of which the rows to forget are marked."""

    forgotten: Index  # indices of the training rows to forget, ``[n]``
    ids: Sequence[bytes]  # IDs of the training rows, or content hashes of their texts

    def purge(self) -> int:
        """Delete the rows to forget permanently, and return their number."""


class ClientTask(ABC):
    """A client's part of a task."""

    name: str  # name of the client
    branch: str  # name of the current branch
    # A vector with the personal parameters of the current branch, ``[d]``; None before the first
    # local task.
    personal: Tensor | None
    branches: dict[str, Tensor | None]  # the personal parameters of each branch

    @property
    @abstractmethod
    def size(self) -> int:
        """d, the number of elements of a model's vector."""

    @property
    @abstractmethod
    def has_rows(self) -> bool:
        """Whether any training rows are left."""

    @abstractmethod
    def run_task(self, kind: RowKind, task: LocalTask, slots: Slots) -> LocalUpdate:
        """Carry out a local task on rows of one kind; ``slots`` are vectors by name, ``[d]``.

        Raises:
            LocalTaskError: the client has no rows of this kind, or cannot carry out the task.
        """

    @abstractmethod
    def evaluate(
        self, kind: RowKind, model: Tensor, parameters: ParameterSource = "personal"
    ) -> RowMetrics:
        """Return the metrics of a model, ``[d]``, on the client's rows of one kind."""

    @abstractmethod
    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch to the personal parameters of the branch ``branch``.

        A new branch starts with the personal parameters of the branch ``parent``, or without
        personal parameters if ``parent`` is None.
        """

    @abstractmethod
    def pack_personal(self, vector: Tensor) -> Tensor:
        """Return only the personal parameters, ``[personal]``, of a parameter vector, ``[d]``."""

    @abstractmethod
    def unpack_personal(self, packed: Tensor) -> Tensor:
        """Return a vector, ``[d]``, with the personal parameters ``packed``, ``[personal]``."""

    @abstractmethod
    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return the client's personalised model, ``[d]``, as tensors by name, of any shape."""

    @property
    @abstractmethod
    def _data(self) -> ForgettableData:
        """The client's data."""

    @abstractmethod
    def _named_rows(self, request: str) -> Index | None:
        """The training rows that a request names, ``[n]``; None for an unknown request."""

    def select_request(self, request: str) -> bool:
        """Mark the rows that a request names as the rows to forget.

        Returns:
            True if the agreement contains this request; otherwise False.
        """
        named = self._named_rows(request)
        if named is not None:
            self._data.forgotten = named
        return named is not None

    @property
    def ids(self) -> Sequence[bytes]:
        """The IDs of the training rows, or the hashes of their texts; empty if they have none."""
        return self._data.ids

    @property
    def named_ids(self) -> list[bytes]:
        """The IDs of the rows to forget; empty if the client's rows have no IDs."""
        return [self.ids[at] for at in self._data.forgotten] if self.ids else []

    def clear_request(self) -> None:
        """Unmark all rows to forget."""
        self._data.forgotten = no_indices()

    def purge(self) -> int:
        """Delete the rows to forget permanently, and return their number."""
        return self._data.purge()
