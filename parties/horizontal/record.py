"""The server's record: what is done is not done again after a crash."""

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from configs.schema import canonical
from parties.cli.options import Begin
from parties.common.json_codec import Tensors, to_plain
from parties.horizontal.party import FederatedParty
from parties.session.checkpoint import START, Checkpoints, Content
from parties.session.journal import Entry, Journal, told

T = TypeVar("T")


class Record:
    """Pieces of work by name, in their order; see ``parties.session.journal``.

    Attributes:
        run: names the run, also after a crash.
        start: names this start of the server.
    """

    def __init__(self, party: FederatedParty, checkpoints: Checkpoints, run: bytes) -> None:
        self._party, self._checkpoints = party, checkpoints
        held = checkpoints.held()
        self._number = max(held.numbers, default=START)
        self.run = held.run if held.numbers else run
        self.start = run
        self._journal, self._unfinished = Journal(), Entry("", None, diverged=False)
        if held.numbers:
            content = checkpoints.read(self._number)
            self._journal = Journal.read(content)
            name, value = content.values["unfinished"]
            self._unfinished = Entry(name, value, False, content.tensors["unfinished"])
            party.ledger.carry(content.values["ledger"])
            party.watch.note(f"going on from checkpoint {self._number}")
        self._saved = monotonic()

    def once(self, name: str, kind: type[T], work: Callable[[], T]) -> T:
        """The result of ``work``, or what was recorded of it; written down now and then."""
        entry = self._journal.passed(name)
        if entry is not None:
            return told(entry, kind)
        value = self._journal.work(name, work, lambda: False)
        self._unfinished = Entry("", None, diverged=False)
        if self._due():
            self.save()
        return value

    def unfinished(self, name: str, kind: type[T]) -> T | None:
        """How far the work of this name had come when it was last written; None: it begins."""
        return told(self._unfinished, kind) if self._unfinished.name == name else None

    def stand(self, name: str, value: Callable[[], object]) -> None:
        """Work that is under way has come so far; written down now and then, the last alone."""
        if self._due():
            tensors: Tensors = {}
            self._unfinished = Entry(name, to_plain(value(), tensors), False, tensors)
            self.save()

    def keep(self) -> None:
        """Write what is known, unless it stands there."""
        if self._journal.grown:
            self.save()

    def save(self) -> None:
        """Write all that is known."""
        self._number += 1
        entries = self._journal.entries
        values = {
            "journal": [[each.name, each.value, each.diverged] for each in entries],
            "ledger": self._party.ledger.sums(),
            "unfinished": [self._unfinished.name, self._unfinished.value],
        }
        tensors = {f"entry {place}": each.tensors for place, each in enumerate(entries)}
        tensors |= {"unfinished": self._unfinished.tensors}
        self._checkpoints.write(self._number, self.run, Content(values, tensors))
        self._saved, self._journal.grown = monotonic(), False

    def clear(self) -> None:
        """The run is over."""
        self._checkpoints.clear()

    def _due(self) -> bool:
        return monotonic() - self._saved >= self._party.agreement.limits.checkpoint_seconds


def prepare(party: FederatedParty, how: Begin) -> None:
    """Look at what an unfinished run left, before anybody is waited for.

    Raises:
        StorageError: ``how`` insists on going on, and the server has nothing to go on from.
    """
    if how is Begin.FRESH:
        checkpoints(party).clear()
    elif how is Begin.RESUME and party.name == party.agreement.hub:
        checkpoints(party).require()


def checkpoints(party: FederatedParty) -> Checkpoints:
    """Where a party keeps what it can go on from."""
    bare = {n: each.model_copy(update={"pins": ()}) for n, each in party.agreement.parties.items()}
    plan = party.agreement.model_copy(update={"parties": bare})
    folder = party.state / "checkpoints"
    return Checkpoints(folder, party=party.name, agreement=canonical(plan), data="")
