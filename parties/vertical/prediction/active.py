"""The active party's side of prediction: align rows, request embeddings, compute probabilities."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import cast

import numpy as np
import torch
from torch import Tensor

from configs.agreement import VerticalAgreement
from parties.common.errors import DataError, Diverged
from parties.common.shared_randomness import Index
from parties.data.predictions import Predictions, Probabilities
from parties.data.requested_ids import RequestedIds
from parties.session import handshake
from parties.session.reconnect import report_and_close
from parties.vertical.alignment.align import align_active
from parties.vertical.engine.networks import ActiveEnsemble, ActiveNetwork
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.training_loop import largest_batch
from parties.vertical.prediction.setup import TrainedNetwork, prediction_inputs, prediction_party
from protocol import vfl_pb2
from protocol.errors import PeerSilent
from protocol.hub import Hub
from protocol.message import Message


class Predictor:
    """Predicts rows that all parties have; all passive parties must be connected."""

    def __init__(
        self, party: VerticalParty, trained: TrainedNetwork, hub: Hub, rows: Index
    ) -> None:
        """Align the active party's rows ``rows``, [rows].

        Raises:
            PolicyError: no row is common to all parties.
            RemoteProtocolError: a party broke the protocol.
        """
        self._party, self._trained, self._hub = party, trained, hub
        common = rows[align_active(prediction_party(party, rows), hub).rows]
        self._place = {party.holding.ids[row]: index for index, row in enumerate(common.tolist())}
        self._inputs = prediction_inputs(party, trained, common)
        self._passes = 0  # passes so far

    def __len__(self) -> int:
        return len(self._place)

    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """Probabilities [ids, classes], or numbers [ids, 1].

        IDs that are not common to all parties have NaN.

        Raises:
            RemoteProtocolError: a party broke the protocol.
            Diverged: an embedding of these rows is not finite or exceeds ``limits.magnitude``;
                other rows can still be predicted.
        """
        place = np.array([self._place.get(each, -1) for each in ids], np.int64)
        result = np.full((len(ids), self._party.agreement.labels.outputs), np.nan)
        available, size = np.flatnonzero(place >= 0), largest_batch(self._party.agreement)
        for start in range(0, len(available), size):
            part = available[start : start + size]
            result[part] = self._predict_batch(place[part])
            self._party.progress.step()
        return result

    def pass_count(self, rows: int) -> int:
        """Largest number of batches into which a prediction of ``rows`` rows is split."""
        return ceil(rows / largest_batch(self._party.agreement))

    def check(self) -> None:
        """Check that all connections are open; if a connection is broken, raise its error."""
        for channel in self._hub.channels.values():
            try:
                channel.receive(0.0)
            except PeerSilent:
                continue

    def goodbye(self) -> None:
        """End the session: send ``Goodbye`` to all parties."""
        self._move_to(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Goodbye())

    @torch.no_grad()
    def _predict_batch(self, rows: Index) -> Probabilities:
        with self._party.traffic.time_phase("forward"):
            embeddings = self._embeddings(rows)
            network = cast(ActiveNetwork | ActiveEnsemble, self._trained.network)
            if self._inputs is not None:
                embeddings[self._party.name] = network.embed(self._inputs[rows])
            ordered = [embeddings[name] for name in self._party.agreement.feature_parties]
            result: Probabilities = network.target.prediction(network(ordered)).numpy()
        return result

    def _embeddings(self, rows: Index) -> dict[str, Tensor]:
        self._move_to(vfl_pb2.PREDICT)
        self._hub.broadcast(vfl_pb2.Predict(), rows)
        replies = self._hub.gather(self._party.limits.step_seconds)
        return embeddings_in(replies, self._party.agreement, len(rows))

    def _move_to(self, task: vfl_pb2.Task) -> None:
        self._passes += 1
        step = self._passes % 2**32
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=0, step=step, microbatch=0))


def embeddings_in(
    replies: Mapping[str, Message], agreement: VerticalAgreement, rows: int
) -> dict[str, Tensor]:
    """Return the embeddings, [rows, width] of each party, in the replies to ``Predict``.

    Raises:
        Diverged: embeddings are not finite or exceed ``limits.magnitude``.
        RemoteProtocolError: a reply has another shape or type.
    """
    dtype, shards = np.dtype(agreement.dtype).type, agreement.sharding.shards
    found = {}
    for name, reply in replies.items():
        width = shards * (agreement.parties[name].width or 0)
        found[name] = torch.from_numpy(reply.tensor(dtype, rows, width))
        if reply.expect(vfl_pb2.Embedding).report.diverged:
            raise Diverged(
                f"{name}: embeddings of these rows are not finite or exceed limits.magnitude",
                f"check the features of these rows at {name}",
            )
    return found


def predict_vertical_rows(
    party: VerticalParty, trained: TrainedNetwork, port: handshake.SpokePort, asked: RequestedIds
) -> Predictions:
    """Accept the passive parties, align the requested rows, and predict these rows.

    Raises:
        DataError: the active party has none of the requested rows.
        PeerSilent: a party did not join in time.
        PolicyError: no requested row is common to all parties.
    """
    rows = _rows(party, asked)
    hub, _ = handshake.accept_spokes(party, port)
    with report_and_close(hub):
        predictor = Predictor(party, trained, hub, rows)
        party.progress.phase("predicting", predictor.pass_count(len(asked)))
        result = predictor.probabilities(asked.ids)
        predictor.goodbye()
    labels = party.agreement.labels
    return Predictions(asked.texts, labels.classes, result, labels.task)


def _rows(party: VerticalParty, asked: RequestedIds) -> Index:
    """The active party's row numbers, [rows], of the requested IDs that it has."""
    wanted = set(asked.ids)
    rows = [row for row, identity in enumerate(party.holding.ids) if identity in wanted]
    if not rows:
        raise DataError(
            "the active party's data has none of the requested rows",
            "check that the IDs are written as in the data",
        )
    return np.array(rows, np.int64)
