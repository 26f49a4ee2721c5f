"""Journal: recorded results of the hub's program, from which an interrupted run resumes.

A resumed program runs from its beginning. For each piece of work that the journal has recorded, it
takes the recorded result and does not repeat the work. After the last entry it does new work and
records the results. So the algorithms need no code for crashes.
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
    """The recorded result of one piece of work.

    Attributes:
        name: name of the work.
        value: the result as JSON, with names in place of tensors.
        diverged: whether training was no longer finite after the work.
        tensors: the tensors of the result by name, ``[...]`` of any shape.
    """

    name: str
    value: Any
    diverged: bool
    tensors: Tensors = field(default_factory=dict)


class Journal:
    """Recorded results in their order, and how many of them the program has replayed.

    Attributes:
        has_new_entries: whether entries were added since the journal was read or last written.
    """

    def __init__(self, entries: Sequence[JournalEntry] = ()) -> None:
        self._entries, self._replayed = list(entries), 0
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
        """Return whether entries are left that the program has not replayed."""
        return self._replayed < len(self._entries)

    def replay(self, name: str) -> JournalEntry | None:
        """Return the next entry and advance, if its name is ``name``; else None."""
        if not self.replaying or self._entries[self._replayed].name != name:
            return None
        self._replayed += 1
        return self._entries[self._replayed - 1]

    def record(self, name: str, work: Callable[[], T], diverged: Callable[[], bool]) -> T:
        """Do ``work`` and record its result; the entry replaces those of the work's own parts.

        Args:
            name: name of the work.
            work: does the work and returns its result.
            diverged: returns whether training is no longer finite.

        Raises:
            IntegrityError: the journal has entries that ``work`` did not replay.
        """
        start = self._replayed
        value = work()
        if self.replaying:
            raise IntegrityError(
                f"the checkpoint has an entry {self._entries[self._replayed].name!r}, "
                f"which is no part of {name!r}",
                "another version of vfl wrote the checkpoint; start again with --begin fresh",
            )
        tensors: Tensors = {}
        entry = JournalEntry(name, to_json_value(value, tensors), diverged(), tensors)
        self._entries[start:] = [entry]
        self._replayed = len(self._entries)
        self.has_new_entries = True
        return value


def recorded_value(entry: JournalEntry, kind: type[T]) -> T:
    """Return the result of type ``kind`` that ``entry`` recorded."""
    value: T = from_json_value(kind, entry.value, entry.tensors)
    return value
