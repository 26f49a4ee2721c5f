"""The active party's side of prediction: join, align, ask for embeddings, say probabilities."""

from collections.abc import Sequence
from math import ceil
from typing import cast

import numpy as np
import torch
from torch import Tensor

from parties.common.errors import DataError, Diverged, public
from parties.common.shared_randomness import Index
from parties.data.asked_ids import Asked
from parties.data.predictions import Predictions, Probabilities
from parties.session import handshake as join
from parties.session.party import Party
from parties.vertical.alignment.align import lead
from parties.vertical.engine.active_network import ActiveNetwork, Voters
from parties.vertical.engine.training_loop import widest_pass
from parties.vertical.prediction.trained import Trained, inputs, sought
from protocol import vfl_pb2
from protocol.errors import PeerSilent
from protocol.hub import Hub


class Predictor:
    """The whole model over the rows that all parties hold, as long as its hub lives."""

    def __init__(self, party: Party, trained: Trained, hub: Hub, rows: Index) -> None:
        """Find which of ``rows`` of our holding the others hold too.

        Raises:
            PolicyError: they hold none.
            RemoteProtocolError: a party broke the protocol, or is gone.
        """
        self._party, self._trained, self._hub = party, trained, hub
        common = rows[lead(sought(party, rows), hub).rows]
        self._place = {party.holding.ids[row]: at for at, row in enumerate(common.tolist())}
        self._inputs = inputs(party, trained, common)
        self._asked = 0  # passes so far

    def __len__(self) -> int:
        return len(self._place)

    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """[ids, classes], NaN where not all parties hold the row.

        Raises:
            RemoteProtocolError: a party broke the protocol, or is gone.
            Diverged: an embedding of these rows cannot travel; others can still be asked for.
        """
        place = np.array([self._place.get(each, -1) for each in ids], np.int64)
        found = np.full((len(ids), len(self._party.agreement.labels.classes)), np.nan)
        held, size = np.flatnonzero(place >= 0), widest_pass(self._party.agreement)
        for start in range(0, len(held), size):
            part = held[start : start + size]
            found[part] = self._pass(place[part])
            self._party.watch.step()
        return found

    def passes(self, rows: int) -> int:
        """How many questions ``rows`` rows take at most."""
        return ceil(rows / widest_pass(self._party.agreement))

    def check(self) -> None:
        """Raise what ended a conversation, if one has ended; nobody speaks unasked."""
        for channel in self._hub.channels.values():
            try:
                channel.receive(0.0)
            except PeerSilent:
                continue

    def goodbye(self) -> None:
        """End the conversation."""
        self._move(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Goodbye())

    @torch.no_grad()
    def _pass(self, rows: Index) -> Probabilities:
        with self._party.ledger.clock("forward"):
            embeddings = self._embeddings(rows)
            network = cast(ActiveNetwork | Voters, self._trained.network)
            if self._inputs is not None:
                embeddings[self._party.name] = network.embed(self._inputs[rows])
            ordered = [embeddings[name] for name in self._party.agreement.feature_parties]
            found: Probabilities = torch.softmax(network(ordered).double(), dim=1).numpy()
        return found

    def _embeddings(self, rows: Index) -> dict[str, Tensor]:
        agreement = self._party.agreement
        self._move(vfl_pb2.PREDICT)
        self._hub.broadcast(vfl_pb2.Look(), rows)
        said = self._hub.gather(agreement.limits.step_seconds)
        dtype, shards = np.dtype(agreement.dtype).type, agreement.sharding.shards
        widths = {name: shards * (each.width or 0) for name, each in agreement.parties.items()}
        found = {
            name: torch.from_numpy(each.tensor(dtype, len(rows), widths[name]))
            for name, each in said.items()
        }
        for name, each in said.items():
            if each.expect(vfl_pb2.Embedding).report.diverged:
                raise Diverged(
                    f"{name}: embeddings of these rows are beyond limits.magnitude",
                    f"are the features of these rows right at {name}?",
                )
        return found

    def _move(self, task: vfl_pb2.Task) -> None:
        self._asked += 1
        step = self._asked % 2**32
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=0, step=step, microbatch=0))


def predict(party: Party, trained: Trained, port: join.Port, asked: Asked) -> Predictions:
    """Join, align over the requested rows and predict them.

    Raises:
        DataError: our own data has none of them.
        PeerSilent: a party did not come in time.
        PolicyError: no requested row is held by all.
    """
    rows = _rows(party, asked)
    hub, _ = join.welcome(party, port)
    try:
        predictor = Predictor(party, trained, hub, rows)
        party.watch.phase("predicting", predictor.passes(len(asked)))
        found = predictor.probabilities(asked.ids)
        predictor.goodbye()
    except Exception as error:
        hub.abort(*public(error))
        raise
    finally:
        hub.close()
    return Predictions(asked.texts, party.agreement.labels.classes, found)


def _rows(party: Party, asked: Asked) -> Index:
    """The requested rows of our holding; what we lack ourselves is not asked for."""
    wanted = set(asked.ids)
    rows = [row for row, identity in enumerate(party.holding.ids) if identity in wanted]
    if not rows:
        raise DataError(
            "our own data has none of the requested rows", "are the IDs written as in the data?"
        )
    return np.array(rows, np.int64)
