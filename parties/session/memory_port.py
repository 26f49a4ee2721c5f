"""A port inside this process: spokes arrive over memory lines, for debugging and tests."""

from queue import Empty, Queue

from protocol.errors import PeerSilent
from protocol.line import Line, MemoryLine, memory_lines


class MemoryPort:
    """Where the spokes of one process meet their hub."""

    def __init__(self) -> None:
        self._arrivals: Queue[MemoryLine] = Queue()

    def connect(self, name: str) -> Line:
        """The spoke's end of a new line."""
        hub, spoke = memory_lines(name)
        self._arrivals.put(hub)
        return spoke

    def accept(self, timeout: float) -> Line:
        """The hub's end of the next line; raises ``PeerSilent`` when none comes."""
        try:
            return self._arrivals.get(timeout=timeout)
        except Empty:
            raise PeerSilent(f"nobody came for {timeout:g} s") from None
