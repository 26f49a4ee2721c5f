"""SIGTERM ends a command as ``Stopped``, wherever it arrives."""

import os
import signal
from contextlib import suppress

import pytest
from pydantic import BaseModel, field_serializer

from parties.common.errors import DataError, Stopped
from parties.common.signals import stop_on_sigterm


class Slow(BaseModel):
    """A model during whose serialisation SIGTERM arrives."""

    value: int = 1

    @field_serializer("value")
    def write(self, value: int) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return value


def test_a_signal_inside_pydantic_stops_the_command() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match="stopped by SIGTERM"), stop_on_sigterm():
        Slow().model_dump_json()
    assert signal.getsignal(signal.SIGTERM) == before


def test_another_error_after_the_signal_stays_what_it_is() -> None:
    def work() -> None:
        with suppress(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        raise DataError("row 7 has no label")

    with pytest.raises(DataError, match="no label"), stop_on_sigterm():
        work()
