"""The passive party's side of prediction: it sends the embeddings of the requested rows."""

import random
from collections.abc import Callable
from time import sleep

import numpy as np
import torch

from parties.common.errors import ABSENT, abort_reason
from parties.common.shared_randomness import Index
from parties.common.traffic import report_phase
from parties.session import handshake
from parties.vertical.alignment.align import align_passive
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.training_loop import largest_batch
from parties.vertical.prediction.setup import TrainedNetwork, prediction_inputs, prediction_party
from parties.vertical.privacy.embedding_release import prediction_release
from parties.vertical.privacy.one_time_release import FrozenBottom
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.envelope import task_name
from protocol.errors import Aborted, PeerSilent, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def serve_predictions(
    party: VerticalParty, trained: TrainedNetwork, connect: Callable[[], Line]
) -> None:
    """Join the hub and serve until ``Goodbye``; join again when another party disconnects.

    Raises:
        ProtocolError: the hub cannot be reached, refuses this party, or broke the protocol.
    """
    while not _run_session(party, trained, connect):
        sleep(random.uniform(0.2, 1.0))  # noqa: S311  jitter, no secret


def _run_session(
    party: VerticalParty, trained: TrainedNetwork, connect: Callable[[], Line]
) -> bool:
    """Run one session; false if it ended because another party is absent."""
    lines: list[Line] = []

    def dial() -> Line:
        lines.append(connect())
        return lines[-1]

    try:
        _serve(party, trained, handshake.join_hub(party, dial))
    except Aborted as error:
        if error.code != ABSENT:
            raise
        party.progress.warn(f"{error}; joining anew")
        return False
    finally:
        for line in lines:
            line.close()
    return True


def _serve(party: VerticalParty, trained: TrainedNetwork, channel: Channel) -> None:
    """Align, then handle messages until the goodbye."""
    try:
        with channel.locate_errors():
            session = PredictionSession(party, trained, channel)
            while session.handle(channel.receive_whenever(party.limits.idle_seconds)):
                pass
    except Exception as error:
        channel.abort(*abort_reason(error))
        raise


class PredictionSession:
    """The prediction session of a passive party, from the handshake to ``Goodbye``."""

    def __init__(self, party: VerticalParty, trained: TrainedNetwork, channel: Channel) -> None:
        """Align all rows of the party.

        Raises:
            Aborted: the hub did not start the alignment in time.
            LookupError: the party has no features.
            PolicyError: the agreement does not allow the intersection or the release.
            RemoteProtocolError: the hub broke the protocol.
        """
        self._party, self._channel = party, channel
        all_rows = np.arange(len(party.holding))
        try:
            opened = channel.receive(party.limits.idle_seconds).expect(vfl_pb2.StartAlignment)
            rows = align_passive(prediction_party(party, all_rows), channel, opened).rows
        except PeerSilent as error:  # the hub is there, but another party did not join
            raise Aborted(
                f"the hub sent no message within {party.limits.idle_seconds:g} s", ABSENT
            ) from error
        inputs = prediction_inputs(party, trained, rows)
        if inputs is None:
            raise LookupError(
                "this passive party has no feature columns, so it cannot compute embeddings"
            )
        self._inputs = inputs
        ids = [party.holding.ids[row] for row in rows.tolist()]
        frozen = FrozenBottom(trained.network, inputs, ids)
        self._release = prediction_release(party, channel.session or b"", frozen)

    def handle(self, message: Message) -> bool:
        """Handle one message; return False if the message was ``Goodbye``, and else True.

        Raises:
            RemoteProtocolError: the message is neither ``Predict`` nor ``Goodbye``.
        """
        place = self._channel.place
        self._party.progress.follow(place)
        with self._party.traffic.time_phase(report_phase(message.kind, task_name(place))):
            match message.body:
                case vfl_pb2.Predict():
                    self._embed(message.tensor(np.int64, None))
                case vfl_pb2.Goodbye():
                    return False
                case _:
                    hub = self._channel.terms.peer
                    raise RemoteProtocolError(
                        f"{hub} sent {message.kind}; expected Predict or Goodbye during prediction"
                    )
        return True

    @torch.no_grad()
    def _embed(self, rows: Index) -> None:
        count, limit = len(self._inputs), largest_batch(self._party.agreement)
        if len(rows) > limit or rows.min() < 0 or rows.max() >= count:
            raise RemoteProtocolError(
                f"{self._channel.terms.peer} requests {len(rows)} rows; expected at most {limit} "
                f"rows with indices from 0 to {count - 1}"
            )
        embedding, within_limits = self._release(rows)
        report = None if within_limits else vfl_pb2.BlockReport(diverged=True)
        self._channel.send(vfl_pb2.Embedding(report=report), embedding.numpy())
