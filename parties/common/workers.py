"""Worker processes for the curve multiplications of the hardened private set intersection.

Several threads would not be faster than one thread: one multiplication takes about as long as
passing Python's interpreter lock to another thread. Worker processes are spawned, not forked,
because gRPC fails in a forked process.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread

from psi.parallel import Chunk, ChunkResult, ParallelMap, serial_map


@contextmanager
def parallel_workers(count: int, step: Callable[[], object]) -> Iterator[ParallelMap]:
    """Yield a ``map`` function that uses ``count`` processes; a single one is this process itself.

    Args:
        count: number of processes.
        step: called after each finished chunk of multiplications.
    """
    if count == 1:
        yield _counted(serial_map, step)
        return
    with ProcessPoolExecutor(count, get_context("spawn"), end_with_parent) as pool:
        yield _counted(pool.map, step)


def end_with_parent() -> None:
    """Start a thread that ends this worker process when its parent process has ended."""
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _counted(parallel_map: ParallelMap, step: Callable[[], object]) -> ParallelMap:
    def counted(
        work: Callable[[Chunk], ChunkResult], work_chunks: Iterable[Chunk], /
    ) -> Iterator[ChunkResult]:
        for result in parallel_map(work, work_chunks):
            step()
            yield result

    return counted
