"""Passing over rows with all halves of the model: the loop that every way to learn goes through."""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from math import ceil
from time import monotonic
from typing import cast

import numpy as np
import torch
from torch import Tensor

from configs.agreement import Agreement
from models.arithmetic import bounded
from parties.common.errors import Diverged
from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.engine.active_network import ActiveNetwork
from parties.vertical.engine.batch import Answered, Batch, Group, Reading, Use
from parties.vertical.engine.party_state import State
from parties.vertical.privacy.gradients import Gradients
from protocol import vfl_pb2
from protocol.envelope import describe
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from protocol.tensors import MAX_PAYLOAD

# Tasks that go back to an earlier model, or do without, instead of failing.
_MAY_DIVERGE = (
    vfl_pb2.UNLEARN,
    vfl_pb2.ASCEND,
    vfl_pb2.REFERENCE,
    vfl_pb2.RELEARN,
    vfl_pb2.CORRECT,
    vfl_pb2.CVFU,
)


@dataclass(slots=True)
class _Own:
    """The active party's own embeddings of a batch: a graph of its own, cut off from the top."""

    graph: Tensor
    leaf: Tensor


class Passes:
    """The active party's way through its rows; ``diverged`` once numbers are not finite."""

    def __init__(self, party: Party, hub: Hub, state: State, labels: Tensor) -> None:
        self._party, self._hub, self._state, self.labels = party, hub, state, labels
        self._agreement = party.agreement
        self._leaves: dict[str, Tensor] = {}  # the passive parties' embeddings of this batch
        self._own: _Own | None = None
        self._ours: Tensor | None = None  # the gradient of our own embeddings
        self._noise = Gradients(party, hub, state)
        self._hurried = party.agreement.training.overlap == "pipeline"
        self._pace = 0.0  # seconds that an answer takes, smoothed
        self.answered = Answered(np.empty(0, np.int64), {})  # what went out last
        self.diverged = False

    @property
    def patience(self) -> float:
        """Seconds that a step may take."""
        return max(self._agreement.limits.step_seconds, 10 * self._pace)

    def without(self, absent: Collection[str]) -> "Passes":
        """Passes in which some passive parties take no part; for a sum of votes."""
        return Passes(self._party, self._hub.without(absent), self._state, self.labels)

    def clear(self) -> None:
        """Forget the last batch."""
        self._leaves, self._own, self._ours = {}, None, None
        self.answered = Answered(np.empty(0, np.int64), {})

    def forget(self, rows: Index) -> list[str]:
        """Drop the labels of ``rows`` and all that they were used for; says what else it was."""
        self.labels[rows] = -1
        self.clear()
        return ["embeddings and logits of every compared model"]

    def count(self, rows: vfl_pb2.Rows) -> int:
        """How many rows a word of the protocol means for the present model."""
        return len(self._state.batches.rows.of(rows))

    def batches(self, rows: vfl_pb2.Rows, epoch: int, size: int) -> Iterator[vfl_pb2.Ask]:
        """The questions of one shuffled epoch over ``rows``."""
        for index in range(ceil(self.count(rows) / size)):
            yield vfl_pb2.Ask(
                rows=rows, order=vfl_pb2.SHUFFLED, epoch=epoch, size=size, index=index
            )

    def parts(self, rows: vfl_pb2.Rows) -> Iterator[vfl_pb2.Ask]:
        """The questions of one pass over ``rows`` by index, in as few messages as possible."""
        size = widest_pass(self._agreement)
        for index in range(ceil(self.count(rows) / size)):
            yield vfl_pb2.Ask(rows=rows, order=vfl_pb2.BY_INDEX, size=size, index=index)

    def descend(
        self,
        task: vfl_pb2.Task,
        rows: vfl_pb2.Rows,
        epoch: int,
        size: int,
        act: Callable[[Batch], Use],
    ) -> None:
        """One epoch in the way of ``training.overlap``; raises like ``sweep``."""
        overlap = self._agreement.training.overlap
        if overlap == "microbatch" and size % 2 == 0:
            halves = self.batches(rows, epoch, size // 2)
            self._sweep(task, iter(lambda: tuple(islice(halves, 2)), ()), act, 0)
        else:
            groups = ((ask,) for ask in self.batches(rows, epoch, size))
            self._sweep(task, groups, act, int(overlap == "pipeline"))

    def sweep(
        self, task: vfl_pb2.Task, asks: Iterable[vfl_pb2.Ask], act: Callable[[Batch], Use]
    ) -> None:
        """Pass over batches; the gradient of one and the question for the next are one message.

        While unlearning it ends early, with ``diverged`` set, when numbers are no longer finite.

        Raises:
            Diverged: our loss or gradients are no longer finite, in training.
            RemoteProtocolError: a party's embeddings are no longer finite, in training.
        """
        self._sweep(task, ((ask,) for ask in asks), act, 0)

    def remains(self, gone: Index) -> list[str]:
        """Where we still hold anything of the rows ``gone`` that passed."""
        found = ["labels"] if bool((self.labels[torch.from_numpy(gone)] >= 0).any()) else []
        if self._leaves or self._own is not None or self.answered.gradients:
            found.append("embeddings or gradients of the last batch")
        return found

    @torch.no_grad()
    def read(self, rows: vfl_pb2.Rows, task: vfl_pb2.Task) -> Reading:
        """The model's outputs and embeddings for ``rows`` by index; nothing is learned.

        While unlearning, ``diverged`` is set where they are no longer finite.

        Raises:
            RemoteProtocolError: a party's embeddings are no longer finite, otherwise.
        """
        parts = [torch.empty(0, len(self._agreement.labels.classes))]
        embeddings: list[Tensor] = []
        for ask in self.parts(rows):
            with self._clock(task, "forward"):
                self._ask(task, ask, learns=False)
                parts.append(self._batch(task, (ask,), 0).logits)
                embeddings.append(torch.cat(self._embeddings(), dim=1))
            self._party.watch.step()
        self.diverged |= not bounded(parts, math.inf)
        return Reading(torch.cat(parts), torch.cat(embeddings) if embeddings else torch.empty(0))

    def _sweep(
        self,
        task: vfl_pb2.Task,
        groups: Iterable[Group],
        act: Callable[[Batch], Use],
        ahead: int,
    ) -> None:
        """Pass over the groups; ``ahead`` more of them are asked for before one is answered."""
        coming = iter(groups)
        asked: deque[Group] = deque(islice(coming, 1 + ahead))
        for ask in (ask for group in asked for ask in group):
            self._ask(task, ask)
        while asked:
            group = asked.popleft()
            for place in range(len(group)):
                with self._clock(task, "forward"):
                    batch = self._batch(task, group, place)
                following = next(coming, ()) if batch.last else ()
                if self.diverged or not self._step(task, batch, act, following):
                    self._drain(asked, len(group) - place - 1)
                    return
                if following:
                    asked.append(following)
                self._party.watch.step()

    def _step(
        self, task: vfl_pb2.Task, batch: Batch, act: Callable[[Batch], Use], following: Group
    ) -> bool:
        """Use one batch; whether all numbers are still finite.

        Gradients go out before our own half is worked on, so that others work at the same time.
        """
        with self._clock(task, "backward"):
            use = act(batch)
            self._differentiate(task, batch, use)
            if self.diverged:
                return False
            self._answer(task, use, following)
            self._backward(use.loss)
            part = 0 if batch.ask.order == vfl_pb2.SHUFFLED else batch.ask.index
            self._state.half.use(use.order, part)
        return True

    def _drain(self, asked: Sequence[Group], rest: int) -> None:
        """Take the embeddings that are still on their way; nobody needs them any more."""
        for _ in range(rest + sum(map(len, asked))):
            self._hub.gather(self.patience)

    def _ask(self, task: vfl_pb2.Task, ask: vfl_pb2.Ask, *, learns: bool = True) -> None:
        self._hub.move_to(_place(task, ask))
        self._hub.broadcast(ask if learns else vfl_pb2.Show(ask=ask))

    def _differentiate(self, task: vfl_pb2.Task, batch: Batch, use: Use) -> None:
        """The gradients of all embeddings, for which the others wait.

        Those of the top's weights can wait until then; but in a pipeline nobody waits, and one
        pass backwards is cheaper than two.
        """
        embeddings = {name: leaf for name, leaf in self._leaves.items() if leaf.requires_grad}
        if self._own is not None:
            embeddings[self._party.name] = self._own.leaf
        leaves = list(embeddings.values())
        if self._hurried:
            use.loss.backward()  # type: ignore[no-untyped-call]
            found: Sequence[Tensor | None] = [leaf.grad for leaf in leaves]
        elif not leaves:
            found = []
        else:
            found = torch.autograd.grad(use.loss, leaves, retain_graph=True, allow_unused=True)
        whole = [_whole(gradient, leaf) for gradient, leaf in zip(found, leaves, strict=True)]
        gradients = dict(zip(embeddings, whole, strict=True))
        self._ours = gradients.pop(self._party.name, None)
        if not bounded([use.loss, *gradients.values()], self._agreement.limits.magnitude):
            self.diverged = True
            if task not in _MAY_DIVERGE:
                place = describe(_place(task, batch.ask))
                raise Diverged(f"the loss is no longer finite ({place})", "lower the learning rate")
        sent = {name: self._noise.noised(name, batch.ask, each) for name, each in gradients.items()}
        self.answered = Answered(batch.rows, sent)

    def _backward(self, loss: Tensor) -> None:
        """Leave the gradients of our own half: of our bottom, and of the top where they lack."""
        network = cast(ActiveNetwork, self._state.half.model.network)
        top = [each for each in network.top.parameters() if each.requires_grad]
        if top and not self._hurried:
            loss.backward(inputs=top)  # type: ignore[no-untyped-call]
        if self._own is not None:
            self._own.graph.backward(self._ours)  # type: ignore[no-untyped-call]

    def _answer(self, task: vfl_pb2.Task, use: Use, following: Group) -> None:
        """Send every passive party its gradient, and the next question with it."""
        gradients = {name: part.numpy() for name, part in self.answered.gradients.items()}
        if not following:
            self._hub.scatter(use.order, gradients)
            return
        first, *others = following
        self._hub.move_to(_place(task, first))
        self._hub.scatter(vfl_pb2.Step(gradient=use.order, ask=first), gradients)
        for ask in others:
            self._ask(task, ask)

    def _batch(self, task: vfl_pb2.Task, group: Group, place: int) -> Batch:
        """The batch at ``place`` of its group; our own embeddings are made while others work."""
        ask = group[place]
        rows = self._state.batches.of(ask)
        self._embed(rows)
        reports = self._receive(task, rows)
        share = 1.0
        if len(group) > 1:
            share = len(rows) / sum(len(self._state.batches.of(each)) for each in group)
        logits, last = self._top(), place == len(group) - 1
        labels = self.labels.index_select(0, torch.from_numpy(rows))
        return Batch(ask, rows, logits, labels, reports, share, last)

    def _receive(self, task: vfl_pb2.Task, rows: Index) -> list[vfl_pb2.Report]:
        """Take the passive parties' embeddings of ``rows``, and their reports."""
        started = monotonic()
        replies = self._hub.gather(self.patience)
        self._pace += 0.1 * (monotonic() - started - self._pace)
        dtype = np.dtype(self._agreement.dtype).type
        self._leaves, reports = {}, []
        for name, said in replies.items():
            width = self._agreement.parties[name].width
            embedding = torch.from_numpy(said.tensor(dtype, len(rows), width))
            self._leaves[name] = embedding.requires_grad_(torch.is_grad_enabled())
            reports.append(said.expect(vfl_pb2.Embedding).report)
            self._check_report(task, name, reports[-1])
        return reports

    def _embed(self, rows: Index) -> None:
        """Our own embeddings, where we have features."""
        model = self._state.half.model
        self._own = None
        if model.inputs is not None:
            batch = model.inputs.values.index_select(0, torch.from_numpy(rows))
            graph = cast(ActiveNetwork, model.network).embed(batch)
            leaf = graph.detach().requires_grad_(torch.is_grad_enabled())
            self._own = _Own(graph, leaf)

    def _top(self) -> Tensor:
        return cast(ActiveNetwork, self._state.half.model.network)(self._embeddings())  # type: ignore[no-any-return]

    def _embeddings(self) -> list[Tensor]:
        """The parties' embeddings of the present batch, in the order of the agreement."""
        embeddings = dict(self._leaves)
        if self._own is not None:
            embeddings[self._party.name] = self._own.leaf
        present = {self._party.name, *self._hub}
        return [embeddings[name] for name in self._agreement.feature_parties if name in present]

    def _check_report(self, task: vfl_pb2.Task, name: str, report: vfl_pb2.Report) -> None:
        if report.diverged:
            self.diverged = True
            if task not in _MAY_DIVERGE:
                raise RemoteProtocolError(
                    f"{name}: its embeddings are no longer finite", "lower the learning rate"
                )

    def _clock(self, task: vfl_pb2.Task, phase: str) -> AbstractContextManager[None]:
        unlearns = task in (vfl_pb2.UNLEARN, vfl_pb2.REFERENCE)
        return self._party.ledger.clock("unlearning" if unlearns else phase)


def widest_pass(agreement: Agreement) -> int:
    """Rows of one question, whose answers must fit into one message."""
    widest = max(party.width or 0 for party in agreement.parties.values())
    # Of a model in shards, whose embeddings travel side by side in prediction.
    row = widest * agreement.sharding.shards * np.dtype(agreement.dtype).itemsize
    return int(max(1, min(agreement.limits.pass_rows, MAX_PAYLOAD // row)))


def _place(task: vfl_pb2.Task, ask: vfl_pb2.Ask) -> vfl_pb2.Place:
    shuffled = ask.order == vfl_pb2.SHUFFLED
    return vfl_pb2.Place(
        task=task,
        epoch=ask.epoch,
        step=ask.index if shuffled else 0,
        microbatch=0 if shuffled else ask.index,
    )


def _whole(gradient: Tensor | None, leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if gradient is None else gradient
