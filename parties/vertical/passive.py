"""The passive party's role program: features in, embeddings out, gradients applied; no labels."""

from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from models.arithmetic import bounded
from models.seeded import seeded
from parties.common.device import device_of, embed
from parties.common.errors import public
from parties.common.shared_randomness import Index, torch_seed
from parties.common.traffic import phase_of
from parties.session import handshake as join
from parties.session.checkpoint import Checkpoints, Content
from parties.session.party import Party
from parties.vertical.engine.bottom import build_bottom
from parties.vertical.engine.features import Inputs
from parties.vertical.privacy.embedding_release import FROZEN, Outgoing
from parties.vertical.residue_check import remains
from parties.vertical.resume import Losses, checkpoints, join_in, newest
from parties.vertical.saved_model import save_half
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.envelope import task_name
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def run_passive(party: Party, connect: Callable[[], Line]) -> None:
    """Join, align or go on, then answer until the hub says goodbye and our half is saved."""
    losses = Losses(party, partial(newest, party))
    while True:
        held = checkpoints(party).held()
        channel = losses.retry(partial(join.greet, party, connect, held))
        try:
            return _session(party, channel)
        except ProtocolError as error:
            losses.bear(error)


def _session(party: Party, channel: Channel) -> None:
    try:
        answerer = Answerer(party, channel, checkpoints(party))
        while answerer.answer(channel.receive(party.agreement.limits.idle_seconds)):
            pass
    except Exception as error:
        channel.abort(*public(error))
        raise
    finally:
        channel.close()


