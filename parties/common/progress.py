"""What a party shows while it works: phase, progress, bytes; whoever listens decides how."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from protocol import vfl_pb2
from protocol.envelope import task_name

EVERY = 0.1  # seconds between two reports of one phase


@dataclass(slots=True)
class Progress:
    """Where one party stands, as its listener sees it."""

    party: str
    phase: str = "starting"
    done: int = 0
    total: int | None = None
    size: int = 0  # bytes that crossed so far
    seconds: float = 0.0  # in this phase
    tokens: int = 0  # of texts, in this phase

    @property
    def rate(self) -> float:
        """Steps per second in this phase."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def pace(self) -> str:
        """The speed as people read it: tokens a second where texts are learned."""
        if self.tokens and self.seconds:
            return f"{self.tokens / self.seconds:,.0f} tokens"
        return f"{self.rate:.0f}" if self.done > 1 else ""

    @property
    def remaining(self) -> float | None:
        """Seconds to the end of this phase, where that can be told."""
        return (self.total - self.done) / self.rate if self.total and self.rate else None


Event = dict[str, Any]
Listener = Callable[[Event], None]


class Watch:
    """One party's running commentary; ``listener`` takes plain dictionaries."""

    def __init__(self, party: str, listener: Listener) -> None:
        self._listener = listener
        self._progress = Progress(party)
        self._began = self._told = monotonic()

    def phase(self, name: str, total: int | None = None) -> None:
        """A new phase of ``total`` steps begins."""
        self._began, self._progress.seconds = monotonic(), 0.0
        self._progress.phase, self._progress.done, self._progress.total = name, 0, total
        self._progress.tokens = 0
        self._tell()

    def at(self, place: vfl_pb2.Place) -> None:
        """Follow the leader: its task and epoch are the phase, its steps ours."""
        if place.task == vfl_pb2.CHECKPOINT:
            return
        name = task_name(place)
        name += f", epoch {place.epoch}" if place.epoch else ""
        if name != self._progress.phase:
            self.phase(name)
        self.step()

    def step(self, count: int = 1) -> None:
        """So many steps are done."""
        self._progress.done += count
        if monotonic() - self._told >= EVERY:
            self._tell()

    def crossed(self, size: int) -> None:
        """Bytes went over the wire."""
        self._progress.size += size

    def passed(self, tokens: int) -> None:
        """So many tokens passed the model."""
        self._progress.tokens += tokens

    def note(self, text: str) -> None:
        """Something that is good to know."""
        self._say("note", text=text)

    def warn(self, text: str) -> None:
        """Something that a person should look at."""
        self._say("warning", text=text)

    def _tell(self) -> None:
        self._told = monotonic()
        self._progress.seconds = self._told - self._began
        self._say("progress", **asdict(self._progress))

    def _say(self, event: str, **fields: Any) -> None:
        self._listener({"event": event, "party": self._progress.party, **fields})
