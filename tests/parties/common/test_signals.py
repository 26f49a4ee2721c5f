"""SIGTERM ends a command as ``Stopped``, wherever it arrives."""

import os
import signal

import pytest
from pydantic import BaseModel, PydanticUserError, field_serializer

from parties.common.errors import Stopped
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


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(PydanticUserError), stop_on_sigterm():
        raise PydanticUserError("wrong", code=None)
