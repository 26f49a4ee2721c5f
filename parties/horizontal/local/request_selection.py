"""Rows of a client that a request names: marked, unmarked and deleted, for rows and for texts."""

from abc import ABC, abstractmethod
from typing import Protocol

from parties.common.shared_randomness import Index
from parties.horizontal.local.rows import no_indices


class ForgettableData(Protocol):
    """A client's data, of which the rows to forget are marked.

    Attributes:
        forgotten: indices of the training rows to forget, ``[n]``.
    """

    forgotten: Index

    def purge(self) -> int:
        """Delete the rows to forget permanently, and return their number."""


class RequestSelection(ABC):
    """The part of a client's task that marks and deletes the rows of a request."""

    __slots__ = ()

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

    def clear_request(self) -> None:
        """Unmark all rows to forget."""
        self._data.forgotten = no_indices()

    def purge(self) -> int:
        """Delete the rows to forget permanently, and return their number."""
        return self._data.purge()
