"""Traffic of a run: bytes and messages by peer, kind of message and task; seconds by phase."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from protocol.channel import MessageDirection, MessageRecord

PHASES = ("psi", "forward", "backward", "unlearning", "control")
_PSI = {"KeyShare", "KeyShares", "OtOffer", "OtAnswer", "OprfMatrix", "KeyValueStore", "MatchTags"}
_PSI |= {"Aligned", "BlindedElements", "EvaluatedElements", "EvaluationProof"}
_BACKWARD = {"Step", "Gradient"}
_PASSES = _BACKWARD | {"BatchRequest", "Evaluate", "Predict", "Embedding"}


def report_phase(kind: str, task: str) -> str:
    """Return the phase, one of ``PHASES``, of a message of kind ``kind`` in the task ``task``."""
    if kind in _PSI:
        return "psi"
    if kind not in _PASSES:
        return "control"
    if task == "unlearn":
        return "unlearning"
    return "backward" if kind in _BACKWARD else "forward"


@dataclass(slots=True)
class TrafficTotal:
    """Total number and total sizes of several messages."""

    messages: int = 0  # number of messages
    rows: int = 0  # number of rows of the messages' tensors
    payload: int = 0  # size of the messages' tensors in bytes
    size: int = 0  # total size of the messages in bytes

    def add(self, other: "TrafficTotal | MessageRecord") -> None:
        """Add one message, or the totals of several messages, to these totals."""
        self.messages += other.messages if isinstance(other, TrafficTotal) else 1
        self.rows += other.rows
        self.payload += other.payload
        self.size += other.size


class TrafficCounter:
    """Counts messages by peer, direction, kind and task, and seconds by phase.

    Args:
        add_bytes: called with the size of each message.
    """

    def __init__(self, add_bytes: Callable[[int], None]) -> None:
        self._add_bytes = add_bytes
        self._totals: dict[tuple[str, MessageDirection, str, str], TrafficTotal] = defaultdict(
            TrafficTotal
        )
        self._seconds: dict[str, float] = defaultdict(float)
        self._began, self._earlier_seconds = perf_counter(), 0.0

    def record(self, message: MessageRecord) -> None:
        """Count one message."""
        self._totals[message.peer, message.direction, message.kind, message.task].add(message)
        self._add_bytes(message.size)

    @contextmanager
    def time_phase(self, phase: str) -> Iterator[None]:
        """Add the duration of the ``with`` block to the seconds of ``phase``."""
        started = perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += perf_counter() - started

    @property
    def elapsed(self) -> float:
        """Return the seconds of the run so far, without the time from a checkpoint to a crash."""
        return self._earlier_seconds + perf_counter() - self._began

    def to_json(self) -> dict[str, Any]:
        """Return all counters as JSON values, to store them in a checkpoint."""
        totals = [
            [peer, direction.value, kind, task, asdict(total)]
            for (peer, direction, kind, task), total in self._totals.items()
        ]
        return {"totals": totals, "seconds": dict(self._seconds), "elapsed": self.elapsed}

    def restore(self, counters: dict[str, Any]) -> None:
        """Replace all counters by ``counters``, a result of ``to_json``."""
        self._totals.clear()
        self._seconds.clear()
        for peer, direction, kind, task, total in counters["totals"]:
            self._totals[peer, MessageDirection(direction), kind, task].add(TrafficTotal(**total))
        for phase, seconds in counters["seconds"].items():
            self._seconds[phase] += seconds
        self._earlier_seconds, self._began = counters["elapsed"], perf_counter()

    def total(self, kind: str | None = None) -> TrafficTotal:
        """Return the sums over all messages, or over messages of one kind."""
        total = TrafficTotal()
        for (_, _, name, _), part in self._totals.items():
            if kind in (None, name):
                total.add(part)
        return total

    def by_phase(self) -> list[dict[str, Any]]:
        """Return seconds, bytes and messages of each phase, in the order of ``PHASES``."""
        sums = {phase: TrafficTotal() for phase in PHASES}
        for (_, _, kind, task), part in self._totals.items():
            sums[report_phase(kind, task)].add(part)
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
        """Return received bytes, sent bytes and messages for each peer."""
        peers = sorted({peer for peer, *_ in self._totals})
        return [self._peer(peer) for peer in peers]

    def _peer(self, name: str) -> dict[str, Any]:
        received, sent = TrafficTotal(), TrafficTotal()
        for (peer, direction, _, _), part in self._totals.items():
            if peer == name:
                (received if direction is MessageDirection.IN else sent).add(part)
        return {
            "peer": name,
            "bytes_in": received.size,
            "bytes_out": sent.size,
            "messages": received.messages + sent.messages,
        }
