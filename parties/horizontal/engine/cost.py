"""The cost of an unlearning method: seconds and bytes, without those of measurements."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a method until now.

    Attributes:
        seconds: run time.
        size: number of bytes sent and received.
    """

    seconds: float = 0.0
    size: int = 0


class CostMeter:
    """Measures the cost of a method from the construction of this object on.

    Args:
        sent: function that returns the number of bytes sent and received until now.
    """

    def __init__(self, sent: Callable[[], int]) -> None:
        self._sent = sent
        self.restore(Cost())

    @property
    def spent(self) -> Cost:
        """The cost until now."""
        return Cost(perf_counter() - self._seconds, self._sent() - self._size)

    def restore(self, spent: Cost) -> None:
        """Continue from the cost ``spent``."""
        self._seconds, self._size = perf_counter() - spent.seconds, self._sent() - spent.size

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside the ``with`` block."""
        before = self.spent
        yield
        self.restore(before)
