"""Workers: the multiplications of the hardened intersection, on as many cores as the seat allows.

They are processes, because threads would wait for each other: a multiplication is so short that
handing over Python's lock takes about as long. They are spawned: gRPC does not survive a fork.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread

from psi.spread import Piece, Result, Spread, alone


@contextmanager
def workers(count: int, step: Callable[[], object]) -> Iterator[Spread]:
    """A spread over ``count`` workers; ``step`` is called after every piece of work."""
    if count == 1:
        yield _counted(alone, step)
        return
    with ProcessPoolExecutor(count, get_context("spawn"), end_with_parent) as pool:
        yield _counted(pool.map, step)


def end_with_parent() -> None:
    """In a process of a pool: end when its parent was killed, after which nobody ends it."""
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _counted(spread: Spread, step: Callable[[], object]) -> Spread:
    def counted(work: Callable[[Piece], Result], pieces: Iterable[Piece], /) -> Iterator[Result]:
        for result in spread(work, pieces):
            step()
            yield result

    return counted
