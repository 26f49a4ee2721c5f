"""The training loop of the active party, which runs batches through the whole split model.

For each batch the passive parties send embeddings, the active party computes logits and a loss, and
every passive party receives the gradient of its embeddings.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from configs.agreement import VerticalAgreement
from models.arithmetic import all_within
from parties.common.errors import Diverged
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import Index
from parties.vertical.engine.features import any_label, erase_labels
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.engine.rows import ordered_requests, shuffled_requests
from parties.vertical.privacy.visit_noise import gradient_noise
from protocol import vfl_pb2
from protocol.envelope import describe_place
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from protocol.tensors import MAX_PAYLOAD

DESCEND = vfl_pb2.Gradient(descend=vfl_pb2.Descend())
ACCUMULATE = vfl_pb2.Gradient(accumulate=vfl_pb2.Accumulate())
HOLD = vfl_pb2.Gradient(hold=vfl_pb2.Hold())
EMBEDDINGS = "embeddings"  # the part of a checkpoint with kept embeddings
FALLBACK = "fallback"  # in this part: the embeddings of the fallback model
READING_PARTS = 16  # largest number of parts in which a party computes the embeddings of a message
# Tasks that restore an earlier model, or go on without one, if numbers are not finite.
_MAY_DIVERGE = (vfl_pb2.UNLEARN, vfl_pb2.RELEARN)


# The requests of one step: one, or two micro-batches that overlap computation and network.
StepRequests: TypeAlias = tuple[vfl_pb2.BatchRequest, ...]


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """A batch of rows, for which the embeddings of all parties have arrived."""

    request: vfl_pb2.BatchRequest  # the request that was sent to the passive parties
    rows: Index  # [batch], indices into the common order
    logits: Tensor  # [batch, classes]
    labels: Tensor  # [batch], or [batch, labels]
    weights: Tensor | None  # [batch], of the rows in the loss; None if all are 1
    # The reports that the passive parties sent with their embeddings.
    reports: list[vfl_pb2.BlockReport]
    # Fraction of the rows of the step that this batch contains; below 1 for micro-batches.
    share: float = 1.0
    last: bool = True  # whether this is the last batch of its step


@dataclass(frozen=True, slots=True)
class RowOutputs:
    """Logits and embeddings that the current model computes for a list of rows."""

    logits: Tensor  # [rows, classes]
    # [rows, total_width], the concatenated embeddings of all parties, in the order of
    # ``feature_parties``.
    embeddings: Tensor


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """The loss of a batch, and how each party uses the gradient of the loss."""

    loss: Tensor  # the scalar to differentiate
    # The message that tells each party how to use its gradient, for example for a step.
    use: vfl_pb2.Gradient


@dataclass(frozen=True, slots=True)
class SentGradients:
    """The gradients of one batch, exactly as the active party sent the gradients."""

    rows: Index  # [batch], indices into the common order
    gradients: dict[str, Tensor]  # for each passive party, [batch, width]


@dataclass(slots=True)
class _LocalEmbedding:
    """The active party's own embeddings of a batch."""

    graph: Tensor  # [batch, width], with the graph of the bottom model
    leaf: Tensor  # [batch, width], the same values without that graph; the input of the top model


