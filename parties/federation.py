"""The active party's grip on the whole model: its own half, and the spokes that hold the rest."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import cast

import numpy as np
import torch
from torch import Tensor

from models.arithmetic import bounded
from parties.active_network import ActiveNetwork, build_active
from parties.align import SECONDS_PER_ROW, Alignment
from parties.errors import Diverged
from parties.features import Features, labels
from parties.half import Half, Model
from parties.party import Party
from parties.rows import Batches, RowSets
from parties.schedule import Index
from protocol import vfl_pb2
from protocol.envelope import describe
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from protocol.tensors import MAX_PAYLOAD

WIDEST_PASS = 4096  # rows; more would make others wait too long for their turn
# Tasks that go back to an earlier model, or do without, instead of failing.
_MAY_DIVERGE = (vfl_pb2.UNLEARN, vfl_pb2.ASCEND, vfl_pb2.REFERENCE)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the active party sees it once the embeddings are in."""

    ask: vfl_pb2.Ask
    rows: Index
    logits: Tensor
    labels: Tensor
    reports: list[vfl_pb2.Report]  # the passive parties'


@dataclass(frozen=True, slots=True)
class Use:
    """What becomes of a batch: the scalar to differentiate, and what its gradient is for."""

    loss: Tensor
    order: vfl_pb2.Gradient


@dataclass(frozen=True, slots=True)
class Answered:
    """The gradients that the passive parties got for a batch."""

    rows: Index
    gradients: dict[str, Tensor]


