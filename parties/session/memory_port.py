"""Port for spokes in the same process, for --in-process and tests; messages stay in memory."""

from queue import Empty, Queue

from protocol.errors import PeerSilent
from protocol.line import Line, MemoryLine, memory_lines


class MemoryPort:
    """The hub's port for spokes in the same process."""

    def __init__(self) -> None:
        self._arrivals: Queue[MemoryLine] = Queue()

    def connect(self, name: str) -> Line:
        """Return the spoke's end of a new connection; ``name`` is the name of the spoke."""
        hub, spoke = memory_lines(name)
        self._arrivals.put(hub)
        return spoke

    def accept(self, timeout: float) -> Line:
        """Return the hub's end of the next new connection.

        Raises:
            PeerSilent: no spoke connected within ``timeout`` seconds.
        """
        try:
            return self._arrivals.get(timeout=timeout)
        except Empty:
            raise PeerSilent(f"no spoke connected within {timeout:g} s") from None
