"""Waiting between two attempts to reach the other parties, longer after each failure."""

import random
from time import sleep

from parties.session.party import PartyContext

SHORTEST, LONGEST = 0.2, 30.0  # seconds
STEADY = 60.0  # seconds of a session after which the next wait is short again


class Backoff:
    """Waits after a lost connection: at first a fraction of a second, later up to half a minute."""

    def __init__(self, party: PartyContext) -> None:
        self._party, self._seconds = party, SHORTEST

    def wait(self, error: Exception, lasted: float) -> None:
        """Report ``error``, which ended a session of ``lasted`` seconds, and wait."""
        self._seconds = SHORTEST if lasted > STEADY else min(2 * self._seconds, LONGEST)
        self._party.progress.warn(f"{error}; connecting again")
        sleep(random.uniform(0.5, 1.0) * self._seconds)  # noqa: S311  jitter, no secret
