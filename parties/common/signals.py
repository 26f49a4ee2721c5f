"""A clean stop: the first SIGTERM ends a run at once but in order, the second one the process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from parties.common.errors import Stopped


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the first SIGTERM into ``Stopped``, raised where the main thread is."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Stopped("was told to stop", "the same command goes on from the last checkpoint")
