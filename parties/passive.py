"""The passive party's role program: features in, embeddings out, gradients applied; no labels."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from models.arithmetic import bounded
from models.seeded import seeded
from parties import join
from parties.align import Alignment, follow
from parties.bottom import build_bottom
from parties.differencing import refuse_small_change
from parties.errors import public
from parties.features import Features
from parties.half import Half, Model
from parties.ledger import phase_of
from parties.party import Party
from parties.rows import Batches
from parties.save import save_half
from parties.schedule import Index, torch_seed
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.envelope import task_name
from protocol.errors import RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def run_passive(party: Party, connect: Callable[[], Line]) -> None:
    """Join, align, then answer until the hub says goodbye; our half is saved at the end."""
    channel = join.greet(party, connect)
    try:
        alignment = follow(party, channel)
        refuse_small_change(party, len(alignment))
        answerer = Answerer(party, channel, alignment)
        while answerer.answer(channel.receive(party.agreement.limits.idle_seconds)):
            pass
    except Exception as error:
        channel.abort(*public(error))
        raise
    finally:
        channel.close()


class Answerer:
    """A passive party between alignment and goodbye."""

    def __init__(self, party: Party, channel: Channel, alignment: Alignment) -> None:
        self._party, self._channel = party, channel
        self._features = Features(party, alignment)
        self._batches = Batches(self._features.split(), "")
        self._half = Half(party.agreement)
        self._dropped = np.empty(0, np.int64)  # rows of the present request
        self._embedded: tuple[Tensor, vfl_pb2.Place] | None = None  # last batch, with its graph
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
            case vfl_pb2.Step() as step:
                self._learn(step.gradient, message)
                self._embed(step.ask)
            case vfl_pb2.Gradient() as gradient:
                self._learn(gradient, message)
            case vfl_pb2.Arrange() as arrange:
                self._arrange(arrange)
            case vfl_pb2.Forget():
                self._forget(message.tensor(np.int64, None))
            case vfl_pb2.Purge():
                self._purge()
            case vfl_pb2.Goodbye():
                save_half(self._party, self._half, self._features)
                return False
        return True

    def _embed(self, ask: vfl_pb2.Ask) -> None:
        model = self._half.model
        if model.inputs is None:
            raise LookupError("a passive party always has features")
        batch = model.inputs.values[self._batches.of(ask)]
        with torch.set_grad_enabled(self._channel.place.task != vfl_pb2.EVALUATE):
            embedding: Tensor = model.network(batch)
        self._embedded = (embedding, self._channel.place)
        sent = embedding.detach()
        if not bounded([sent], self._party.agreement.limits.magnitude):
            sent, self._report = torch.zeros_like(sent), vfl_pb2.Report(diverged=True)
        self._channel.send(vfl_pb2.Embedding(report=self._report), sent.numpy())
        self._report = None

    def _learn(self, gradient: vfl_pb2.Gradient, message: Message) -> None:
        if self._embedded is None or not self._embedded[0].requires_grad:
            raise RemoteProtocolError("sent a gradient for an embedding that awaits none")
        (embedding, place), self._embedded = self._embedded, None
        dtype = np.dtype(self._party.agreement.dtype).type
        received = message.tensor(dtype, *embedding.shape)
        embedding.backward(torch.from_numpy(received))  # type: ignore[no-untyped-call]
        self._half.use(gradient, place.microbatch)
        if gradient.WhichOneof("use") == "hold":
            self._report = self._half.report()

    def _arrange(self, arrange: vfl_pb2.Arrange) -> None:
        report = None
        if arrange.WhichOneof("action") == "fresh":
            self._fresh(arrange.fresh)
        else:
            report = self._half.arrange(arrange, self._channel.place.task)
        if arrange.WhichOneof("action") == "restore":
            self._batches = Batches(self._batches.rows, arrange.restore.stream)
        self._channel.send(vfl_pb2.Done(report=report))

    def _fresh(self, fresh: vfl_pb2.Fresh) -> None:
        party, name = self._party, self._party.name
        inputs = self._features.fit(self._batches.rows, fresh.fit)
        plan, shape = party.agreement.parties[name], tuple(inputs.values.shape[1:])
        seed = torch_seed(party.agreement.seed, "weights", fresh.stream, name)
        network = seeded(seed, lambda: build_bottom(plan, party.seat.module, shape))
        network.to(self._features.dtype)
        self._half.fresh(Model(network, inputs), self._channel.place.task)
        self._batches = Batches(self._batches.rows, fresh.stream)

    def _forget(self, rows: Index) -> None:
        """Learn which rows must go: D_u of the request that follows."""
        count = len(self._features.rows)
        if rows[0] < 0 or rows[-1] >= count or (np.diff(rows) <= 0).any():
            raise RemoteProtocolError(f"rows to forget must ascend between 0 and {count - 1}")
        self._dropped = rows
        self._batches = Batches(self._batches.rows.forget(rows), self._batches.stream)
        self._channel.send(vfl_pb2.Done())

    def _purge(self) -> None:
        """Drop every state but the present model that remembers the forgotten rows."""
        purged = self._half.purge()
        self._features.forget(self._dropped, self._half.model.inputs)
        purged.append(f"row map and features of {len(self._dropped)} rows")
        rows = self._batches.rows.forgotten_for_good()
        self._batches = Batches(rows, self._batches.stream)
        self._embedded = None
        self._channel.send(vfl_pb2.Done(purged=purged))
