"""Port inside one process: spokes connect over memory lines, for --in-process and tests."""

from queue import Empty, Queue

from protocol.errors import PeerSilent
from protocol.line import Line, MemoryLine, memory_lines


class MemoryPort:
    """Connects the spokes of one process with the hub."""

    def __init__(self) -> None:
        self._arrivals: Queue[MemoryLine] = Queue()

    def connect(self, name: str) -> Line:
        """Return the spoke's end of a new line; ``name`` is the name of the spoke."""
        hub, spoke = memory_lines(name)
        self._arrivals.put(hub)
        return spoke

    def accept(self, timeout: float) -> Line:
        """Return the hub's end of the next line.

        Raises:
            PeerSilent: no spoke connected within ``timeout`` seconds.
        """
        try:
            return self._arrivals.get(timeout=timeout)
        except Empty:
            raise PeerSilent(f"no spoke connected for {timeout:g} s") from None
