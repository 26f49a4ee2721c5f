"""The active party's grip on the whole model: its own state, and the spokes that hold the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.session.checkpoint import Checkpoints, Content
from parties.session.journal import Journal, told
from parties.session.party import Party
from parties.vertical.alignment.align import SECONDS_PER_ROW
from parties.vertical.engine.active_network import build_active
from parties.vertical.engine.batch import Reading
from parties.vertical.engine.local_model import Half
from parties.vertical.engine.party_state import State
from parties.vertical.engine.rows import RowSets
from parties.vertical.engine.training_loop import Passes
from parties.vertical.privacy.cached import CachedPasses
from parties.vertical.privacy.labels import UsedLabels
from protocol import vfl_pb2
from protocol.hub import Hub
from protocol.message import Body
from unlearning.sharding import vote

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
        self._take(party, hub, checkpoints, State(party, rows, partial(build_active, party), None))
        self.run = next(iter(hub.channels.values())).session or b""
        self._number, self._journal = 0, Journal()

    def _take(self, party: Party, hub: Hub, checkpoints: Checkpoints, state: State) -> None:
        self.party, self.agreement, self._hub = party, party.agreement, hub
        self.checkpoints, self._state = checkpoints, state
        self._start = state.rows
        self.members: tuple[str, ...] = ()  # the copies that vote; empty: one model
        self._assembled: dict[str, tuple[str, ...]] = {}  # members that were kept under a name
        self._saved = monotonic()
        self.used_labels = UsedLabels(party, state)
        once = party.agreement.privacy.embed_once is not None
        self.passes = (CachedPasses if once else Passes)(party, hub, state, self.used_labels.values)

    @classmethod
    def resume(
        cls, party: Party, hub: Hub, checkpoints: Checkpoints, number: int, run: bytes
    ) -> "Federation":
        """Go on from a checkpoint that every party holds."""
        content = checkpoints.read(number)
        self = cls.__new__(cls)
        state = State.read(party, content, partial(build_active, party))
        self._take(party, hub, checkpoints, state)
        self.run, self._number = run, number
        self._journal = Journal.read(content)
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
    def replaying(self) -> bool:
        """Whether the program is told what was done before a crash."""
        return self._journal.replaying

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
            if not self._journal.replaying:
                self.members = self._state.half.members  # what was passed over may have changed it
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
        self.checkpoints.write(self._number, self.run, self._content())
        self._saved, self._journal.grown = monotonic(), False

    def settle(self) -> None:
        """Have every party remove the older checkpoints, which remember what was forgotten."""
        if not self._journal.replaying:
            self.checkpoint()
            settle = vfl_pb2.Settle(checkpoint=self._number)
            self._arrange(vfl_pb2.CHECKPOINT, vfl_pb2.Arrange(settle=settle))
            self.checkpoints.settle(self._number)

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

    def fresh(
        self, stream: str, fit: vfl_pb2.Rows, task: vfl_pb2.Task, shard: int | None = None
    ) -> None:
        """A new model; ``stream`` gives weights and batch order, ``fit`` teaches preprocessing.

        It learns from the rows of one ``shard`` where that is named.
        """
        fresh = vfl_pb2.Fresh(stream=stream, fit=fit, shard=shard)
        self._together(task, vfl_pb2.Arrange(fresh=fresh))
        self._state.follow(stream, shard)
        self.members = ()
        self.passes.diverged = False

    def restore(self, slot: str, stream: str, task: vfl_pb2.Task) -> None:
        """Go back to a copy with a new optimiser, or to members that were kept under a name."""
        if slot in self._assembled:
            self.assemble(self._assembled[slot])
            return
        self._back_to(slot, stream, task)
        self.members = ()

    def assemble(self, slots: Sequence[str]) -> None:
        """Let copies vote: together they are the model from here on."""
        assemble = vfl_pb2.Assemble(slots=slots)
        self._together(vfl_pb2.EVALUATE, vfl_pb2.Arrange(assemble=assemble))
        self.members = tuple(slots)

    def _back_to(self, slot: str, stream: str, task: vfl_pb2.Task) -> None:
        restore = vfl_pb2.Restore(slot=slot, stream=stream)
        self._together(task, vfl_pb2.Arrange(restore=restore))
        self._state.follow(stream)
        self.passes.diverged = False

    def keep(self, slot: str, task: vfl_pb2.Task) -> None:
        """Copy all parameters under a name; of members, which nothing changes, only the names."""
        if self.members:
            self._assembled[slot] = self.members
            return
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

    def weigh(self, task: vfl_pb2.Task) -> list[vfl_pb2.Report]:
        """The passive parties' reports of their held gradients and changes."""
        return list(self._arrange(task, vfl_pb2.Arrange(weigh=vfl_pb2.Weigh())).values())

    def everybody(self, task: vfl_pb2.Task, arrange: vfl_pb2.Arrange) -> dict[str, vfl_pb2.Report]:
        """What all parties report of an arrangement; only within ``once``, since all answer."""
        theirs = self._arrange(task, arrange)
        ours = self._state.arrange(arrange, task)
        return {**theirs, self.party.name: ours or vfl_pb2.Report()}

    def forget(self, requested: Index) -> None:
        """Tell every party which common rows must go."""
        if not self._journal.replaying:
            self.tell(vfl_pb2.UNLEARN, vfl_pb2.Forget(), requested)
        self._state.forget(requested)

    def goodbye(self) -> None:
        """End the conversation: the run is over, and its checkpoints with it."""
        self._move(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Goodbye())
        self.checkpoints.clear()

    # --- reading --------------------------------------------------------------------------------

    def logits(self, rows: vfl_pb2.Rows, task: vfl_pb2.Task = vfl_pb2.EVALUATE) -> Tensor:
        """The model's outputs for ``rows`` by index, [rows, classes]; see ``read``."""
        return self.read(rows, task).logits

    def read(self, rows: vfl_pb2.Rows, task: vfl_pb2.Task = vfl_pb2.EVALUATE) -> Reading:
        """Outputs and embeddings for ``rows`` by index; see ``Passes.read``.

        Where members vote, outputs are the mean of theirs, and embeddings lie side by side.
        """
        if not self.members:
            return self.passes.read(rows, task)
        found = []
        for member in self.members:
            self._back_to(member, self.stream, task)
            found.append(self.passes.read(rows, task))
        embeddings = torch.cat([each.embeddings for each in found], dim=-1)
        return Reading(vote([each.logits for each in found]), embeddings)

    # --- saying ---------------------------------------------------------------------------------

    def tell(self, task: int, message: Body, *rows: Index) -> dict[str, vfl_pb2.Done]:
        """Say one thing to every passive party; only within ``once``, since all answer."""
        self._move(task)
        self._hub.broadcast(message, *rows)
        done = self._hub.gather(self.patience)
        return {name: said.expect(vfl_pb2.Done) for name, said in done.items()}

    def have(self, party: str, task: vfl_pb2.Task, message: Body, *rows: Index) -> None:
        """Have one party alone do something with its half, which may be ours."""
        if self._journal.replaying:
            return
        if party == self.party.name and isinstance(message, vfl_pb2.Arrange):
            self._state.arrange(message, task)
            return
        self._move(task)
        self._hub.ask(party, self.patience, message, *rows)

    # --- inside ---------------------------------------------------------------------------------

    def _together(self, task: vfl_pb2.Task, arrange: vfl_pb2.Arrange) -> None:
        if not self._journal.replaying:
            self._arrange(task, arrange)
            self._state.arrange(arrange, task)

    def _arrange(self, task: int, arrange: vfl_pb2.Arrange) -> dict[str, vfl_pb2.Report]:
        """Say it to all, who may need as long as for something with all their rows."""
        with self.party.ledger.clock("control"):
            done = self.tell(task, arrange)
        return {name: each.report for name, each in done.items()}

    def _move(self, task: int) -> None:
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=0, step=0, microbatch=0))  # type: ignore[arg-type]
