"""The crash of a party inside a test: none of its code runs any more."""

from collections.abc import Callable

from parties.vertical.engine.party import VerticalParty
from protocol.channel import MessageRecord


class Crash(BaseException):
    """The end of a process: none of its code runs any more, not even error handlers."""


def crash_after(party: VerticalParty, last: int) -> None:
    """Let a party crash after ``last`` messages that it sent or received."""
    record: Callable[[MessageRecord], None] = party.traffic.record
    left = [last]

    def crash_after_last(message: MessageRecord) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        record(message)

    party.traffic.record = crash_after_last  # type: ignore[method-assign]


def count_messages(party: VerticalParty) -> list[int]:
    """The number of messages of a party from now on, as the only entry of a list."""
    record: Callable[[MessageRecord], None] = party.traffic.record
    found = [0]

    def count(message: MessageRecord) -> None:
        found[0] += 1
        record(message)

    party.traffic.record = count  # type: ignore[method-assign]
    return found
