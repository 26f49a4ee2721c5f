"""What a client keeps beyond its process: its own parameters, line by line, and what it has purged.

It is written before an answer leaves, so what the server has counted is kept. Whoever comes back
goes on from it: rows that were purged stay away although the data still has them. A line's name
begins with the run's; what is kept of another run is of no use, and where rows were purged in it
nobody goes on in silence.
"""

import re

from torch import Tensor

from parties.common.errors import StorageError
from parties.horizontal.engine.cohort import Kind, Score, Whose
from parties.horizontal.local.local_task import Learned, Lesson, Slots
from parties.horizontal.party import FederatedParty
from parties.horizontal.record import checkpoints
from parties.horizontal.saved_model import save_model
from parties.horizontal.tasks import pupil
from parties.session.checkpoint import START, Content
from protocol.errors import RemoteProtocolError

_RUN = re.compile("[0-9a-f]{32}")
_VALUE = "own"  # in the file of a line


class Kept:
    """A client that is taught, whose state outlives the process.

    Raises:
        StorageError, IntegrityError: what an unfinished run left cannot be used.
    """

    def __init__(self, party: FederatedParty) -> None:
        self._party, self._learner = party, pupil(party)
        self.size = self._learner.size
        self._files, self._number = checkpoints(party), START
        self._run, self._request = "", ""
        self._purged: dict[str, list[str]] = {}
        self._take()

    def measure(self, kind: Kind, model: Tensor, whose: Whose = "own") -> Score:
        """See ``Learner``."""
        return self._learner.measure(kind, model, whose)

    def answer(self, kind: Kind, lesson: Lesson, slots: Slots) -> Learned:
        """See ``Learner``; what became the client's own is written first."""
        before = self._learner.own
        found = self._learner.answer(kind, lesson, slots)
        if self._learner.own is not before:
            self._write()
        return found

    def follow(self, line: str, parent: str | None) -> None:
        """See ``Learner``.

        Raises:
            StorageError: it is of another run than the one in which rows were purged.
        """
        run = line.partition(" ")[0]
        if self._run not in ("", run):
            self._begin_anew()
        self._run = run
        self._learner.follow(line, parent)
        if any(each is not None for each in self._learner.lines.values()):
            self._write()

    def attend(self, name: str) -> bool:
        """Which rows are meant from now on; whether the agreement has such a request."""
        if not self._learner.attend(name):
            return False
        self._request = name
        if name in self._purged:
            self._learner.dismiss()
        return True

    def purge(self) -> list[str]:
        """Remove the forgotten rows and all that remembers them; said twice it is done once.

        Of the lines of models the present one stays, which is what was delivered; a client
        without rows keeps nothing of its own. A server that was killed says its purges again, and
        lines that began after them stay.
        """
        if not self._request:
            return []
        if self._request not in self._purged:
            self._remove()
        self._files.settle(self._number)
        return self._purged[self._request]

    def _remove(self) -> None:
        learner = self._learner
        gone = learner.purge()
        self._purged[self._request] = [f"{gone} rows"] if gone else []
        if not learner.holds:
            learner.own = None
        learner.lines = {learner.line: learner.own}
        self._write()

    def deliver(self, model: Tensor) -> None:
        """Write the model of the run as it is ours.

        Raises:
            RemoteProtocolError: nobody said of which run it is.
        """
        if not _RUN.fullmatch(self._run):
            raise RemoteProtocolError("delivers a model of no run")
        save_model(self._party, self._learner.delivered(model), bytes.fromhex(self._run))

    def clear(self) -> None:
        """The run is over."""
        self._files.clear()

    def _take(self) -> None:
        """Go on from what lies here."""
        held = self._files.held()
        if not held.numbers:
            return
        self._number = max(held.numbers)
        content = self._files.read(self._number)
        values, learner = content.values, self._learner
        self._run, learner.line = values["run"], values["line"]
        lines: list[str] = values["lines"]
        learner.lines = {
            name: learner.unpacked(content.tensors[name][_VALUE])
            if name in content.tensors
            else None
            for name in lines
        }
        learner.own = learner.lines.get(learner.line)
        for name, said in values["purged"]:
            self.attend(name)
            learner.purge()
            self._purged[name] = said
        self._request = ""
        self._party.watch.note(f"going on from checkpoint {self._number}")

    def _write(self) -> None:
        learner = self._learner
        learner.lines[learner.line] = learner.own
        values = {
            "run": self._run,
            "line": learner.line,
            "lines": list(learner.lines),
            "purged": [[name, said] for name, said in self._purged.items()],
        }
        own = {
            name: {_VALUE: learner.packed(each)}
            for name, each in learner.lines.items()
            if each is not None
        }
        self._number += 1
        self._files.write(self._number, bytes(16), Content(values, own))

    def _begin_anew(self) -> None:
        """The server began another run: what was kept is not of it."""
        if self._purged:
            raise StorageError(
                f"{self._party.name} has purged rows in an unfinished run, and the server began "
                "another one",
                "start this client with --begin fresh if the rows may be learned from again",
            )
        self._files.clear()
        self._number, self._learner.own, self._learner.lines = START, None, {}
