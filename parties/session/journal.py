"""The journal: what the active party's program has found out so far, so that it can go on.

A run that resumes tells its story from the beginning again, but what the journal knows is not done
a second time: the program passes over it and takes the recorded result. Where the journal ends the
work begins. So no algorithm knows of crashes, and what a checkpoint holds is enough to go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from parties.common.errors import IntegrityError
from parties.common.json_codec import Tensors, from_plain, to_plain
from parties.session.checkpoint import Content

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One finished piece of work."""

    name: str
    value: Any  # plain
    diverged: bool  # whether the numbers were no longer finite after it
    tensors: Tensors = field(default_factory=dict)


class Journal:
    """Finished pieces of work in their order, and how many of them the program has passed."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries, self._passed = list(entries), 0
        self.grown = False  # since it was read or last written

    @classmethod
    def read(cls, content: Content) -> "Journal":
        """The journal that a checkpoint holds."""
        written: list[list[Any]] = content.values["journal"]
        return cls(
            [
                Entry(name, value, diverged, content.tensors[f"entry {place}"])
                for place, (name, value, diverged) in enumerate(written)
            ]
        )

    @property
    def entries(self) -> Sequence[Entry]:
        """All that is known."""
        return self._entries

    @property
    def replaying(self) -> bool:
        """Whether the program is still being told what it found out before."""
        return self._passed < len(self._entries)

    def passed(self, name: str) -> Entry | None:
        """The entry ``name``, if it is the next that was recorded."""
        if not self.replaying or self._entries[self._passed].name != name:
            return None
        self._passed += 1
        return self._entries[self._passed - 1]

    def work(self, name: str, work: Callable[[], T], diverged: Callable[[], bool]) -> T:
        """Do it and take it down, in place of the smaller pieces that it was made of.

        Raises:
            IntegrityError: the journal is of another program.
        """
        start = self._passed
        value = work()
        if self.replaying:
            raise IntegrityError(
                f"the checkpoint knows {self._entries[self._passed].name!r}, "
                f"which does not belong to {name!r}",
                "it was written by another version of vfl; begin anew with --begin fresh",
            )
        tensors: Tensors = {}
        entry = Entry(name, to_plain(value, tensors), diverged(), tensors)
        self._entries[start:] = [entry]
        self._passed = len(self._entries)
        self.grown = True
        return value


def told(entry: Entry, kind: type[T]) -> T:
    """What an entry recorded."""
    found: T = from_plain(kind, entry.value, entry.tensors)
    return found
