"""Parallel maps: functions that distribute computations on many points over workers.

A worker calls a module-level function with one chunk as the argument. A chunk contains only bytes
and numbers, so it can be sent to a worker in another process. The results have the order of the
chunks, so the messages of a run do not depend on the number of workers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

Chunk = TypeVar("Chunk")
ChunkResult = TypeVar("ChunkResult")
Item = TypeVar("Item")

CHUNK_POINTS = 256  # points in a chunk of work: about ten milliseconds
BLOCK_POINTS = 16 * CHUNK_POINTS  # points in a message


class ParallelMap(Protocol):
    """The ``map`` function of a pool of workers; the results have the order of the chunks."""

    def __call__(
        self, work: Callable[[Chunk], ChunkResult], work_chunks: Iterable[Chunk], /
    ) -> Iterable[ChunkResult]:
        """The result of ``work`` for each of ``work_chunks``."""


def serial_map(
    work: Callable[[Chunk], ChunkResult], work_chunks: Iterable[Chunk], /
) -> Iterator[ChunkResult]:
    """A parallel map without workers: one chunk after the other, in this process."""
    return map(work, work_chunks)


def chunks(items: Sequence[Item], size: int = CHUNK_POINTS) -> Iterator[tuple[int, Sequence[Item]]]:
    """Cut ``items`` into chunks of ``size``, each with the position of the chunk's first item."""
    for first in range(0, len(items), size):
        yield first, items[first : first + size]