class Answerer:
    """A passive party between alignment and goodbye."""

    def __init__(self, party: Party, channel: Channel, ours: Checkpoints) -> None:
        self._party, self._channel, self._checkpoints = party, channel, ours
        self._state, self._run = join_in(party, channel, ours, self._network)
        self._outgoing = Outgoing(party, channel.session or b"", self._state)
        # Batches that await their gradients, each with its graph; two at most.
        self._embedded: deque[tuple[Tensor, vfl_pb2.Place]] = deque()
        self._report: vfl_pb2.Report | None = None  # for the next embedding

    def answer(self, message: Message) -> bool:
        """Do what one message says; whether there is more to come."""
        place = self._channel.place
        self._party.watch.at(place)
        with self._party.ledger.clock(phase_of(message.kind, task_name(place))):
            return self._obey(message)

    def _obey(self, message: Message) -> bool:
        match message.body:
            case vfl_pb2.Ask() as ask:
                self._embed(ask)
            case vfl_pb2.Show() as show:
                self._show(show.ask)
            case vfl_pb2.Step() as step:
                self._learn(step.gradient, message)
                self._embed(step.ask)
            case vfl_pb2.Gradient() as gradient:
                self._learn(gradient, message)
            case vfl_pb2.Arrange() as arrange:
                self._arrange(arrange)
            case vfl_pb2.Forget():
                self._forget(message.tensor(np.int64, None))
            case vfl_pb2.Stamp():
                self._stamp(message.tensor(np.int64, None))
            case vfl_pb2.Purge():
                self._purge()
            case vfl_pb2.Goodbye():
                save_half(self._party, self._state, self._run)
                self._checkpoints.clear()
                return False
        return True

    def _embed(self, ask: vfl_pb2.Ask) -> None:
        """Send embeddings, and keep their graph for the gradient."""
        self._outgoing.refuse_to_learn()
        network, batch = self._state.half.model.network, self._features(ask)
        if self._party.agreement.training.overlap == "pipeline":
            # The weights move before this batch's gradient comes: its graph needs them as they are.
            stashed = {name: each.clone() for name, each in network.named_parameters()}
            placed = batch.to(device_of(network))
            embedding: Tensor = functional_call(network, stashed, (placed,)).cpu()
        else:
            embedding = embed(network, batch)
        sent = self._outgoing.visit(ask, embedding)
        self._embedded.append((sent, self._channel.place))
        self._send(embedding.detach(), sent.detach())

    @torch.no_grad()
    def _show(self, ask: vfl_pb2.Ask) -> None:
        """Send embeddings from which nobody learns."""
        self._embedded.clear()
        if self._outgoing.once:
            sent = self._outgoing.released(ask)
            self._send(sent, sent)
            return
        embedding = embed(self._state.half.model.network, self._features(ask))
        self._send(embedding, self._outgoing.visit(ask, embedding))

    def _features(self, ask: vfl_pb2.Ask) -> Tensor:
        return self._state.batch(ask)

    def _send(self, embedding: Tensor, sent: Tensor) -> None:
        """Send what became of ``embedding``; noise must not hide that it has left all bounds."""
        if not bounded([embedding], self._party.agreement.limits.magnitude):
            sent, self._report = torch.zeros_like(sent), vfl_pb2.Report(diverged=True)
        self._channel.send(vfl_pb2.Embedding(report=self._report), sent.numpy())
        self._report = None

    def _learn(self, gradient: vfl_pb2.Gradient, message: Message) -> None:
        if not self._embedded:
            raise RemoteProtocolError("sent a gradient for an embedding that awaits none")
        embedding, place = self._embedded.popleft()
        dtype = np.dtype(self._party.agreement.dtype).type
        received = message.tensor(dtype, *embedding.shape)
        embedding.backward(torch.from_numpy(received))  # type: ignore[no-untyped-call]
        self._state.half.use(gradient, place.microbatch)
        if gradient.WhichOneof("use") == "hold":
            self._report = self._state.half.report()

    def _arrange(self, arrange: vfl_pb2.Arrange) -> None:
        self._embedded.clear()
        report, spent = None, None
        match arrange.WhichOneof("action"):
            case "save":
                content = self._state.content()
                ledger = {"ledger": self._party.ledger.sums()}
                whole = Content(content.values | ledger, content.tensors)
                self._checkpoints.write(arrange.save.checkpoint, self._run, whole)
            case "settle":
                self._checkpoints.settle(arrange.settle.checkpoint)
            case "search":
                left = remains(self._state, self._checkpoints)
                left += self._outgoing.remains(self._state.dropped)
                self._channel.send(vfl_pb2.Done(left=left))
                return
            case "account":
                spent = self._outgoing.account()
            case _:
                report = self._state.arrange(arrange, self._channel.place.task)
        self._channel.send(vfl_pb2.Done(report=report, spent=spent))

    def _network(self, stream: str, inputs: Inputs | None) -> nn.Module:
        """A fresh bottom model."""
        if inputs is None:
            raise LookupError("a passive party always has features")
        party, name = self._party, self._party.name
        plan, shape = party.agreement.parties[name], tuple(inputs.values.shape[1:])
        learns = party.agreement.privacy.embed_once is None
        seed = torch_seed(party.agreement.seed, "weights", stream if learns else FROZEN, name)
        network = seeded(seed, lambda: build_bottom(plan, party.seat.module, shape))
        network = network.to(party.device, inputs.values.dtype)
        return network.requires_grad_(requires_grad=learns)

    def _forget(self, rows: Index) -> None:
        """Learn which rows must go: D_u of the request that follows."""
        self._require_rows(rows, "forget")
        self._state.forget(rows)
        self._channel.send(vfl_pb2.Done())

    def _stamp(self, rows: Index) -> None:
        """Plant the trigger of a backdoor audit; no other party is told in which rows."""
        self._require_rows(rows, "stamp")
        self._state.stamp(rows)
        self._channel.send(vfl_pb2.Done())

    def _require_rows(self, rows: Index, what: str) -> None:
        count = len(self._state.features.rows)
        if not len(rows) or rows[0] < 0 or rows[-1] >= count or (np.diff(rows) <= 0).any():
            raise RemoteProtocolError(f"rows to {what} must ascend between 0 and {count - 1}")

    def _purge(self) -> None:
        """Drop every state but the present model that remembers the forgotten rows."""
        dropped = len(self._state.dropped)
        gone = self._outgoing.forget(self._state.dropped)
        purged = self._state.purge() + gone
        purged += [f"row map and features of {dropped} rows", "checkpoints from before"]
        self._embedded.clear()
        self._channel.send(vfl_pb2.Done(purged=purged))
