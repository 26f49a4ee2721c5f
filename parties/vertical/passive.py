"""Program of a passive party: it has no labels, sends embeddings and applies gradients."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from models.arithmetic import all_within
from models.initialisation import build_seeded
from parties.common.device import device_of, embed
from parties.common.shared_randomness import Index, torch_seed
from parties.common.traffic import report_phase
from parties.session import handshake
from parties.session.checkpoint import CheckpointContent, CheckpointStore
from parties.session.reconnect import Reconnect, report_and_close
from parties.session.store.model_store import VersionFacts
from parties.vertical.engine.features import ModelInputs
from parties.vertical.engine.networks import OwnModule, build_bottom
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import NetworkBuilder, PartyState
from parties.vertical.kept_model import (
    digest_before,
    erase_replaced_models,
    kept_replacement,
    party_models,
    replaced,
    report_kept_model,
    state_digest,
)
from parties.vertical.orders import OrderCheck, StartedRequests
from parties.vertical.privacy.embedding_release import FROZEN, EmbeddingRelease
from parties.vertical.privacy.ledger import PrivacySpending
from parties.vertical.privacy.one_time_release import erase_forgotten_releases
from parties.vertical.purge import residues
from parties.vertical.resume import newest_checkpoint, party_checkpoints, start_party_state
from parties.vertical.saved_model import save_local_model
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.dataclass_codec import decode
from protocol.envelope import task_name
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def run_passive(party: VerticalParty, connect: Callable[[], Line]) -> "PassiveSession":
    """Run a passive party: join the hub, align or resume, and handle messages until ``Goodbye``.

    Returns:
        The finished session.

    Raises:
        ProtocolError: the hub broke the protocol, or did not reconnect after a lost connection.
    """
    reconnect = Reconnect(party, partial(newest_checkpoint, party))
    while True:
        kept = party_models(party).next_number() - 1
        held = replace(party_checkpoints(party).offer(), kept=kept or None)
        channel = reconnect.join(partial(handshake.join_hub, party, connect, held))
        try:
            return _run_session(party, channel)
        except ProtocolError as error:
            reconnect.wait_or_raise(error)


def _run_session(party: VerticalParty, channel: Channel) -> "PassiveSession":
    with report_and_close(channel), channel.locate_errors():
        checkpoints = party_checkpoints(party)
        start = partial(start_party_state, party, channel, checkpoints)
        session = PassiveSession(party, channel, checkpoints, start)
        while session.handle(channel.receive(party.limits.idle_seconds)):
            pass
        erase_replaced_models(party)  # after Goodbye: every party has the newest version
        return session


@dataclass(frozen=True, slots=True)
class RequestHooks:
    """How a session asks about journaled requests; a training has none."""

    started: StartedRequests  # rows of requests that may be carried out now
    purging: Callable[[PartyState], None]  # called before the rows of the request are erased
    ended: Callable[[PartyState, bytes], None]  # called when every party has the new version
    made: Callable[[], int]  # largest number of a version that a request has made


StartState: TypeAlias = Callable[[NetworkBuilder], tuple[PartyState, bytes]]


class PassiveSession:
    """The session of a passive party, from the handshake to ``Goodbye``.

    Attributes:
        state: the party's rows, features and part of the model.
        run: 16 bytes that identify the training run.
        purged: what the party deleted at requests.
    """

    def __init__(
        self,
        party: VerticalParty,
        channel: Channel,
        checkpoints: CheckpointStore,
        start: StartState,
        hooks: RequestHooks | None = None,
    ) -> None:
        """Start with the state that ``start`` returns."""
        self._party, self._channel, self._checkpoints = party, channel, checkpoints
        self.state, self.run = start(self._network)
        self._hooks = hooks
        asked = (hooks.started, hooks.made) if hooks else ()
        checked = party.agreement, party.name, self.state, checkpoints
        self._orders = OrderCheck(*checked, *asked, continues=bool(party.continues))
        self._release = EmbeddingRelease(party, channel.session or b"", self.state)
        self.purged: list[str] = []
        self._before = ""  # digest of the part of the model before the present request
        # Embeddings, with their graphs, whose gradients were not received yet; at most two.
        self._pending: deque[tuple[Tensor, vfl_pb2.Place]] = deque()
        self._report: vfl_pb2.BlockReport | None = None  # sent with the next embedding

    @property
    def spent(self) -> PrivacySpending | None:
        """The privacy spending of embeddings that are released once; None for other embeddings."""
        return self._release.spent

    def handle(self, message: Message) -> bool:
        """Check and handle one message; return False if it was ``Goodbye``, and else True.

        Raises:
            RemoteProtocolError: the agreement or the state of this party does not allow the order,
                which has changed nothing.
        """
        place = self._channel.place
        self._party.progress.follow(place)
        with self._party.traffic.time_phase(report_phase(message.kind, task_name(place))):
            self._check(message)
            return self._dispatch(message)

    def _check(self, message: Message) -> None:
        """Check an order before it is carried out."""
        task = self._channel.place.task
        match message.body:
            case vfl_pb2.BatchRequest() as request:
                self._check_batch(request, task)
            case vfl_pb2.Evaluate() as show:
                self._orders.batch(show.batch, task, learns=False)
            case vfl_pb2.Step() as step:
                self._check_gradient(step.gradient, message)
                self._check_batch(step.next_batch, task)
            case vfl_pb2.Gradient() as gradient:
                self._check_gradient(gradient, message)
            case vfl_pb2.ModelCommand() as command:
                self._orders.command(command, task)
            case vfl_pb2.ForgetRows() as order:
                self._orders.forget(
                    message.tensor(np.int64, None), task, order.requests, corrects=order.corrects
                )
            case vfl_pb2.PlantTrigger():
                self._orders.plant(message.tensor(np.int64, None), task)
            case vfl_pb2.Purge():
                self._orders.purge(task)
            case vfl_pb2.Goodbye():
                self._orders.goodbye()
            case _:
                raise RemoteProtocolError(
                    f"the active party sent {message.kind}, which a passive party does not answer "
                    "in training"
                )

    def _check_batch(self, request: vfl_pb2.BatchRequest, task: vfl_pb2.Task) -> None:
        self._release.require_trainable()
        self._orders.batch(request, task, learns=True)

    def _check_gradient(self, gradient: vfl_pb2.Gradient, message: Message) -> None:
        if not self._pending:
            raise RemoteProtocolError(
                "the active party sent a gradient, but this party has already received the "
                "gradients of all its embeddings"
            )
        embedding, place = self._pending[0]
        message.tensor(np.dtype(self._party.agreement.dtype).type, *embedding.shape)
        self._orders.gradient(gradient, place)

    def _dispatch(self, message: Message) -> bool:
        match message.body:
            case vfl_pb2.BatchRequest() as request:
                self._embed(request)
            case vfl_pb2.Evaluate() as show:
                self._evaluate(show.batch)
            case vfl_pb2.Step() as step:
                self._apply_gradient(step.gradient, message)
                self._embed(step.next_batch)
            case vfl_pb2.Gradient() as gradient:
                self._apply_gradient(gradient, message)
            case vfl_pb2.ModelCommand() as command:
                self._execute(command)
            case vfl_pb2.ForgetRows() as order:
                self._forget(message.tensor(np.int64, None), corrects=order.corrects)
            case vfl_pb2.PlantTrigger():
                self._plant_trigger(message.tensor(np.int64, None))
            case vfl_pb2.Purge():
                self._purge()
            case vfl_pb2.Goodbye():
                save_local_model(self._party, self.state, self.run)
                self._checkpoints.clear()
                report_kept_model(self._party)
                return False
        return True

    def _embed(self, request: vfl_pb2.BatchRequest) -> None:
        """Send embeddings, and keep their graph for the gradient."""
        network, batch = self.state.local_model.model.network, self._features(request)
        if self._party.agreement.training.overlap == "pipeline":
            # The weights change before this batch's gradient arrives, but its graph needs them.
            stashed = {name: each.clone() for name, each in network.named_parameters()}
            placed = batch.to(device_of(network))
            embedding: Tensor = functional_call(network, stashed, (placed,)).cpu()
        else:
            embedding = embed(network, batch)
        sent = self._release.with_noise(request, embedding)
        self._pending.append((sent, self._channel.place))
        self._send_embedding(embedding.detach(), sent.detach())

    @torch.no_grad()
    def _evaluate(self, request: vfl_pb2.BatchRequest) -> None:
        """Send embeddings without a graph."""
        self._pending.clear()
        if self._release.is_one_time:
            sent = self._release.released(request)
            self._send_embedding(sent, sent)
            return
        network, most = self.state.local_model.model.network, self._party.agreement.limits.pass_rows
        parts = [embed(network, part) for part in self.state.batch_parts(request, most)]
        embedding = torch.cat(parts)
        self._send_embedding(embedding, self._release.with_noise(request, embedding))

    def _features(self, request: vfl_pb2.BatchRequest) -> Tensor:
        return self.state.batch_features(request)

    def _send_embedding(self, embedding: Tensor, sent: Tensor) -> None:
        """Send ``sent`` for ``embedding``, both [batch, width].

        If the embedding is not finite or too large, send zeros and report it, because noise could
        hide it.
        """
        if not all_within([embedding], self._party.agreement.limits.magnitude):
            sent, self._report = torch.zeros_like(sent), vfl_pb2.BlockReport(diverged=True)
        self._channel.send(vfl_pb2.Embedding(report=self._report), sent.numpy())
        self._report = None

    def _apply_gradient(self, gradient: vfl_pb2.Gradient, message: Message) -> None:
        embedding, place = self._pending.popleft()
        embedding.backward(torch.from_numpy(message.tensors[0]))  # type: ignore[no-untyped-call]
        self.state.local_model.use(gradient, place.microbatch)
        if gradient.WhichOneof("use") == "hold":
            self._report = self.state.local_model.report()

    def _execute(self, command: vfl_pb2.ModelCommand) -> None:
        self._pending.clear()
        report, spent = None, None
        match command.WhichOneof("command"):
            case "write_checkpoint":
                self._write(command.write_checkpoint)
            case "prune_checkpoints":
                self._prune(command.prune_checkpoints)
            case "search_residue":
                left = residues(self.state, self._checkpoints)
                left += self._release.residues(self.state.requested_rows)
                self._channel.send(vfl_pb2.Done(residue=left))
                return
            case "report_privacy_spent":
                spent = self._release.spending()
            case _:
                report = self.state.execute(command, self._channel.place.task)
        self._channel.send(vfl_pb2.Done(report=report, spent=spent))

    def _write(self, order: vfl_pb2.WriteCheckpoint) -> None:
        """Write the present state, as a checkpoint or as a version of the model."""
        version = order.HasField("version")
        if version:
            self.state.local_model.end()
        identified = version or self._checkpoints.sealed
        content = self.state.content(identified=identified)
        traffic = {"traffic": self._party.traffic.to_json()}
        whole = CheckpointContent(content.values | traffic, content.tensors)
        if not version:
            self._checkpoints.write(order.checkpoint, self.run, whole)
            return
        store = party_models(self._party)
        after = state_digest(self.state)
        before = self._before or after  # no order changed the model
        own = {"before": before, "after": after, "older": store.contents()} | replaced(
            self._party, uses_kept=self.state.uses_kept
        )
        facts = decode(order.version, VersionFacts, own=own)
        if facts.made_by == "requests":
            facts = replace(facts, own=own | kept_replacement(store))
        store.write(order.checkpoint, self.run, whole, facts)
        self._before = ""

    def _prune(self, order: vfl_pb2.PruneCheckpoints) -> None:
        """Erase checkpoints; after a request also the versions that know its rows."""
        if order.versions and self._hooks is not None:
            self._hooks.ended(self.state, self.run)
        else:
            self._checkpoints.prune(order.checkpoint)
            erase_forgotten_releases(self._party.state)

    @torch.no_grad()
    def predict(self, rows: Index) -> Tensor:
        """The embeddings of common ``rows``, [rows], to send: [rows, width]."""
        return self._release.predicted(rows)

    def _network(self, stream: str, inputs: ModelInputs | None) -> nn.Module:
        """A fresh bottom model; ``stream`` draws its weights."""
        if inputs is None:
            raise LookupError(
                "this passive party has no feature columns, so it cannot have a bottom model"
            )
        party, name = self._party, self._party.name
        plan, shape = party.agreement.parties[name], tuple(inputs.values.shape[1:])
        learns = not party.agreement.frozen_bottoms
        seed = torch_seed(party.agreement.seed, "weights", stream if learns else FROZEN, name)
        module = OwnModule(name, party.settings.module)
        network = build_seeded(seed, lambda: build_bottom(plan, module, shape))
        network = network.to(torch.device(party.settings.device), inputs.values.dtype)
        return network.requires_grad_(requires_grad=learns)

    def _forget(self, rows: Index, *, corrects: bool) -> None:
        """Start a request: ``rows``, [rows], become D_u; they stay if it ``corrects`` labels."""
        self.state.forget(rows, corrects=corrects)
        self._channel.send(vfl_pb2.Done())

    def _plant_trigger(self, rows: Index) -> None:
        """Plant the trigger of a backdoor audit in ``rows``, [rows].

        No other party receives these rows.
        """
        self.state.plant_trigger(rows)
        self._channel.send(vfl_pb2.Done())

    def _purge(self) -> None:
        """Delete all state that depends on forgotten rows, except for the present model.

        A corrected row stays: its label changed at the active party, and its features did not.
        Released embeddings are erased after the next version or checkpoint is written.
        """
        gone: list[str] = []
        dropped = 0 if self.state.rows.corrects else len(self.state.requested_rows)
        self._before = self._before or digest_before(self.state)
        if self._hooks is not None:
            self._hooks.purging(self.state)
        if dropped:
            gone = self._release.forget(self.state.requested_rows)
            gone.append(f"row map and features of {dropped} rows")
        purged = [*self.state.purge(), *gone, "checkpoints from before"]
        self._pending.clear()
        self.purged += purged
        self._channel.send(vfl_pb2.Done(purged=purged))
