"""The active party's grip on the whole model: its own state, and the spokes that hold the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from parties.active_network import build_active
from parties.alignment.align import SECONDS_PER_ROW
from parties.batch import Reading
from parties.checkpoint import Checkpoints, Content
from parties.features import Inputs
from parties.half import Half
from parties.journal import Entry, Journal, told
from parties.party import Party
from parties.passes import Passes
from parties.privacy.cached import CachedPasses
from parties.privacy.labels import UsedLabels
from parties.privacy.ledger import Spent, spent_of
from parties.remains import remains
from parties.requests import Chosen, plant
from parties.rows import RowSets
from parties.schedule import Index
from parties.state import State
from protocol import vfl_pb2
from protocol.hub import Hub

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shrink:
    """How far halves move towards a fresh initialisation, as shares from 0 to 1."""

    bottom: float
    top: float


class Federation:
    """All halves of the model as one thing to train, read, change, and go on with after a crash.

    While the journal is replaying nothing is said and no half changes: the halves stand where the
    checkpoint left them, and only the row sets are followed.
    """

    def __init__(self, party: Party, hub: Hub, rows: Index, checkpoints: Checkpoints) -> None:
        """Begin with the common ``rows``; see ``resume`` for the other way to begin."""
        self._take(party, hub, checkpoints, State(party, rows, _builder(party), None))
        self.run = next(iter(hub.channels.values())).session or b""
        self._number, self._journal = 0, Journal()

    def _take(self, party: Party, hub: Hub, checkpoints: Checkpoints, state: State) -> None:
        self.party, self.agreement, self._hub = party, party.agreement, hub
        self._checkpoints, self._state = checkpoints, state
        self._start = state.rows
        self._saved = monotonic()
        self._labels = UsedLabels(party, state)
        once = party.agreement.privacy.embed_once is not None
        self.passes = (CachedPasses if once else Passes)(party, hub, state, self._labels.values)

    @classmethod
    def resume(
        cls, party: Party, hub: Hub, checkpoints: Checkpoints, number: int, run: bytes
    ) -> "Federation":
        """Go on from a checkpoint that every party holds."""
        content = checkpoints.read(number)
        self = cls.__new__(cls)
        state = State.read(party, content, _builder(party))
        self._take(party, hub, checkpoints, state)
        self.run, self._number = run, number
        self._journal = Journal(_entries(content))
        begin = {name: rows.numpy() for name, rows in content.tensors["start"].items()}
        shares = state.rows.shares
        self._start = RowSets(seed=state.rows.seed, shares=shares, stream="", **begin)
        if self._journal.replaying:
            state.rewind(self._start)
        self.passes.labels = content.tensors["labels"]["labels"]
        party.ledger.carry(content.values["ledger"])
        return self

    @property
    def rows(self) -> RowSets:
        """The parts of the common rows."""
        return self._state.rows

    @property
    def start(self) -> RowSets:
        """The parts as they were before any request."""
        return self._start

    @property
    def patience(self) -> float:
        """Seconds that a party may take for something with all its rows."""
        return self.passes.patience + SECONDS_PER_ROW * len(self.labels)

    @property
    def labels(self) -> Tensor:
        """Of all common rows, [common rows]; -1 where they were erased."""
        return self.passes.labels

    @property
    def stream(self) -> str:
        """The randomness of the present model."""
        return self._state.batches.stream

    @property
    def state(self) -> State:
        """Our own part of the model and its rows."""
        return self._state

    @property
    def half(self) -> Half:
        """Our own half of the model."""
        return self._state.half

    @property
    def diverged(self) -> bool:
        """Whether some party's numbers are no longer finite."""
        return self.passes.diverged

    # --- going on after a crash -----------------------------------------------------------------

    def once(self, name: str, kind: type[T], work: Callable[[], T], *, durable: bool = True) -> T:
        """The result of ``work``, or what was recorded of it before a crash.

        ``kind`` is its type; a ``durable`` result may be followed by a checkpoint.
        """
        entry = self._journal.passed(name)
        if entry is not None:
            self.passes.diverged = entry.diverged
            return told(entry, kind)
        value = self._journal.work(name, work, lambda: self.passes.diverged)
        if durable and monotonic() - self._saved >= self.agreement.limits.checkpoint_seconds:
            self.checkpoint()
        return value

    def checkpoint(self) -> None:
        """Have every party write its state; all do before the run goes on."""
        if self._journal.replaying or (self._number and not self._journal.grown):
            return  # nothing was done since the last one: it would only look like progress
        self._number += 1
        save = vfl_pb2.Save(checkpoint=self._number)
        self._arrange(vfl_pb2.CHECKPOINT, vfl_pb2.Arrange(save=save))
        self._checkpoints.write(self._number, self.run, self._content())
        self._saved, self._journal.grown = monotonic(), False

    def settle(self) -> None:
        """Have every party remove the older checkpoints, which remember what was forgotten."""
        if not self._journal.replaying:
            self.checkpoint()
            settle = vfl_pb2.Settle(checkpoint=self._number)
            self._arrange(vfl_pb2.CHECKPOINT, vfl_pb2.Arrange(settle=settle))
            self._checkpoints.settle(self._number)

    def _content(self) -> Content:
        state = self._state.content()
        entries = self._journal.entries
        values = state.values | {
            "journal": [[each.name, each.value, each.diverged] for each in entries],
            "ledger": self.party.ledger.sums(),
        }
        tensors = {f"entry {place}": each.tensors for place, each in enumerate(entries)}
        start = {name: torch.from_numpy(rows.copy()) for name, rows in self._start.parts().items()}
        tensors |= {"start": start, "labels": {"labels": self.passes.labels}}
        return Content(values, state.tensors | tensors)

    # --- arranging: what every party does with its own half ------------------------------------

    def fresh(self, stream: str, fit: vfl_pb2.Rows, task: vfl_pb2.Task) -> None:
        """A new model; ``stream`` gives weights and batch order, ``fit`` teaches preprocessing."""
        self._together(task, vfl_pb2.Arrange(fresh=vfl_pb2.Fresh(stream=stream, fit=fit)))
        self._state.follow(stream)
        self.passes.diverged = False

    def restore(self, slot: str, stream: str, task: vfl_pb2.Task) -> None:
        """Go back to a copy with a new optimiser."""
        restore = vfl_pb2.Restore(slot=slot, stream=stream)
        self._together(task, vfl_pb2.Arrange(restore=restore))
        self._state.follow(stream)
        self.passes.diverged = False

    def keep(self, slot: str, task: vfl_pb2.Task) -> None:
        """Copy all parameters under a name."""
        self._together(task, vfl_pb2.Arrange(keep=vfl_pb2.Keep(slot=slot)))

    def drop(self, slot: str, task: vfl_pb2.Task) -> None:
        """Forget a copy."""
        self._together(task, vfl_pb2.Arrange(drop=vfl_pb2.Drop(slot=slot)))

    def primal(self, order: vfl_pb2.Primal, task: vfl_pb2.Task) -> None:
        """A primal sub-step without retained rows (FedORA with δ = 0)."""
        self._together(task, vfl_pb2.Arrange(primal=order))

    def climb(self, step_size: float, task: vfl_pb2.Task) -> None:
        """A step along the held gradient."""
        climb = vfl_pb2.Climb(step_size=step_size)
        self._together(task, vfl_pb2.Arrange(climb=climb))

    def shrink(self, shrink: Shrink, stream: str, task: vfl_pb2.Task) -> None:
        """Move every half towards one that ``stream`` draws, and begin the task anew there."""
        order = vfl_pb2.Shrink(stream=stream, bottom=shrink.bottom, top=shrink.top)
        self._together(task, vfl_pb2.Arrange(shrink=order))

    def exchange(self, party: str, slot: str, task: vfl_pb2.Task) -> None:
        """Have one party alone go back to a copy; the others keep their halves."""
        if self._journal.replaying:
            return
        restore = vfl_pb2.Arrange(restore=vfl_pb2.Restore(slot=slot, stream=self.stream))
        if party == self.party.name:
            self._state.arrange(restore, task)
            return
        self._move(task)
        self._hub.ask(party, self.patience, restore)

    def weigh(self, task: vfl_pb2.Task) -> list[vfl_pb2.Report]:
        """The passive parties' reports of their held gradients and changes."""
        return list(self._arrange(task, vfl_pb2.Arrange(weigh=vfl_pb2.Weigh())).values())

    def everybody(self, task: vfl_pb2.Task, arrange: vfl_pb2.Arrange) -> dict[str, vfl_pb2.Report]:
        """What all parties report of an arrangement; only within ``once``, since all answer."""
        theirs = self._arrange(task, arrange)
        ours = self._state.arrange(arrange, task)
        return {**theirs, self.party.name: ours or vfl_pb2.Report()}

    def search(self) -> dict[str, list[str]]:
        """Where parties still find rows of the last request, in memory and in their files."""
        self._move(vfl_pb2.UNLEARN)
        self._hub.broadcast(vfl_pb2.Arrange(search=vfl_pb2.Search()))
        said = self._hub.gather(self.patience).items()
        gone = self._state.dropped
        ours = remains(self._state, self._checkpoints) + self.passes.remains(gone)
        ours += self._labels.remains(gone)
        return {self.party.name: ours} | {
            name: list(each.expect(vfl_pb2.Done).left) for name, each in said
        }

    def plant(self, chosen: list[Chosen]) -> None:
        """Relabel what the requests plant, and have one party stamp what bears a trigger."""
        if self._journal.replaying:
            return
        plant(chosen, self.passes.labels, self.agreement.labels.classes)
        for each in chosen:
            if each.request.backdoor:
                self._move(vfl_pb2.TRAIN)
                party = each.request.backdoor.party
                self._hub.ask(party, self.patience, vfl_pb2.Stamp(), each.poisoned)

    def forget(self, requested: Index) -> None:
        """Tell every party which common rows must go."""
        if not self._journal.replaying:
            self._move(vfl_pb2.UNLEARN)
            self._hub.broadcast(vfl_pb2.Forget(), requested)
            self._hub.gather(self.passes.patience)
        self._state.forget(requested)

    def purge(self, name: str) -> dict[str, list[str]]:
        """Have every party drop all that remembers the forgotten rows of request ``name``.

        Returns:
            What each party dropped.
        """
        before = self._journal.replaying
        purged = self.once(f"purge of {name}", dict, self._purge, durable=False)
        if before:
            self._state.forgotten_for_good()
        self.settle()
        return purged

    def _purge(self) -> dict[str, list[str]]:
        self._move(vfl_pb2.UNLEARN)
        self._hub.broadcast(vfl_pb2.Purge())
        done = {
            name: list(said.expect(vfl_pb2.Done).purged)
            for name, said in self._hub.gather(self.passes.patience).items()
        }
        dropped = self._state.dropped
        ours = self._state.purge()
        ours += self.passes.forget(dropped) + self._labels.forget(dropped)
        ours.append(f"row map, features and labels of {len(dropped)} rows")
        ours.append("checkpoints from before")
        return {self.party.name: ours, **done}

    def account(self) -> dict[str, Spent]:
        """What every party's releases have cost so far, where something is to be claimed."""
        spent = self._labels.spent
        found = {} if spent is None else {self.party.name: spent}
        if self.agreement.privacy.embed_once is None:
            return found
        return found | self.once("privacy", dict[str, Spent], self._account, durable=False)

    def _account(self) -> dict[str, Spent]:
        self._move(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Arrange(account=vfl_pb2.Account()))
        done = self._hub.gather(self.patience)
        return {name: spent_of(said.expect(vfl_pb2.Done).spent) for name, said in done.items()}

    def goodbye(self) -> None:
        """End the conversation: the run is over, and its checkpoints with it."""
        self._move(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Goodbye())
        self._checkpoints.clear()

    # --- reading --------------------------------------------------------------------------------

    def logits(self, rows: vfl_pb2.Rows, task: vfl_pb2.Task = vfl_pb2.EVALUATE) -> Tensor:
        """The model's outputs for ``rows`` by index, [rows, classes]; see ``Passes.read``."""
        return self.passes.read(rows, task).logits

    def read(self, rows: vfl_pb2.Rows) -> Reading:
        """Outputs and embeddings for ``rows`` by index; see ``Passes.read``."""
        return self.passes.read(rows, vfl_pb2.EVALUATE)

    # --- inside ---------------------------------------------------------------------------------

    def _together(self, task: vfl_pb2.Task, arrange: vfl_pb2.Arrange) -> None:
        if not self._journal.replaying:
            self._arrange(task, arrange)
            self._state.arrange(arrange, task)

    def _arrange(self, task: int, arrange: vfl_pb2.Arrange) -> dict[str, vfl_pb2.Report]:
        """Say it to all, who may need as long as for something with all their rows."""
        with self.party.ledger.clock("control"):
            self._move(task)
            self._hub.broadcast(arrange)
            done = self._hub.gather(self.patience).items()
        return {name: said.expect(vfl_pb2.Done).report for name, said in done}

    def _move(self, task: int) -> None:
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=0, step=0, microbatch=0))  # type: ignore[arg-type]


def _builder(party: Party) -> Callable[[str, Inputs | None], nn.Module]:
    def build(stream: str, inputs: Inputs | None) -> nn.Module:
        return build_active(party, stream, None if inputs is None else inputs.values)

    return build


def _entries(content: Content) -> list[Entry]:
    journal: list[list[Any]] = content.values["journal"]
    return [
        Entry(name, value, diverged, content.tensors[f"entry {place}"])
        for place, (name, value, diverged) in enumerate(journal)
    ]
