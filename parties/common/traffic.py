"""The ledger of a run: what crossed, by peer, kind and task, and where the time went."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from protocol.channel import Crossing, Way

PHASES = ("psi", "forward", "backward", "unlearning", "control")
_PSI = {"Share", "Shares", "Offer", "Answer", "Matrix", "Store", "Matches", "Aligned"}
_PSI |= {"Blinded", "Evaluated", "Proof"}
_BACKWARD = {"Step", "Gradient"}
_PASSES = _BACKWARD | {"Ask", "Show", "Look", "Embedding"}


def phase_of(kind: str, task: str) -> str:
    """The phase of the report to which a message counts."""
    if kind in _PSI:
        return "psi"
    if kind not in _PASSES:
        return "control"
    if task in ("unlearn", "reference"):
        return "unlearning"
    return "backward" if kind in _BACKWARD else "forward"


@dataclass(slots=True)
class Total:
    """Sums over messages."""

    messages: int = 0
    rows: int = 0
    payload: int = 0
    size: int = 0

    def add(self, other: "Total | Crossing") -> None:
        """Add one message, or other sums."""
        self.messages += other.messages if isinstance(other, Total) else 1
        self.rows += other.rows
        self.payload += other.payload
        self.size += other.size


class Ledger:
    """Grows with the kinds of messages, not with their number."""

    def __init__(self, crossed: Callable[[int], None]) -> None:
        self._crossed = crossed
        self._totals: dict[tuple[str, Way, str, str], Total] = defaultdict(Total)
        self._seconds: dict[str, float] = defaultdict(float)
        self._began, self._carried = perf_counter(), 0.0

    def record(self, crossing: Crossing) -> None:
        """Take down one message."""
        self._totals[crossing.peer, crossing.way, crossing.kind, crossing.task].add(crossing)
        self._crossed(crossing.size)

    @contextmanager
    def clock(self, phase: str) -> Iterator[None]:
        """Count the time inside to ``phase``."""
        started = perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += perf_counter() - started

    @property
    def elapsed(self) -> float:
        """Seconds that the run took so far, what was lost by a crash left out."""
        return self._carried + perf_counter() - self._began

    def sums(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        totals = [[peer, way.value, *at, asdict(t)] for (peer, way, *at), t in self._totals.items()]
        return {"totals": totals, "seconds": dict(self._seconds), "elapsed": self.elapsed}

    def carry(self, sums: dict[str, Any]) -> None:
        """Go on from the sums of a checkpoint; what came after it will be done again."""
        self._totals.clear()
        self._seconds.clear()
        for peer, way, kind, task, total in sums["totals"]:
            self._totals[peer, Way(way), kind, task].add(Total(**total))
        for phase, seconds in sums["seconds"].items():
            self._seconds[phase] += seconds
        self._carried, self._began = sums["elapsed"], perf_counter()

    def total(self, kind: str | None = None) -> Total:
        """All that crossed so far, or all of one kind."""
        total = Total()
        for (_, _, name, _), part in self._totals.items():
            if kind in (None, name):
                total.add(part)
        return total

    def by_phase(self) -> list[dict[str, Any]]:
        """Seconds, bytes and messages of every phase."""
        sums = {phase: Total() for phase in PHASES}
        for (_, _, kind, task), part in self._totals.items():
            sums[phase_of(kind, task)].add(part)
        return [
            {
                "phase": phase,
                "seconds": self._seconds[phase],
                "bytes": total.size,
                "payload": total.payload,
                "messages": total.messages,
            }
            for phase, total in sums.items()
        ]

    def by_peer(self) -> list[dict[str, Any]]:
        """Bytes in and out for every peer."""
        peers = sorted({peer for peer, *_ in self._totals})
        return [self._peer(peer) for peer in peers]

    def _peer(self, name: str) -> dict[str, Any]:
        ways = {way: Total() for way in Way}
        for (peer, way, _, _), part in self._totals.items():
            if peer == name:
                ways[way].add(part)
        return {
            "peer": name,
            "bytes_in": ways[Way.IN].size,
            "bytes_out": ways[Way.OUT].size,
            "messages": ways[Way.IN].messages + ways[Way.OUT].messages,
        }
