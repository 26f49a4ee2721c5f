"""Reconnection: which errors mean a lost connection, and how long a party waits for its peer."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Protocol, TypeVar

from parties.common.errors import ABSENT, abort_reason
from parties.session.party import PartyContext
from protocol.errors import Aborted, LineBroken, PeerSilent

T = TypeVar("T")


MAX_FRUITLESS_LOSSES = 3  # connection losses without progress between them
SHORTEST, LONGEST = 0.2, 30.0  # seconds between two attempts of a party that serves
STEADY = 60.0  # seconds of a session after which the next wait is short again


class Reconnect:
    """Joins a session again after a lost connection, a limited number of times.

    Args:
        party: this party.
        progress: returns a number that grows as the run advances; if the number has grown since the
            last connection loss, the count of losses starts again.
    """

    def __init__(self, party: PartyContext, progress: Callable[[], int]) -> None:
        self._party, self._progress = party, progress
        self._fruitless, self._newest = 0, -1
        self._lost: Exception | None = None

    def join(self, join: Callable[[float], T]) -> T:
        """Call ``join`` with the number of seconds that ``join`` may wait; return its result.

        Raises:
            ProtocolError: the peer did not reconnect in time; the error that ended the lost
                connection is raised again.
        """
        limits = self._party.limits
        if self._lost is None:
            return join(limits.join_seconds)
        try:
            return join(limits.rejoin_seconds)
        except (LineBroken, PeerSilent) as error:
            raise self._lost from error

    def wait_or_raise(self, error: Exception) -> None:
        """Warn that the party waits for its peer, or raise ``error`` if waiting cannot help.

        Raises:
            Exception: ``error`` itself, if ``error`` is not a connection loss, if
                ``limits.rejoin_seconds`` is 0, or if the connection was lost too often without
                progress.
        """
        seconds = self._party.limits.rejoin_seconds
        if not is_connection_loss(error) or not seconds:
            raise error
        done = self._progress()
        self._fruitless = 1 if done > self._newest else self._fruitless + 1
        self._newest = max(done, self._newest)
        if self._fruitless > MAX_FRUITLESS_LOSSES:
            raise error
        self._lost = error
        most = "" if self._party.supervised else f" up to {seconds:g} s"
        self._party.progress.warn(f"{error}; waiting{most} for a new connection")


class Session(Protocol):
    """A channel to one peer, or to several peers."""

    def abort(self, code: str, reason: str) -> None:
        """Send the code and the reason of an error."""

    def close(self) -> None:
        """Close the connection."""


@contextmanager
def report_and_close(session: Session) -> Iterator[None]:
    """Close ``session`` after a ``with`` block; first report an error of the block to the peers."""
    try:
        yield
    except Exception as error:
        session.abort(*abort_reason(error))
        raise
    finally:
        session.close()


def is_connection_loss(error: Exception) -> bool:
    """Return whether ``error`` means that the connection to a party was lost."""
    if isinstance(error, Aborted):
        return error.code == ABSENT
    return isinstance(error, LineBroken | PeerSilent)


class Backoff:
    """Waits after a lost connection: at first a fraction of a second, later up to half a minute."""

    def __init__(self, party: PartyContext) -> None:
        self._party, self._seconds = party, SHORTEST

    def wait(self, error: Exception, lasted: float) -> None:
        """Report ``error``, which ended a session of ``lasted`` seconds, and wait."""
        self._seconds = SHORTEST if lasted > STEADY else min(2 * self._seconds, LONGEST)
        self._party.progress.warn(f"{error}; connecting again")
        sleep(random.uniform(0.5, 1.0) * self._seconds)  # noqa: S311  jitter, no secret
