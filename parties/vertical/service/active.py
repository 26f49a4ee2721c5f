"""The active party that stays: it follows the journals, predicts, and carries out requests."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import inf
from time import monotonic

import numpy as np
import torch

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.data.predictions import Probabilities
from parties.requests.duties import RequestDesk
from parties.requests.events import (
    AlignedBody,
    EventKind,
    StartedBody,
    StatedBody,
    VerifiedBody,
)
from parties.requests.exchange import JournalExchange
from parties.requests.lifecycle import RequestState, RequestView, undone_requests
from parties.requests.receipts import receipt_figures
from parties.session import handshake
from parties.session.handshake import CheckpointOffer
from parties.session.reconnect import Backoff, is_connection_loss, report_and_close
from parties.session.store.model_store import VersionFacts
from parties.vertical.engine.local_model import EARLY_CHECKPOINT
from parties.vertical.engine.networks import ActiveEnsemble, ActiveNetwork
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.training_loop import largest_batch
from parties.vertical.kept_model import erase_replaced_models, party_models, present_version
from parties.vertical.methods.registry import vertical_method
from parties.vertical.prediction.active import embeddings_in
from parties.vertical.resume import start_kept_model
from parties.vertical.saved_model import restore_local_model
from parties.vertical.service.carry_out import (
    CERTIFICATE,
    Quarantined,
    carry_out_batch,
    quarantine,
)
from parties.vertical.service.departure import Departures, state_departures
from parties.vertical.service.desk import labelled_rows, labels_before
from parties.vertical.service.fallback import FallbackModel
from parties.vertical.service.queue import PredictionQueue, PredictsRows
from parties.vertical.service.replay_window import ReplayWindow
from parties.vertical.service.statement import PresentModel, state_new_version
from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.hub import Hub
from protocol.message import Message

POLL = 0.5  # seconds between two exchanges of journals
LEAST_ROWS = 2  # training rows that requests must leave: one batch with two rows


def serve_active(
    party: VerticalParty,
    port: handshake.SpokePort,
    desk: RequestDesk,
    predictions: PredictionQueue,
    *,
    once: bool,
) -> None:
    """Accept the passive parties again and again, predict, and carry out requests.

    Args:
        party: the active party.
        port: accepts the connections of the passive parties.
        desk: the party's journal of requests, and its duties.
        predictions: the queue of predictions.
        once: whether to end when nothing is left to do.

    Raises:
        ProtocolError: a passive party broke the protocol.
        StorageError: no model is kept.
    """
    party_models(party).require()
    backoff, finished, fallback = Backoff(party), False, None
    if party.agreement.requests.absent == "fallback":
        fallback = FallbackModel(party, desk, predictions)
    meanwhile, seconds = (None, None) if fallback is None else (fallback.attend, inf)
    while not finished:
        began = monotonic()
        predictions.close_absent(list(party.agreement.passive))
        try:
            hub, offers = handshake.accept_spokes(party, port, seconds, meanwhile)
            with report_and_close(hub):
                service = ActiveService(party, hub, offers, desk, predictions, fallback)
                finished = service.run(once=once)
        except Quarantined as error:
            party.progress.warn(str(error))
        except ProtocolError as error:
            if not is_connection_loss(error):
                raise
            backoff.wait(error, monotonic() - began)


class ActiveService:
    """One session of the active party with a kept model."""

    def __init__(
        self,
        party: VerticalParty,
        hub: Hub,
        offers: Mapping[str, CheckpointOffer],
        desk: RequestDesk,
        predictions: PredictionQueue,
        fallback: FallbackModel | None = None,
    ) -> None:
        self._party, self._hub, self._desk, self._predictions = party, hub, desk, predictions
        self._model = start_kept_model(party, hub, offers)
        erase_replaced_models(party)  # every party has this version
        self._store = party_models(party)
        self._departures = Departures(party, self._store, desk)
        self._synchronise = JournalExchange(party, hub, desk).synchronise
        self._fallback = fallback
        if fallback is not None:
            fallback.returned()
        self._window = ReplayWindow(desk, party, self._store)
        self._place = _places(self._model.state.features.ids())
        self._method = party.agreement.unlearning.method
        self._unfit = set[str]()  # requests of which this session has warned
        _require_state(self._model.local_model.slots, party)

    def run(self, *, once: bool) -> bool:
        """Serve; return True when ``once`` is true and nothing is left to do.

        Raises:
            Quarantined: a batch is not delivered; the session must start again.
        """
        self._synchronise()  # first: a restored journal gets its own later events back
        if self._fallback is not None:
            self._fallback.synchronised()
        if not self._model.replaying:
            self._finish_version()
            model = self._model
            restore_local_model(self._party, self._store, model.state, model.run)
        window = timedelta(hours=self._party.agreement.requests.window_hours)
        while True:
            self._synchronise()
            self._window.erase_expired()
            self._align()
            settled = self._finish_departures()
            if self._model.replaying or (settled and self._ready(window)):
                self._predictions.close_busy()
                self._carry_out(window)
                self._finish_version()
                continue
            if once and not self._is_waited_for():
                self._goodbye()
                return True
            self._answer(POLL)

    # --- requests --------------------------------------------------------------------------------

    def _carry_out(self, window: timedelta) -> None:
        batch = self._model.once("batch", list, lambda: self._begin(window), durable=False)
        names = ", ".join(batch)
        self._party.progress.note(f"carrying out {len(batch)} requests to forget: {names}")
        try:
            carry_out_batch(self._model, self._store, self._desk, batch)
        except Quarantined as error:
            reason = quarantine(self._desk, self._store, batch, str(error))
            raise Quarantined(reason) from error

    def _ready(self, window: timedelta) -> tuple[RequestView, ...]:
        """The requests to carry out now, which leave enough training rows together."""
        version, known = present_version(self._store), len(self._unfit)
        views = self._desk.ready(window, self._method, version, self._unfit)
        fitting = self._fitting(views)
        # Others may be ready without those that do not fit.
        return fitting if len(self._unfit) == known else self._ready(window)

    def _fitting(self, views: Sequence[RequestView]) -> tuple[RequestView, ...]:
        """Those of the requests that leave enough training rows together; warn of the others."""
        left, common = {*self._model.rows.train.tolist()}, len(self._model.state.features.rows)
        fitting: list[RequestView] = []
        for view in views:
            rows = view.rows or ()
            rest = left if view.corrects else left.difference(rows)
            if view.state is RequestState.RUNNING or (
                len(rest) >= LEAST_ROWS and all(row < common for row in rows)
            ):
                left = rest
                fitting.append(view)
            else:
                self._unfit.add(view.id)
                self._party.progress.warn(
                    f"the request {view.id} is not carried out: it would leave {len(rest)} of "
                    f"{len(left)} training rows, and a model needs {LEAST_ROWS}; withdraw it with "
                    "vfl unlearn withdraw, or erase the model with vfl models remove --all"
                )
        return tuple(fitting)

    def _begin(self, window: timedelta) -> list[str]:
        """Journal the start of the next batch at every party, and return its requests."""
        views = self._ready(window)
        batch = tuple(each.id for each in views)
        version = present_version(self._store)
        with self._desk.journal.transaction():  # a batch starts as a whole
            for view in views:
                if view.state is not RequestState.RUNNING:
                    body = StartedBody(batch=batch, version=version, method=self._method)
                    self._desk.append(EventKind.STARTED, view.id, body)
        self._synchronise()
        return list(batch)

    def _align(self) -> None:
        """Name the rows of requests by label; only the active party has the labels.

        A batch that was interrupted, and the requests that a restored model does not know, come
        first: afterwards the model has their labels.
        """
        views = [each for each in self._desk.requests() if not each.content.by_training]
        if self._model.replaying or undone_requests(views, present_version(self._store)):
            return
        for view in views:
            if view.state is RequestState.AUTHORISED:
                labels = labels_before(self._model, self._desk, view)
                body = AlignedBody(rows=tuple(labelled_rows(self._model, view, labels).tolist()))
                self._desk.append(EventKind.ALIGNED, view.id, body)

    def _finish_version(self) -> None:
        """Let every party erase what knows the rows of the newest version's requests."""
        newest = self._store.newest_version()
        facts = None if newest is None else newest.version
        if newest is None or facts is None or facts.made_by != "requests":
            return
        open_ = [each for each in facts.requests if not self._is_verified(each)]
        if not open_ and not self._is_unstated(newest.number, facts):
            return
        if self._fallback is not None:
            self._fallback.drop()
        self._model.erase_before(newest.number)
        present = PresentModel(self._party, self._store, self._model.state, self._model.run)
        sent = [channel.sent_transcript for channel in self._hub.channels.values()]
        state_new_version(self._desk, present, sent)
        audit, plan = facts.own["audit"], self._party.agreement.privacy
        level = self._party.agreement.requests.audit if audit else "none"
        for request in open_:
            body = VerifiedBody(
                version=newest.number,
                guarantee=facts.own["guarantee"],
                level=level if level != "full" or "retrains" in audit else "quick",
                audit=receipt_figures(audit, with_tests=plan.label_dp is None),
                **facts.own.get(CERTIFICATE, {}),
            )
            self._desk.append(EventKind.VERIFIED, request, body)
        self._place = _places(self._model.state.features.ids())
        self._synchronise()

    def _finish_departures(self) -> bool:
        """Journal that a training left out a party or columns, and what this party erased.

        Returns:
            Whether each departure is certified: only then may a batch start.
        """
        settled = self._departures.record()
        sent = [channel.sent_transcript for channel in self._hub.channels.values()]
        state_departures(self._party, self._store, self._desk, sent)
        return settled

    def _is_verified(self, request: str) -> bool:
        return self._desk.request(request).version_after is not None

    def _is_unstated(self, number: int, facts: VersionFacts) -> bool:
        """Whether a party has not stated yet what it did for version ``number``."""
        parties = set(self._party.agreement.parties)
        return any(
            {
                event.origin
                for event in self._desk.journal.events(each)
                if isinstance(event.body, StatedBody) and event.body.version == number
            }
            < parties
            for each in facts.requests
        )

    def _is_waited_for(self) -> bool:
        """Whether a request can still move on without a person."""
        waiting = (RequestState.PENDING, RequestState.AUTHORISED, RequestState.VERIFIED)
        return any(each.state in waiting for each in self._desk.requests())

    # --- messages --------------------------------------------------------------------------------

    def _move_to(self, task: vfl_pb2.Task) -> None:
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=0, step=0, microbatch=0))

    def _goodbye(self) -> None:
        self._move_to(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Goodbye())

    # --- predictions -----------------------------------------------------------------------------

    def _answer(self, seconds: float) -> None:
        """Answer predictions for some seconds."""
        until, predictor = monotonic() + seconds, self._predictor()
        self._predictions.open(fallback=predictor is not self)
        while (left := until - monotonic()) > 0:
            self._predictions.answer_next(predictor, left)

    def _predictor(self) -> PredictsRows:
        """What predicts: a fallback model while the version knows rows that it leaves out.

        After a restart it is fitted again if the journal names it.
        """
        fallback, version = self._fallback, present_version(self._store)
        if fallback is None:
            return self
        found = [each.fallback for each in self._desk.requests() if each.open]
        if any(each is not None and each.version == version for each in found):
            fallback.renew()
        if fallback.stands_for(version):
            return fallback
        fallback.drop()
        return self

    @torch.no_grad()
    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """Probabilities [ids, classes], or numbers [ids, 1].

        Rows that are unknown, or to be forgotten, have NaN.

        Raises:
            Diverged: an embedding of these rows is not finite or exceeds ``limits.magnitude``.
            RemoteProtocolError: a party broke the protocol.
        """
        frozen = self._desk.frozen_rows(present_version(self._store))
        place = np.array([self._place.get(each, -1) for each in ids], np.int64)
        place[np.isin(place, sorted(frozen))] = -1
        result = np.full((len(ids), self._party.agreement.labels.outputs), np.nan)
        known, size = np.flatnonzero(place >= 0), largest_batch(self._party.agreement)
        for start in range(0, len(known), size):
            part = known[start : start + size]
            result[part] = self._predict(place[part])
        return result

    def _predict(self, rows: Index) -> Probabilities:
        """Probabilities of common ``rows``, [rows, classes]; NaN where a party withholds a row."""
        agreement, state = self._party.agreement, self._model.state
        self._move_to(vfl_pb2.PREDICT)
        self._hub.broadcast(vfl_pb2.Predict(), rows)
        replies = self._hub.gather(self._party.limits.step_seconds)
        embeddings = embeddings_in(replies, agreement, len(rows))
        withheld = {row for each in replies.values() for row in _withheld(each)}
        network = self._network()
        inputs = state.local_model.model.inputs
        if inputs is not None:
            own = inputs.values[torch.from_numpy(rows)]
            embeddings[self._party.name] = network.embed(own)
        ordered = [embeddings[name] for name in agreement.feature_parties]
        found: Probabilities = network.target.prediction(network(ordered)).numpy()
        found[[row for row in sorted(withheld) if row < len(rows)]] = np.nan
        return found

    def _network(self) -> ActiveNetwork | ActiveEnsemble:
        model = self._model.local_model
        if model.ensemble:
            raise PolicyError(
                "vfl serve predicts only with a single model, but this one has shards",
                "predict with vfl predict",
            )
        network = model.model.network
        if not isinstance(network, ActiveNetwork):
            raise LookupError("the active party has no top model")
        return network


def _withheld(reply: Message) -> Sequence[int]:
    """The places in the batch of the rows that a party withholds."""
    return reply.expect(vfl_pb2.Embedding).withheld


def _places(ids: Sequence[bytes]) -> dict[bytes, int]:
    """The index of each common row that was not erased, by ID."""
    return {each: index for index, each in enumerate(ids) if each}


def _require_state(slots: Sequence[str], party: VerticalParty) -> None:
    """Refuse a method whose state the kept model lacks."""
    method = vertical_method(party.agreement.unlearning.method)
    if method.needs(party.agreement).early_checkpoint and EARLY_CHECKPOINT not in slots:
        raise PolicyError(
            f"unlearning.method = {method.name!r} needs an early checkpoint, but the kept model "
            "has none: it was trained for another method",
            "choose a method that needs no state, such as 'retrain-local' or 'retrain-paired'",
        )