class TrainingLoop:
    """Runs batches of rows through the split model, for training, evaluation and unlearning.

    Attributes:
        labels: [common_rows], the label of each common row; -1 for erased rows. Numbers: NaN for
            erased rows. Several binary labels: [common_rows, labels].
        weights: [common_rows], the weight of each common row as the data has it; NaN for erased
            rows. None if the loss has no weights.
        sent_gradients: the gradients that were sent for the last batch.
        diverged: whether a loss, gradient or embedding was not finite, or exceeded
            ``limits.magnitude``.
        fallback: [common_rows, total_width], the kept embeddings of the fallback model; None if
            there is none.
    """

    def __init__(
        self,
        party: VerticalParty,
        hub: Hub,
        state: PartyState,
        labels: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        self._party, self._hub, self._state, self.labels = party, hub, state, labels
        self.weights = weights
        self._agreement = party.agreement
        self._leaves: dict[str, Tensor] = {}  # the passive parties' embeddings of this batch
        self._local_embedding: _LocalEmbedding | None = None
        self._local_gradient: Tensor | None = None  # [batch, width], of the own embeddings
        self._noise = gradient_noise(party, hub, state.features)
        self._pipelined = party.agreement.training.overlap == "pipeline"
        self._reply_seconds = 0.0  # moving average
        self.sent_gradients = SentGradients(np.empty(0, np.int64), {})
        self.diverged = False
        self.fallback: Tensor | None = None

    @property
    def time_limit(self) -> float:
        """Seconds that the passive parties may take for one step."""
        return max(self._party.limits.step_seconds, 10 * self._reply_seconds)

    def without_parties(self, absent: Collection[str]) -> "TrainingLoop":
        """A loop that leaves out the parties ``absent``; needs ``top.kind = 'sum'``."""
        hub = self._hub.without(absent)
        return TrainingLoop(self._party, hub, self._state, self.labels, self.weights)

    def clear(self) -> None:
        """Delete the embeddings and gradients of the last batch."""
        self._leaves, self._local_embedding, self._local_gradient = {}, None, None
        self.sent_gradients = SentGradients(np.empty(0, np.int64), {})

    def forget(self, rows: Index) -> list[str]:
        """Delete the labels, weights and kept embeddings of ``rows``, [rows], and the last batch.

        Returns:
            Descriptions of the deleted data, for the report; the labels are not mentioned.
        """
        erase_labels(self.labels, rows)
        if self.weights is not None:
            erase_labels(self.weights, rows)
        if self.fallback is not None:
            self.fallback[torch.from_numpy(rows)] = 0
        self.clear()
        return ["embeddings and logits of every compared model"]

    def weights_of(self, rows: Index) -> Tensor | None:
        """The weights in the loss of the common ``rows``, [rows]; None if all of them are 1.

        They are divided by their mean over the rows that train the present model.
        """
        if self.weights is None:
            return None
        network = cast(ActiveNetwork, self._state.local_model.model.network)
        mean = 1.0 if network.mean_weight is None else network.mean_weight.item()
        return self.weights.index_select(0, torch.from_numpy(rows)) / mean

    def kept(self) -> dict[str, Tensors]:
        """What the loop stores in a checkpoint or a version: tensors [...] by group."""
        return {} if self.fallback is None else {EMBEDDINGS: {FALLBACK: self.fallback}}

    def load(self, tensors: Mapping[str, Tensors]) -> None:
        """Load the ``tensors``, [...], that ``kept`` returned."""
        self.fallback = tensors.get(EMBEDDINGS, {}).get(FALLBACK)

    def row_count(self, rows: vfl_pb2.Rows) -> int:
        """Number of rows in the row set ``rows`` of the current model."""
        return len(self._state.batches.rows.select(rows))

    def epoch_requests(
        self, rows: vfl_pb2.Rows, epoch: int, size: int
    ) -> Iterator[vfl_pb2.BatchRequest]:
        """The batch requests of one shuffled epoch over a row set."""
        yield from shuffled_requests(rows, self.row_count(rows), epoch, size)

    def pass_requests(self, rows: vfl_pb2.Rows) -> Iterator[vfl_pb2.BatchRequest]:
        """Batch requests of one pass over a row set in index order, with the largest batch size."""
        yield from ordered_requests(rows, self.row_count(rows), largest_batch(self._agreement))

    def reading_requests(
        self, rows: vfl_pb2.Rows, most: int | None = None
    ) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests that read a row set in index order, with as many rows as a message may have.

        With ``most``, only requests for the first ``most`` rows. If one message may not have as
        many, the last request asks for rows beyond them as well, and ``read`` drops these.
        """
        count, size = self.row_count(rows), largest_reading(self._agreement)
        if most is not None and most < count:
            count, size = most, min(most, size)
        yield from ordered_requests(rows, count, size)

    def run_epoch(
        self,
        task: vfl_pb2.Task,
        rows: vfl_pb2.Rows,
        epoch: int,
        size: int,
        act: Callable[[TrainingBatch], BatchLoss],
        steps: int | None = None,
    ) -> None:
        """Run one shuffled epoch in the mode of ``training.overlap``.

        Args:
            task: the task to which the epoch belongs, such as training or unlearning.
            rows: the row set over which the epoch runs.
            epoch: number of the epoch, which also seeds the order of the rows.
            size: number of rows per step.
            act: computes the loss of a batch, and chooses what the parties do with its gradient.
            steps: only the first steps of the epoch; None: all steps.

        Raises:
            Diverged: the loss or a gradient is not finite in a task that must not diverge.
            RemoteProtocolError: a party's embeddings are not finite in a task that must not
                diverge.
        """
        overlap = self._agreement.training.overlap
        if overlap == "microbatch" and size % 2 == 0:
            halves = self.epoch_requests(rows, epoch, size // 2)
            pairs = iter(lambda: tuple(islice(halves, 2)), ())
            self._run_steps(task, islice(pairs, steps), act, 0)
        else:
            groups = ((request,) for request in self.epoch_requests(rows, epoch, size))
            self._run_steps(task, islice(groups, steps), act, int(overlap == "pipeline"))

    def run_batches(
        self,
        task: vfl_pb2.Task,
        requests: Iterable[vfl_pb2.BatchRequest],
        act: Callable[[TrainingBatch], BatchLoss],
    ) -> None:
        """Run one step for each request.

        ``act`` computes the loss of a batch, and chooses what the parties do with its gradient. The
        gradients of a batch and the request for the next batch are sent in one message. If a value
        is not finite in a task that may diverge, such as unlearning, the loop ends early and sets
        ``diverged``.

        Raises:
            Diverged: the loss or a gradient is not finite in a task that must not diverge.
            RemoteProtocolError: a party's embeddings are not finite in a task that must not
                diverge.
        """
        self._run_steps(task, ((request,) for request in requests), act, 0)

    def residues(self, gone: Index) -> list[str]:
        """Names of the stored data that may still concern the forgotten rows ``gone``, [rows]."""
        rows = torch.from_numpy(gone)
        found = ["labels"] if any_label(self.labels[rows]) else []
        if self.weights is not None and any_label(self.weights[rows]):
            found.append("weights of rows")
        if self._leaves or self._local_embedding is not None or self.sent_gradients.gradients:
            found.append("embeddings or gradients of the last batch")
        if self.fallback is not None and bool(self.fallback[torch.from_numpy(gone)].any()):
            found.append("embeddings of the fallback model")
        return found

    @torch.no_grad()
    def read(self, rows: vfl_pb2.Rows, task: vfl_pb2.Task, most: int | None = None) -> RowOutputs:
        """Compute logits and embeddings of a row set in index order; no parameter changes.

        With ``most``, only the first ``most`` rows are read. If an output is not finite in a task
        that may diverge, ``diverged`` is set.

        Returns:
            Logits [rows, classes] and embeddings [rows, total_width].

        Raises:
            RemoteProtocolError: a party's embeddings are not finite in a task that must not
                diverge.
        """
        empty = torch.empty(0, dtype=getattr(torch, self._agreement.dtype))
        parts = [empty.view(0, self._agreement.labels.outputs)]
        widths = (self._agreement.parties[name].width or 0 for name in self._present)
        embeddings = [empty.view(0, sum(widths))]
        for request in self.reading_requests(rows, most):
            with self._clock(task, "forward"):
                self._send_request(task, request, learns=False)
                parts.append(self._batch(task, (request,), 0).logits)
                embeddings.append(torch.cat(self._embeddings(), dim=1))
            self._party.progress.step()
        self.diverged |= not all_within(parts, math.inf)
        return RowOutputs(torch.cat(parts)[:most], torch.cat(embeddings)[:most])

    def _run_steps(
        self,
        task: vfl_pb2.Task,
        groups: Iterable[StepRequests],
        act: Callable[[TrainingBatch], BatchLoss],
        ahead: int,
    ) -> None:
        """Run the steps, and send the requests of ``ahead`` further steps in advance."""
        remaining = iter(groups)
        sent: deque[StepRequests] = deque(islice(remaining, 1 + ahead))
        for request in (request for group in sent for request in group):
            self._send_request(task, request)
        while sent:
            group = sent.popleft()
            for place in range(len(group)):
                with self._clock(task, "forward"):
                    batch = self._batch(task, group, place)
                following = next(remaining, ()) if batch.last else ()
                if self.diverged or not self._step(task, batch, act, following):
                    self._receive_rest(sent, len(group) - place - 1)
                    return
                if following:
                    sent.append(following)
                self._party.progress.step()

    def _step(
        self,
        task: vfl_pb2.Task,
        batch: TrainingBatch,
        act: Callable[[TrainingBatch], BatchLoss],
        following: StepRequests,
    ) -> bool:
        """Carry out one batch; return whether all numbers are finite.

        Gradients are sent before the active party's own backward pass, so that all parties compute
        at the same time.
        """
        with self._clock(task, "backward"):
            batch_loss = act(batch)
            self._differentiate(task, batch, batch_loss)
            if self.diverged:
                return False
            self._send_gradients(task, batch_loss, following)
            self._backward(batch_loss.loss)
            part = 0 if batch.request.order == vfl_pb2.SHUFFLED else batch.request.index
            self._state.local_model.use(batch_loss.use, part)
        return True

    def _receive_rest(self, sent: Sequence[StepRequests], rest: int) -> None:
        """Receive the embeddings that were requested already, and discard them."""
        for _ in range(rest + sum(map(len, sent))):
            self._hub.gather(self.time_limit)

    def _send_request(
        self, task: vfl_pb2.Task, request: vfl_pb2.BatchRequest, *, learns: bool = True
    ) -> None:
        self._hub.move_to(_place(task, request))
        self._hub.broadcast(request if learns else vfl_pb2.Evaluate(batch=request))

    def _differentiate(
        self, task: vfl_pb2.Task, batch: TrainingBatch, batch_loss: BatchLoss
    ) -> None:
        """Compute the gradients of all embeddings, for which the passive parties wait.

        The gradients of the top model's weights are computed later. In a pipeline no party waits,
        and one backward pass costs less than two.
        """
        embeddings = {name: leaf for name, leaf in self._leaves.items() if leaf.requires_grad}
        if self._local_embedding is not None:
            embeddings[self._party.name] = self._local_embedding.leaf
        leaves = list(embeddings.values())
        if self._pipelined:
            batch_loss.loss.backward()  # type: ignore[no-untyped-call]
            computed: Sequence[Tensor | None] = [leaf.grad for leaf in leaves]
        elif not leaves:
            computed = []
        else:
            computed = torch.autograd.grad(
                batch_loss.loss, leaves, retain_graph=True, allow_unused=True
            )
        filled = [
            _or_zeros(gradient, leaf) for gradient, leaf in zip(computed, leaves, strict=True)
        ]
        gradients = dict(zip(embeddings, filled, strict=True))
        self._local_gradient = gradients.pop(self._party.name, None)
        if not all_within([batch_loss.loss, *gradients.values()], self._agreement.limits.magnitude):
            self.diverged = True
            if task not in _MAY_DIVERGE:
                place = describe_place(_place(task, batch.request))
                raise Diverged(
                    f"the loss or a gradient is not finite or exceeds limits.magnitude ({place})",
                    "lower the learning rate",
                )
        self.sent_gradients = SentGradients(batch.rows, self._with_noise(batch, gradients))

    def _with_noise(self, batch: TrainingBatch, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add the agreed noise to the gradients, each [batch, width]."""
        if not self._noise:
            return gradients
        within = self._state.batches.rows.select(batch.request.rows)
        return {
            name: self._noise[name].with_noise(batch.rows, within, gradient.detach())
            for name, gradient in gradients.items()
        }

    def _backward(self, loss: Tensor) -> None:
        """Compute the gradients of the bottom model, and of the top model if it lacks them."""
        network = cast(ActiveNetwork, self._state.local_model.model.network)
        top = [each for each in network.top.parameters() if each.requires_grad]
        if top and not self._pipelined:
            loss.backward(inputs=top)  # type: ignore[no-untyped-call]
        if self._local_embedding is not None:
            self._local_embedding.graph.backward(self._local_gradient)  # type: ignore[no-untyped-call]

    def _send_gradients(
        self, task: vfl_pb2.Task, batch_loss: BatchLoss, following: StepRequests
    ) -> None:
        """Send each passive party its gradient, together with the request for the next batch."""
        gradients = {name: part.numpy() for name, part in self.sent_gradients.gradients.items()}
        if not following:
            self._hub.scatter(batch_loss.use, gradients)
            return
        first, *others = following
        self._hub.move_to(_place(task, first))
        self._hub.scatter(vfl_pb2.Step(gradient=batch_loss.use, next_batch=first), gradients)
        for request in others:
            self._send_request(task, request)

    def _batch(self, task: vfl_pb2.Task, group: StepRequests, place: int) -> TrainingBatch:
        """The batch at ``place`` of its step; all parties compute their embeddings meanwhile."""
        request = group[place]
        rows = self._state.batches.rows_of(request)
        self._embed(rows)
        reports = self._receive(task, rows)
        share = 1.0
        if len(group) > 1:
            share = len(rows) / sum(len(self._state.batches.rows_of(each)) for each in group)
        logits, last = self._logits(), place == len(group) - 1
        labels = self.labels.index_select(0, torch.from_numpy(rows))
        weights = self.weights_of(rows)
        return TrainingBatch(request, rows, logits, labels, weights, reports, share, last)

    def _receive(self, task: vfl_pb2.Task, rows: Index) -> list[vfl_pb2.BlockReport]:
        """Receive the passive parties' embeddings of ``rows``, and return their reports."""
        started, parts = monotonic(), len(self._parts(rows))
        replies = self._hub.gather(parts * self.time_limit)
        self._reply_seconds += 0.1 * ((monotonic() - started) / parts - self._reply_seconds)
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
        """Compute the active party's own embeddings, if it has features."""
        model = self._state.local_model.model
        self._local_embedding = None
        if model.inputs is not None:
            network, values = cast(ActiveNetwork, model.network), model.inputs.values
            parts = [network.embed(values.index_select(0, part)) for part in self._parts(rows)]
            graph = _joined(parts)
            leaf = graph.detach().requires_grad_(torch.is_grad_enabled())
            self._local_embedding = _LocalEmbedding(graph, leaf)

    def _parts(self, rows: Index) -> Sequence[Tensor]:
        """The rows of a batch, [rows], in parts that are computed at once, [part] each.

        Only a batch without gradients has several parts.
        """
        most = len(rows) if torch.is_grad_enabled() else self._agreement.limits.pass_rows
        return torch.split(torch.from_numpy(rows), most)

    def _logits(self) -> Tensor:
        network, embeddings = self._state.local_model.model.network, self._embeddings()
        if torch.is_grad_enabled():
            return cast(Tensor, network(embeddings))
        most = self._agreement.limits.pass_rows
        parts = zip(*(torch.split(each, most) for each in embeddings), strict=True)
        return _joined([network(part) for part in parts])

    def _embeddings(self) -> list[Tensor]:
        """The parties' embeddings of the batch, each [batch, width], in the agreement's order."""
        embeddings = dict(self._leaves)
        if self._local_embedding is not None:
            embeddings[self._party.name] = self._local_embedding.leaf
        return [embeddings[name] for name in self._present]

    @property
    def _present(self) -> list[str]:
        """The parties that take part and compute embeddings, in the agreement's order."""
        present = {self._party.name, *self._hub}
        return [name for name in self._agreement.feature_parties if name in present]

    def _check_report(self, task: vfl_pb2.Task, name: str, report: vfl_pb2.BlockReport) -> None:
        if report.diverged:
            self.diverged = True
            if task not in _MAY_DIVERGE:
                raise RemoteProtocolError(
                    f"the embeddings of {name} are not finite or exceed limits.magnitude",
                    "lower the learning rate",
                )

    def _clock(self, task: vfl_pb2.Task, phase: str) -> AbstractContextManager[None]:
        unlearns = task == vfl_pb2.UNLEARN
        return self._party.traffic.time_phase("unlearning" if unlearns else phase)


def largest_batch(agreement: VerticalAgreement) -> int:
    """Largest batch size at which the embeddings of all rows fit into one message."""
    return int(max(1, min(agreement.limits.pass_rows, MAX_PAYLOAD // _row_bytes(agreement))))


def largest_reading(agreement: VerticalAgreement) -> int:
    """Largest number of rows of a request for embeddings without a gradient.

    Every party computes them in parts of at most ``limits.pass_rows`` rows. The number of parts is
    bounded, because a party waits for the others while it computes nothing.
    """
    row = _row_bytes(agreement)
    return int(max(1, min(READING_PARTS * agreement.limits.pass_rows, MAX_PAYLOAD // row)))


def _row_bytes(agreement: VerticalAgreement) -> int:
    """Largest size of a party's embeddings of one row.

    In prediction, the embeddings of all shards' models are sent side by side.
    """
    widest = max(party.width or 0 for party in agreement.parties.values())
    return int(widest * agreement.sharding.shards * np.dtype(agreement.dtype).itemsize)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """The parts of a batch, [part, ...] each, as one tensor, [batch, ...]."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _place(task: vfl_pb2.Task, request: vfl_pb2.BatchRequest) -> vfl_pb2.Place:
    shuffled = request.order == vfl_pb2.SHUFFLED
    return vfl_pb2.Place(
        task=task,
        epoch=request.epoch,
        step=request.index if shuffled else 0,
        microbatch=0 if shuffled else request.index,
    )


def _or_zeros(gradient: Tensor | None, leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if gradient is None else gradient


class CachedTrainingLoop(TrainingLoop):
    """A training loop for frozen bottom models: each embedding is received once and then cached.

    Only the top model is trained, and no gradient is sent. With ``keep_embeddings`` checkpoints and
    versions of the model have the cache. With ``embed_once`` the cache is empty after a restart, so
    the embeddings are requested again, and each passive party sends the same bytes as before.
    """

    def __init__(
        self,
        party: VerticalParty,
        hub: Hub,
        state: PartyState,
        labels: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(party, hub, state, labels, weights)
        self._cache: dict[str, Tensor] = {}  # [common_rows, width] of each passive party
        self._cached = np.zeros(len(labels), np.bool_)

    def forget(self, rows: Index) -> list[str]:
        """Delete the labels, weights and cached embeddings of ``rows``, [rows].

        Returns:
            Descriptions of the deleted data, for the report; the labels are not mentioned.
        """
        for cached in self._cache.values():
            cached[rows] = 0
        self._cached[rows] = False
        return [*super().forget(rows), f"cached embeddings of {len(rows)} rows"]

    def kept(self) -> dict[str, Tensors]:
        """The cache, [common_rows, width] of each passive party, and its rows, [rows]."""
        if not self._agreement.keeps_embeddings:
            return {}
        rows = torch.from_numpy(np.flatnonzero(self._cached))
        return {EMBEDDINGS: dict(self._cache), "embedded": {"rows": rows}}

    def load(self, tensors: Mapping[str, Tensors]) -> None:
        """Load the ``tensors``, [...], that ``kept`` returned; without any, the cache is empty."""
        if "embedded" in tensors:
            self._cache = dict(tensors[EMBEDDINGS])
            self._cached[tensors["embedded"]["rows"].numpy()] = True

    def residues(self, gone: Index) -> list[str]:
        """Names of the stored data that may still concern the forgotten rows ``gone``, [rows]."""
        cached = any(bool(each[gone].any()) for each in self._cache.values())
        return [*super().residues(gone), *(["cached embeddings"] if cached else [])]

    def _send_request(
        self,
        task: vfl_pb2.Task,
        request: vfl_pb2.BatchRequest,
        *,
        learns: bool = True,  # noqa: ARG002  no bottom model is trained
    ) -> None:
        """Request the embeddings of the whole row set, unless they are cached."""
        if self._cached[self._state.batches.rows.select(request.rows)].all():
            return
        for part in self.reading_requests(request.rows):
            super()._send_request(task, part, learns=False)
            rows = self._state.batches.rows_of(part)
            super()._receive(task, rows)
            self._store(rows)

    def _send_gradients(
        self,
        task: vfl_pb2.Task,
        batch_loss: BatchLoss,  # noqa: ARG002  no gradient is sent
        following: StepRequests,
    ) -> None:
        """Request the embeddings of the next step, unless they are cached; send no gradient."""
        for request in following:
            self._send_request(task, request)

    def _receive_rest(self, sent: object, rest: int) -> None:
        """Receive nothing: no request is pending."""

    def _receive(
        self,
        task: vfl_pb2.Task,  # noqa: ARG002  nothing is received that could be wrong
        rows: Index,
    ) -> list[vfl_pb2.BlockReport]:
        if not self._cached[rows].all():
            raise LookupError(
                "the cache lacks embeddings for rows of this batch; they must be requested before "
                "the batch is computed"
            )
        chosen = torch.from_numpy(rows)
        self._leaves = {name: each.index_select(0, chosen) for name, each in self._cache.items()}
        return []

    def _store(self, rows: Index) -> None:
        for name, embedding in self._leaves.items():
            empty = torch.zeros((len(self._cached), embedding.shape[1]), dtype=embedding.dtype)
            self._cache.setdefault(name, empty)[rows] = embedding.detach()
        self._cached[rows] = True
