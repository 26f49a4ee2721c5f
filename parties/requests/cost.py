"""The cost of an unlearning method: seconds, rows and bytes, without those of measurements."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a method, over all its steps."""

    seconds: float = 0.0  # run time
    rows: int = 0  # number of embeddings that passive parties sent; 0 in modes without embeddings
    size: int = 0  # number of bytes on the wire, in both directions
    payload: int = 0  # the part of ``size`` that tensors take, in bytes; 0 if not measured
    messages: int = 0  # number of messages; 0 if not measured

    def since(self, start: "Cost") -> "Cost":
        """Return the cost that was added since ``start``."""
        return Cost(
            self.seconds - start.seconds,
            self.rows - start.rows,
            self.size - start.size,
            self.payload - start.payload,
            self.messages - start.messages,
        )


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
        return Cost(seconds=perf_counter() - self._seconds, size=self._sent() - self._size)

    def restore(self, spent: Cost) -> None:
        """Continue from the cost ``spent``."""
        self._seconds, self._size = perf_counter() - spent.seconds, self._sent() - spent.size

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside the ``with`` block."""
        before = self.spent
        yield
        self.restore(before)