class Federation:
    """All halves of the model as one thing to train, read and change."""

    def __init__(self, party: Party, hub: Hub, alignment: Alignment) -> None:
        self.party, self.agreement, self._hub = party, party.agreement, hub
        self._features = Features(party, alignment)
        self._batches = Batches(self._features.split(), "")
        self._leaves: dict[str, Tensor] = {}  # the passive parties' embeddings of this batch
        self.answered = Answered(np.empty(0, np.int64), {})  # what went out last
        self._pace = 0.0  # seconds that an answer takes, smoothed
        self._dropped = np.empty(0, np.int64)
        self.labels = labels(party, alignment)
        self.half = Half(party.agreement)
        self.diverged = False  # some party's embeddings are no longer finite

    @property
    def rows(self) -> RowSets:
        """The parts of the common rows."""
        return self._batches.rows

    @property
    def stream(self) -> str:
        """The randomness of the present model."""
        return self._batches.stream

    # --- arranging: what every party does with its own half ------------------------------------

    def fresh(self, stream: str, fit: vfl_pb2.Rows, task: vfl_pb2.Task) -> None:
        """A new model; ``stream`` gives weights and batch order, ``fit`` teaches preprocessing."""
        self._arrange(task, vfl_pb2.Arrange(fresh=vfl_pb2.Fresh(stream=stream, fit=fit)))
        inputs = self._features.fit(self.rows, fit) if self._features.present else None
        features = None if inputs is None else inputs.values
        network = build_active(self.party, stream, features)
        self.half.fresh(Model(network, inputs), task)
        self._batches = Batches(self.rows, stream)
        self.diverged = False

    def restore(self, slot: str, stream: str, task: vfl_pb2.Task) -> None:
        """Go back to a copy with a new optimiser."""
        restore = vfl_pb2.Restore(slot=slot, stream=stream)
        self._together(task, vfl_pb2.Arrange(restore=restore))
        self._batches = Batches(self.rows, stream)
        self.diverged = False

    def keep(self, slot: str, task: vfl_pb2.Task) -> None:
        """Copy all parameters under a name."""
        self._together(task, vfl_pb2.Arrange(keep=vfl_pb2.Keep(slot=slot)))

    def drop(self, slot: str, task: vfl_pb2.Task) -> None:
        """Forget a copy."""
        self._together(task, vfl_pb2.Arrange(drop=vfl_pb2.Drop(slot=slot)))

    def primal(self, order: vfl_pb2.Primal, task: vfl_pb2.Task) -> None:
        """A primal sub-step without retained rows (FedORA with δ = 0)."""
        self._together(task, vfl_pb2.Arrange(primal=order))

    def climb(self, step_size: float) -> None:
        """A step along the held gradient."""
        climb = vfl_pb2.Climb(step_size=step_size)
        self._together(vfl_pb2.ASCEND, vfl_pb2.Arrange(climb=climb))

    def weigh(self, task: vfl_pb2.Task) -> list[vfl_pb2.Report]:
        """The passive parties' reports of their held gradients and changes."""
        return self._arrange(task, vfl_pb2.Arrange(weigh=vfl_pb2.Weigh()))

    def forget(self, requested: Index) -> None:
        """Tell every party which common rows must go."""
        self._move(vfl_pb2.Place(task=vfl_pb2.UNLEARN, epoch=0, step=0, microbatch=0))
        self._hub.broadcast(vfl_pb2.Forget(), requested)
        self._hub.gather(self._patience)
        self._dropped = requested
        self._batches = Batches(self.rows.forget(requested), self._batches.stream)

    def purge(self) -> dict[str, list[str]]:
        """Have every party drop all that remembers the forgotten rows; what each one dropped."""
        self._move(vfl_pb2.Place(task=vfl_pb2.UNLEARN, epoch=0, step=0, microbatch=0))
        self._hub.broadcast(vfl_pb2.Purge())
        done = {
            name: list(said.expect(vfl_pb2.Done).purged)
            for name, said in self._hub.gather(self._patience).items()
        }
        ours = self.half.purge()
        self._features.forget(self._dropped, self.half.model.inputs)
        self.labels[self._dropped] = -1
        self._leaves, self.answered = {}, Answered(np.empty(0, np.int64), {})
        self._batches = Batches(self.rows.forgotten_for_good(), self._batches.stream)
        ours.append("embeddings and logits of every compared model")
        ours.append(f"row map, features and labels of {len(self._dropped)} rows")
        return {self.party.name: ours, **done}

    def goodbye(self) -> Features:
        """End the conversation; the features are needed to save our half."""
        self._move(vfl_pb2.Place(task=vfl_pb2.CLOSE, epoch=0, step=0, microbatch=0))
        self._hub.broadcast(vfl_pb2.Goodbye())
        return self._features

    # --- passing over rows ----------------------------------------------------------------------

    def batches(self, rows: vfl_pb2.Rows, epoch: int, size: int) -> Iterator[vfl_pb2.Ask]:
        """The questions of one shuffled epoch over ``rows``."""
        for index in range(ceil(len(self.rows.of(rows)) / size)):
            yield vfl_pb2.Ask(
                rows=rows, order=vfl_pb2.SHUFFLED, epoch=epoch, size=size, index=index
            )

    def parts(self, rows: vfl_pb2.Rows) -> Iterator[vfl_pb2.Ask]:
        """The questions of one pass over ``rows`` by index, in as few messages as possible."""
        size = self._widest_pass
        for index in range(ceil(len(self.rows.of(rows)) / size)):
            yield vfl_pb2.Ask(rows=rows, order=vfl_pb2.BY_INDEX, size=size, index=index)

    def sweep(
        self, task: vfl_pb2.Task, asks: Iterable[vfl_pb2.Ask], act: Callable[[Batch], Use]
    ) -> None:
        """Pass over batches; the gradient of one and the question for the next are one message.

        While unlearning it ends early, with ``diverged`` set, when numbers are no longer finite.

        Raises:
            Diverged: our loss or gradients are no longer finite, in training.
            RemoteProtocolError: a party's embeddings are no longer finite, in training.
        """
        waiting = iter(asks)
        ask = next(waiting, None)
        if ask is not None:
            self._ask(task, ask)
        while ask is not None:
            with self._clock(task, "forward"):
                batch = self._batch(task, ask)
            if self.diverged:
                return
            with self._clock(task, "backward"):
                use = act(batch)
                if not self._differentiate(task, ask, batch, use):
                    return
                part = 0 if ask.order == vfl_pb2.SHUFFLED else ask.index
                ask = next(waiting, None)
                self._answer(task, use, ask)
                self.half.use(use.order, part)
            self.party.watch.step()

    @torch.no_grad()
    def logits(self, rows: vfl_pb2.Rows, task: vfl_pb2.Task = vfl_pb2.EVALUATE) -> Tensor:
        """The model's outputs for ``rows`` by index, [rows, classes]; nothing is learned.

        While unlearning, ``diverged`` is set where they are no longer finite.

        Raises:
            RemoteProtocolError: a party's embeddings are no longer finite, otherwise.
        """
        parts = [torch.empty(0, len(self.agreement.labels.classes))]
        for ask in self.parts(rows):
            with self._clock(task, "forward"):
                self._ask(task, ask)
                parts.append(self._batch(task, ask).logits)
            self.party.watch.step()
        self.diverged |= not bounded(parts, math.inf)
        return torch.cat(parts)

    # --- inside ---------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        """Seconds that a step may take."""
        return max(self.agreement.limits.step_seconds, 10 * self._pace)

    @property
    def _long_patience(self) -> float:
        """Seconds for what a party does with all its rows at once."""
        return self._patience + SECONDS_PER_ROW * len(self.labels)

    @property
    def _widest_pass(self) -> int:
        """Rows of one message outside training."""
        widest = max(party.width or 0 for party in self.agreement.parties.values())
        row = widest * np.dtype(self.agreement.dtype).itemsize
        return max(1, min(WIDEST_PASS, MAX_PAYLOAD // row))

    def _ask(self, task: vfl_pb2.Task, ask: vfl_pb2.Ask) -> None:
        self._move(_place(task, ask))
        self._hub.broadcast(ask)

    def _differentiate(self, task: vfl_pb2.Task, ask: vfl_pb2.Ask, batch: Batch, use: Use) -> bool:
        """Leave the gradients of every half to be used; whether they are finite."""
        use.loss.backward()  # type: ignore[no-untyped-call]
        gradients = {name: _gradient(leaf) for name, leaf in self._leaves.items()}
        self.answered = Answered(batch.rows, gradients)
        if bounded([use.loss, *gradients.values()], self.agreement.limits.magnitude):
            return True
        self.diverged = True
        if task not in _MAY_DIVERGE:
            place = describe(_place(task, ask))
            raise Diverged(f"the loss is no longer finite ({place})", "lower the learning rate")
        return False

    def _answer(self, task: vfl_pb2.Task, use: Use, following: vfl_pb2.Ask | None) -> None:
        """Send every passive party its gradient, and the next question with it."""
        gradients = {name: part.numpy() for name, part in self.answered.gradients.items()}
        if following is None:
            self._hub.scatter(use.order, gradients)
            return
        self._move(_place(task, following))
        self._hub.scatter(vfl_pb2.Step(gradient=use.order, ask=following), gradients)

    def _batch(self, task: vfl_pb2.Task, ask: vfl_pb2.Ask) -> Batch:
        rows = self._batches.of(ask)
        started = monotonic()
        replies = self._hub.gather(self._patience)
        self._pace += 0.1 * (monotonic() - started - self._pace)
        dtype = np.dtype(self.agreement.dtype).type
        self._leaves, reports = {}, []
        for name, said in replies.items():
            width = self.agreement.parties[name].width
            embedding = torch.from_numpy(said.tensor(dtype, len(rows), width))
            self._leaves[name] = embedding.requires_grad_(torch.is_grad_enabled())
            reports.append(said.expect(vfl_pb2.Embedding).report)
            self._check_report(task, name, reports[-1])
        return Batch(ask, rows, self._forward(rows), self.labels[rows], reports)

    def _forward(self, rows: Index) -> Tensor:
        inputs = self.half.model.inputs
        network = cast(ActiveNetwork, self.half.model.network)
        embeddings = dict(self._leaves)
        if inputs is not None:
            embeddings[self.party.name] = network.embed(inputs.values[rows])
        ordered = [embeddings[name] for name in self.agreement.feature_parties]
        return network(ordered)  # type: ignore[no-any-return]

    def _check_report(self, task: vfl_pb2.Task, name: str, report: vfl_pb2.Report) -> None:
        if report.diverged:
            self.diverged = True
            if task not in _MAY_DIVERGE:
                raise RemoteProtocolError(
                    f"{name}: its embeddings are no longer finite", "lower the learning rate"
                )

    def _together(self, task: vfl_pb2.Task, arrange: vfl_pb2.Arrange) -> None:
        self._arrange(task, arrange)
        self.half.arrange(arrange, task)

    def _arrange(self, task: vfl_pb2.Task, arrange: vfl_pb2.Arrange) -> list[vfl_pb2.Report]:
        with self.party.ledger.clock("control"):
            self._move(vfl_pb2.Place(task=task, epoch=0, step=0, microbatch=0))
            self._hub.broadcast(arrange)
            done = self._hub.gather(self._long_patience).values()
        return [said.expect(vfl_pb2.Done).report for said in done]

    def _move(self, place: vfl_pb2.Place) -> None:
        self._hub.move_to(place)

    def _clock(self, task: vfl_pb2.Task, phase: str) -> AbstractContextManager[None]:
        unlearns = task in (vfl_pb2.UNLEARN, vfl_pb2.REFERENCE)
        return self.party.ledger.clock("unlearning" if unlearns else phase)


def _place(task: vfl_pb2.Task, ask: vfl_pb2.Ask) -> vfl_pb2.Place:
    shuffled = ask.order == vfl_pb2.SHUFFLED
    return vfl_pb2.Place(
        task=task,
        epoch=ask.epoch,
        step=ask.index if shuffled else 0,
        microbatch=0 if shuffled else ask.index,
    )


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
