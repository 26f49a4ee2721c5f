"""Spread: how the work on many points is shared out among workers that the caller brings.

A piece of work is one argument of a function of a module, both of them plain bytes and numbers, so
that a worker may be another process. The order of pieces and results is fixed: the bytes of a run
do not depend on how many workers there are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

PIECE = 256  # points in one piece of work: about ten milliseconds
BLOCK = 16 * PIECE  # points in one message


class Spread(Protocol):
    """The ``map`` of a pool of workers: results come in the order of the pieces."""

    def __call__(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], /
    ) -> Iterable[Result]:
        """The result of ``work`` on every piece."""


def alone(work: Callable[[Piece], Result], pieces: Iterable[Piece], /) -> Iterator[Result]:
    """A spread without workers: one piece after the other, here."""
    return map(work, pieces)


def pieces(items: Sequence[Piece], size: int = PIECE) -> Iterator[tuple[int, Sequence[Piece]]]:
    """Cut ``items`` into runs of ``size``, each with the position of its first item."""
    for first in range(0, len(items), size):
        yield first, items[first : first + size]
