"""The state of one party between alignment and goodbye: all of its own that a run changes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from parties.common.shared_randomness import Index, Words
from parties.data.preprocess import read_statistics
from parties.session.checkpoint import Content
from parties.session.party import Party
from parties.vertical.engine.active_network import ActiveNetwork
from parties.vertical.engine.features import Features, Inputs
from parties.vertical.engine.local_model import EARLY, Half
from parties.vertical.engine.reconstruction import inverted
from parties.vertical.engine.rows import Batches, RowSets, Shares
from parties.vertical.engine.task_state import Model
from parties.vertical.engine.trigger import Trigger, make_trigger, planned
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from unlearning.sharding import shard_of

Build = Callable[[str, Inputs | None], nn.Module]  # stream, inputs -> a fresh network


class State:
    """Row map, row sets, preprocessing and half of the model; every party changes it alike."""

    def __init__(self, party: Party, rows: Index, build: Build, parts: RowSets | None) -> None:
        """Begin with the common ``rows``; ``parts`` are drawn from their IDs unless given."""
        self._party, self._build = party, build
        self.features = Features(party, rows)
        self._rows = parts or self.features.split()
        self._words: Words | None = None
        self._shard: int | None = None
        self.batches = Batches(self._rows, "")
        self.half = Half(party.agreement, party.entropy)
        self.dropped = np.empty(0, np.int64)  # rows of the present request

    @property
    def rows(self) -> RowSets:
        """The parts of the common rows."""
        return self._rows

    @property
    def shards(self) -> Index:
        """The shard of every common row, [common rows]."""
        return shard_of(self._drawn(), self._party.agreement.sharding.shards)

    def arrange(self, arrange: vfl_pb2.Arrange, task: vfl_pb2.Task) -> vfl_pb2.Report | None:
        """Carry out what the active party says that every party does with its half."""
        match arrange.WhichOneof("action"):
            case "fresh":
                self._fresh(arrange.fresh, task)
                return None
            case "shrink":
                self._shrink(arrange.shrink)
                return None
            case "invert":
                return inverted(self.half, self.rows, arrange.invert.slot)
            case "restore":
                self.follow(arrange.restore.stream)
        return self.half.arrange(arrange, task)

    def stamp(self, rows: Index) -> None:
        """Plant the agreed trigger in training rows; later features bear it there.

        Raises:
            RemoteProtocolError: the agreement has no backdoor here, or these are no training rows.
            DataError: the agreed columns are not ours to set.
        """
        if not np.isin(rows, self.rows.learn).all():
            raise RemoteProtocolError("asks for a trigger in rows that are not for training")
        holding, learn = self._party.holding, self.features.rows[self.rows.learn]
        plan = planned(self._party.agreement, self._party.name)
        self.features.trigger = make_trigger(plan, holding, learn, rows)

    @property
    def trigger(self) -> Trigger | None:
        """Of a backdoor that we plant."""
        return self.features.trigger

    def batch(self, ask: vfl_pb2.Ask) -> torch.Tensor:
        """The features of one batch, [rows, ...]; see ``Batches.of``."""
        model = self.half.model
        if model.inputs is None:
            raise LookupError("this party has no features")
        batch = model.inputs.values.index_select(0, torch.from_numpy(self.batches.of(ask)))
        if ask.rows == vfl_pb2.TRIGGERED and self.trigger is not None:
            return self.trigger.stamp(batch, model.inputs.fitted)
        return batch

    def follow(self, stream: str, shard: int | None = None) -> None:
        """Draw batches by another stream from here on, of one shard if it is named."""
        self._rows, self._shard = replace(self._rows, stream=stream), shard
        if shard is None:
            self.batches = Batches(self._rows, stream)
            return
        members = np.flatnonzero(self.shards == shard)
        self.batches = Batches(self._rows.within(members), stream, self._drawn())

    def rewind(self, start: RowSets) -> None:
        """Take the row sets of the beginning, for a program that is told its story again."""
        self._take(start, "")

    def forget(self, requested: Index) -> None:
        """Learn which rows must go: D_u of the request that follows."""
        self.dropped = requested
        self._take(self.rows.forget(requested), self.batches.stream)

    def forgotten_for_good(self) -> None:
        """D_u is gone from the row sets."""
        self._take(self.rows.forgotten_for_good(), self.batches.stream)
        self._words = None

    def purge(self) -> list[str]:
        """Drop every state but the present model that remembers the forgotten rows; what it was."""
        # Rows outside training taught no copy.
        gone = self.half.purge(() if len(self.rows.forgotten) else (EARLY,))
        gone += ["rows that bore the trigger"] if self.trigger else []
        self.features.forget(self.dropped, self.in_use)
        self.forgotten_for_good()
        return gone

    @property
    def in_use(self) -> list[Inputs]:
        """The features of the present model and of the kept ones."""
        return [model.inputs for model in self.half.models if model.inputs]

    def content(self) -> Content:
        """All of it, for a checkpoint."""
        half = self.half.content()
        rows = {name: _tensor(part) for name, part in self.rows.parts().items()}
        rows |= {"map": _tensor(self.features.rows), "dropped": _tensor(self.dropped)}
        values = half.values | {"stream": self.batches.stream, "shard": self._shard}
        values["trigger"] = None
        if self.trigger is not None:
            rows["stamped"] = _tensor(self.trigger.rows)
            values["trigger"] = self.trigger.values()
        return Content(values, half.tensors | {"rows": rows})

    @classmethod
    def read(cls, party: Party, content: Content, build: Build) -> "State":
        """The state that ``content`` holds."""
        rows = content.tensors["rows"]
        whole = {name: part.numpy() for name, part in rows.items()}
        row_map, dropped = whole.pop("map"), whole.pop("dropped")
        stamped = whole.pop("stamped", None)
        seed, shares = party.agreement.seed, Shares.of(party.agreement)
        parts = RowSets(seed=seed, shares=shares, stream="", **whole)
        state = cls(party, row_map, build, parts)
        state.dropped = dropped
        if stamped is not None:
            state.features.trigger = Trigger(stamped, **content.values["trigger"])
        state.follow(content.values["stream"], content.values["shard"])
        state.half.load(content, state._model)
        return state

    def _fresh(self, fresh: vfl_pb2.Fresh, task: vfl_pb2.Task) -> None:
        shard = fresh.shard if fresh.HasField("shard") else None
        self.follow(fresh.stream, shard)  # the stream draws the rows of a shadow model
        inputs = self.features.fit(self.rows, fresh.fit) if self.features.present else None
        self.half.fresh(Model(self._build(fresh.stream, inputs), inputs), task)

    def _take(self, rows: RowSets, stream: str) -> None:
        self._rows = rows
        self.follow(stream, self._shard)

    def _drawn(self) -> Words:
        """A random word of every row's ID."""
        if self._words is None:
            self._words = self.features.words()
        return self._words

    def _shrink(self, order: vfl_pb2.Shrink) -> None:
        """Move our half towards a fresh one; only the active party has a top."""
        model = self.half.model
        fresh = Model(self._build(order.stream, model.inputs), model.inputs)
        names = [name for name, each in model.network.named_parameters() if each.requires_grad]
        shares = {False: order.bottom, True: order.top}
        top = isinstance(model.network, ActiveNetwork)
        self.half.shrink(fresh.block, [shares[top and name.startswith("top.")] for name in names])

    def _model(self, statistics: object) -> Model:
        """A model whose inputs were fitted before; its weights are about to be replaced."""
        inputs = None if statistics is None else self.features.inputs(read_statistics(statistics))
        return Model(self._build("", inputs), inputs)


def _tensor(rows: Index) -> torch.Tensor:
    return torch.from_numpy(rows.copy())
