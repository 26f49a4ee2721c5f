"""Progress of a party: phase, steps, bytes, figures and notes, sent to a listener as events."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from time import monotonic
from typing import Any

from protocol import vfl_pb2
from protocol.envelope import task_name

REPORT_INTERVAL = 0.1  # seconds between two progress events of one phase


@dataclass(slots=True)
class Progress:
    """Progress of one party in its present phase; the fields of a progress event."""

    party: str  # name of the party
    phase: str = "starting"  # what the party does now
    done: int = 0  # steps done in this phase
    total: int | None = None  # steps of this phase; None if unknown
    size: int = 0  # bytes sent and received since the start
    seconds: float = 0.0  # time spent in this phase
    tokens: int = 0  # tokens that the model processed in this phase

    @property
    def rate(self) -> float:
        """Return steps per second in this phase."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def pace(self) -> str:
        """Return the speed as text: steps per second, or tokens per second of a language model."""
        if self.tokens and self.seconds:
            return f"{self.tokens / self.seconds:,.0f} tokens"
        return f"{self.rate:.0f}" if self.done > 1 else ""

    @property
    def remaining(self) -> float | None:
        """Return the estimated seconds to the end of this phase; None if unknown."""
        return (self.total - self.done) / self.rate if self.total and self.rate else None


Event = dict[str, Any]
ProgressListener = Callable[[Event], None]


def numbers(figures: Mapping[str, object]) -> dict[str, float]:
    """Return the figures that are finite numbers."""
    return {
        name: value
        for name, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    }


class ProgressReporter:
    """Sends progress events of one party to ``listener``, as plain dictionaries.

    Attributes:
        counted: number of steps counted in all phases.
    """

    def __init__(self, party: str, listener: ProgressListener) -> None:
        self._listener = listener
        self._progress = Progress(party)
        self._began = self._reported = monotonic()
        self.counted = 0

    def phase(self, name: str, total: int | None = None) -> None:
        """Start the phase ``name``; ``total`` is its number of steps, or None if unknown."""
        self._began, self._progress.seconds = monotonic(), 0.0
        self._progress.phase, self._progress.done, self._progress.total = name, 0, total
        self._progress.tokens = 0
        self._report()

    def follow(self, place: vfl_pb2.Place) -> None:
        """Count the step at ``place``; begin a new phase if its task or epoch is a new one."""
        if place.task == vfl_pb2.CHECKPOINT:
            return
        name = task_name(place)
        name += f", epoch {place.epoch}" if place.epoch else ""
        if name != self._progress.phase:
            self.phase(name)
        self.step()

    def step(self, count: int = 1) -> None:
        """Count ``count`` steps of this phase as done."""
        self._progress.done += count
        self.counted += count
        if monotonic() - self._reported >= REPORT_INTERVAL:
            self._report()

    def add_bytes(self, size: int) -> None:
        """Count ``size`` bytes that were sent or received."""
        self._progress.size += size

    def add_tokens(self, tokens: int) -> None:
        """Count ``tokens`` tokens that the model processed."""
        self._progress.tokens += tokens

    def measured(self, series: str, step: int, figures: Mapping[str, object]) -> None:
        """Send the figures of one step of a training or method; only finite numbers are sent.

        Args:
            series: name of the training or method.
            step: number of the step, from 1.
            figures: the figures by name.
        """
        self._send("figures", series=series, step=step, figures=numbers(figures))

    def note(self, text: str) -> None:
        """Send a note to the operator."""
        self._send("note", text=text)

    def warn(self, text: str) -> None:
        """Send a warning to the operator."""
        self._send("warning", text=text)

    def _report(self) -> None:
        self._reported = monotonic()
        self._progress.seconds = self._reported - self._began
        self._send("progress", **asdict(self._progress))

    def _send(self, event: str, **fields: Any) -> None:
        self._listener({"event": event, "party": self._progress.party, **fields})
