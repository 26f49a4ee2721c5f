"""SIGTERM: the first one stops a run cleanly, the second one kills the process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from parties.common.errors import Stopped


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Raise ``Stopped`` in the main thread on the first SIGTERM inside the ``with`` block."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Stopped("stopped by SIGTERM", "run the same command to resume from the last checkpoint")
