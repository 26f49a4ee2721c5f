"""Port for spokes in the same process, for --in-process and tests; messages stay in memory."""

from queue import Empty, Queue

from protocol.errors import Aborted, PeerSilent
from protocol.line import Line, MemoryLine, memory_lines


class MemoryPort:
    """The hub's port for spokes in the same process."""

    def __init__(self) -> None:
        self._arrivals: Queue[MemoryLine | None] = Queue()  # None: the port is closed
        self._lines: list[MemoryLine] = []
        self._closed = False

    def connect(self, name: str) -> Line:
        """Return the spoke's end of a new connection; ``name`` is the name of the spoke.

        Raises:
            Aborted: the port is closed.
        """
        if self._closed:
            raise _ended()
        hub, spoke = memory_lines(name)
        self._lines.append(hub)
        self._arrivals.put(hub)
        return spoke

    def accept(self, timeout: float) -> Line:
        """Return the hub's end of the next new connection.

        Raises:
            PeerSilent: no spoke connected within ``timeout`` seconds.
            Aborted: the port is closed.
        """
        try:
            arrived = self._arrivals.get(timeout=timeout)
        except Empty:
            raise PeerSilent(f"no spoke connected within {timeout:g} s") from None
        if arrived is None or self._closed:
            self._arrivals.put(None)
            raise _ended()
        return arrived

    def close(self) -> None:
        """End all connections, and accept no more; every party then ends with ``Aborted``."""
        self._closed = True
        self._arrivals.put(None)
        for line in self._lines:
            line.cut()


def _ended() -> Aborted:
    return Aborted("another party of this process has ended", "local")
