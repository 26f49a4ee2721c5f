"""SIGTERM: the first one stops a run cleanly, the second one kills the process."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from types import FrameType

from pydantic_core import PydanticSerializationError

from parties.common.errors import Stopped


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Raise ``Stopped`` in the main thread on the first SIGTERM inside the ``with`` block.

    The block also ends with ``Stopped`` if the signal arrived while pydantic serialised, because
    pydantic turns every exception into one of its own then. Other later errors stay what they are.
    """
    raised: list[Stopped] = []

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        hint = "run the same command to resume from the last checkpoint"
        raised.append(Stopped("stopped by SIGTERM", hint))
        raise raised[0]

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except PydanticSerializationError as error:
        if raised:
            raise raised[0] from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_with_parent() -> None:
    """Send SIGTERM to this process when its standard input ends, as it does if the parent ends.

    The parent must have opened a pipe as standard input and must send nothing through the pipe.
    """
    Thread(target=_await_end_of_input, name="parent", daemon=True).start()


def _await_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
