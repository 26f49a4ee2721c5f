"""Journal: recorded results of the hub's program, from which an interrupted run resumes.

A resumed program runs from the start of its code. The journal has an entry for each completed step
of the program; for these steps, the program replays (takes) the recorded results instead of
repeating the steps. After the last entry, the program carries out new steps and records their
results. Therefore the algorithms need no code that handles crashes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from parties.common.errors import IntegrityError
from parties.common.json_codec import Tensors, from_json_value, to_json_value
from parties.session.checkpoint import CheckpointContent

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The recorded result of one step of the hub's program."""

    name: str  # name of the step
    value: Any  # the result as JSON, in which each tensor is replaced by its name
    diverged: bool  # whether training had produced non-finite numbers by the end of the step
    # The tensors of the result by name, ``[...]`` of any shape.
    tensors: Tensors = field(default_factory=dict)


class Journal:
    """Recorded results in order, and the number of results that the program has replayed.

    Attributes:
        has_new_entries: whether entries were added since the journal was read or last written.
    """

    def __init__(self, entries: Sequence[JournalEntry] = ()) -> None:
        self._entries, self._replayed = list(entries), 0
        self._starts: dict[str, int] = {}  # of work that records its progress, by name
        self.has_new_entries = False

    @classmethod
    def read(cls, content: CheckpointContent) -> "Journal":
        """Return the journal of a checkpoint."""
        written: list[list[Any]] = content.values["journal"]
        return cls(
            [
                JournalEntry(name, value, diverged, content.tensors[f"entry {number}"])
                for number, (name, value, diverged) in enumerate(written)
            ]
        )

    @property
    def entries(self) -> Sequence[JournalEntry]:
        """Return all entries."""
        return self._entries

    @property
    def replaying(self) -> bool:
        """Return whether there are entries that the program has not replayed yet."""
        return self._replayed < len(self._entries)

    def replay(self, name: str) -> JournalEntry | None:
        """Return the next entry and mark it as replayed if its name is ``name``; otherwise None."""
        if not self.replaying or self._entries[self._replayed].name != name:
            return None
        self._replayed += 1
        return self._entries[self._replayed - 1]

    def begin(self, name: str) -> JournalEntry | None:
        """Return the recorded progress of ``name``, and advance; None if none is recorded."""
        self._starts[name] = self._replayed
        return self.replay(name)

    def update(self, name: str, value: object, *, diverged: bool) -> None:
        """Record the progress of ``name`` in place of all that was recorded since ``begin``.

        Args:
            name: name of the work, which was passed to ``begin``.
            value: the progress.
            diverged: whether training has produced non-finite numbers.
        """
        self._replace(self._starts[name], name, value, diverged=diverged)

    def record(self, name: str, work: Callable[[], T], diverged: Callable[[], bool]) -> T:
        """Call ``work`` and record its result; this replaces the entries of the steps in ``work``.

        Args:
            name: name of the step.
            work: carries out the step and returns its result.
            diverged: returns whether training has produced non-finite numbers.

        Raises:
            IntegrityError: after the call, the journal still has entries that were not replayed.
        """
        start = self._replayed
        value = work()
        if self.replaying:
            raise IntegrityError(
                "the checkpoint contains a result of the step "
                f"{self._entries[self._replayed].name!r}, but in this version of vfl this step is "
                f"not a part of the step {name!r}",
                "another version of vfl wrote the checkpoint; start again with --begin fresh",
            )
        self._replace(start, name, value, diverged=diverged())
        return value

    def _replace(self, start: int, name: str, value: object, *, diverged: bool) -> None:
        """Record one entry in place of all entries from ``start`` on."""
        tensors: Tensors = {}
        entry = JournalEntry(name, to_json_value(value, tensors), diverged, tensors)
        self._entries[start:] = [entry]
        self._replayed = len(self._entries)
        self.has_new_entries = True


def recorded_value(entry: JournalEntry, kind: type[T]) -> T:
    """Return the result in ``entry`` as a value of type ``kind``."""
    value: T = from_json_value(kind, entry.value, entry.tensors)
    return value
