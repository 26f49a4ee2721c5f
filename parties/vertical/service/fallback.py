"""The active party while a passive party is absent: it follows journals, and predicts alone.

The fallback model (``methods/fallback.py``) is fitted without the rows of all open requests. It is
kept in memory only. When all parties are back, it predicts until the requests are carried out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic

import numpy as np
import torch
from torch import Tensor

from models.arithmetic import parameter_digest
from parties.common.errors import Diverged
from parties.data.predictions import Probabilities
from parties.requests.duties import RequestDesk
from parties.requests.events import EventKind, FallbackBody
from parties.requests.exchange import JournalExchange
from parties.requests.signing import commitment
from parties.session.reconnect import is_connection_loss
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.kept_model import party_models, present_version
from parties.vertical.methods.fallback import fit_fallback_top, kept_embeddings
from parties.vertical.service.desk import labelled_rows
from parties.vertical.service.queue import PredictionQueue
from protocol.channel import Channel
from protocol.errors import ProtocolError
from protocol.hub import Hub

PATIENCE = 5.0  # seconds that a party may be absent without a fallback model
PERIOD = 0.5  # seconds between two exchanges of journals
BRIEFLY = 0.1  # seconds in which predictions are answered, before the next look for a connection


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A fallback model."""

    version: int  # number of the version that it stands for
    asked: frozenset[int]  # the rows of open requests when it was fitted
    without: frozenset[int]  # those of them that the version knows: the model leaves them out
    embeddings: Tensor  # [common_rows, total_width]
    network: ActiveNetwork
    place: dict[bytes, int]  # the index of each common row, by ID


class FallbackModel:
    """What the active party does while it waits for passive parties."""

    def __init__(
        self, party: VerticalParty, desk: RequestDesk, predictions: PredictionQueue
    ) -> None:
        self._party, self._desk, self._predictions = party, desk, predictions
        self._store = party_models(party)
        self._began: float | None = None  # when the present absence was noticed
        self._exchanged = -inf  # when journals were exchanged last
        self._exchanges: dict[str, tuple[Channel, JournalExchange]] = {}
        self._fitted: _Fitted | None = None
        self._synchronised = False  # whether this process has been in a session of all parties
        self._absent: tuple[str, ...] = ()  # the parties that were absent last
        self._told: tuple[str, ...] = ()  # the absent parties that a warning named
        # Version and requested rows of the last fit, and of the last one that failed.
        self._tried: tuple[int, frozenset[int]] | None = None
        self._failed: tuple[int, frozenset[int]] | None = None
        # Rows of requests by label that name no rows yet, by version and ID.
        self._labelled: dict[tuple[int, str], frozenset[int]] = {}

    # --- while parties are absent ----------------------------------------------------------------

    def attend(self, arrived: Mapping[str, Channel]) -> Collection[str]:
        """Exchange journals with the parties that ``arrived``, renew the model, and predict.

        Returns:
            The names of parties that are lost.
        """
        now = monotonic()
        self._began = self._began or now
        lost: list[str] = []
        if now - self._exchanged >= PERIOD:
            self._exchanged = now
            lost = [name for name, channel in arrived.items() if not self._reaches(name, channel)]
            if now - self._began >= PATIENCE:
                here = arrived.keys() - set(lost)
                self._serve_without(
                    [each for each in self._party.agreement.passive if each not in here]
                )
        if self._fitted is not None:
            self._predictions.answer_next(self, BRIEFLY)
        return lost

    def returned(self) -> None:
        """Note that all parties have returned."""
        self._began, self._exchanges, self._told = None, {}, ()

    def synchronised(self) -> None:
        """Journal the fallback model: now this party has all events that others have of it."""
        self._synchronised = True
        self._record()

    def drop(self) -> None:
        """Drop the model, and the embeddings in memory."""
        self._fitted = None

    def _reaches(self, name: str, channel: Channel) -> bool:
        """Exchange events with one party; return False if it is lost."""
        before, exchange = self._exchanges.get(name, (None, None))
        if exchange is None or before is not channel:
            hub = Hub({name: channel})
            exchange = JournalExchange(self._party, hub, self._desk, attends=False)
            self._exchanges[name] = channel, exchange
        try:
            exchange.exchange(name)
        except ProtocolError as error:
            if not is_connection_loss(error):
                raise
            return False
        return True

    def _serve_without(self, absent: Sequence[str]) -> None:
        """Predict with a fallback model, because the parties ``absent`` are absent."""
        if not self._predictions.asked:
            return
        if not self.renew():
            self._predictions.close_absent(absent)
            return
        if self._told != (told := tuple(sorted(absent))):
            self._party.progress.warn(f"absent: {', '.join(told)}; a fallback model predicts")
        self._absent = self._told = told
        if self._synchronised:
            self._record()
        self._predictions.open(fallback=True, absent=absent)

    def _record(self) -> None:
        """Journal for each open request that its rows are not in the fallback model."""
        fitted = self._fitted
        if fitted is None or fitted.version != present_version(self._store) or not self._absent:
            return
        digest = parameter_digest(fitted.network.top.parameters()).hex()
        for view in self._desk.requests():
            rows = view.rows or self._labelled.get((fitted.version, view.id))
            if not view.open or view.version_after is not None or rows is None:
                continue
            if not fitted.asked.issuperset(rows):
                continue
            known, version = view.fallback, fitted.version
            if known is None or (known.version, known.absent) != (version, self._absent):
                model = commitment(self._party, view.id, digest)
                body = FallbackBody(version=version, absent=self._absent, model=model)
                self._desk.append(EventKind.FALLBACK, view.id, body)

    # --- the model -------------------------------------------------------------------------------

    def renew(self) -> bool:
        """Fit the model again if the version, or the rows of open requests, have changed.

        Returns:
            Whether there is a fallback model.
        """
        version = present_version(self._store)
        wanted = version, self._asked(version)
        if self._tried != wanted or (self._fitted is None and self._failed != wanted):
            self._tried, self._fitted = wanted, None
            self._fitted = self._fit(*wanted)
            self._failed = wanted if self._fitted is None else None
        return self._fitted is not None

    def _asked(self, version: int) -> frozenset[int]:
        """The rows of all open requests; also of requests by label that name no rows yet."""
        rows = set(self._desk.frozen_rows(version))
        for view in self._desk.requests():
            if view.open and view.rows is None:
                if (version, view.id) not in self._labelled:
                    model = self._load(version)  # rows with other labels soon are frozen, too
                    found = labelled_rows(model, view, model.labels)
                    self._labelled[version, view.id] = frozenset(found.tolist())
                rows |= self._labelled[version, view.id]
        return frozenset(rows)

    def _load(self, version: int) -> SplitModel:
        run, traffic = self._store.offer().run, self._party.traffic.to_json()
        try:
            return SplitModel.resume(self._party, Hub({}), self._store, version, run)
        finally:
            self._party.traffic.restore(traffic)

    def _fit(self, version: int, asked: frozenset[int]) -> _Fitted | None:
        """The fallback model; None if the version has no embeddings, or no row would remain."""
        model = self._load(version)
        embeddings, features = kept_embeddings(model), model.state.features
        rows = np.array(sorted(asked), np.int64)
        without = rows[features.rows[rows] >= 0]
        remains = len(np.setdiff1d(model.rows.train, without))
        if embeddings is None or not remains:
            reason = "no training row remains" if not remains else "it keeps no embeddings"
            self._party.progress.warn(f"version {version} has no fallback model: {reason}")
            return None
        if len(without):
            model.forget(without)
            embeddings[torch.from_numpy(without)] = 0
        try:
            fit_fallback_top(model, embeddings)
        except Diverged as error:
            self._party.progress.warn(f"version {version} has no fallback model: {error}")
            return None
        network = model.local_model.model.network
        if not isinstance(network, ActiveNetwork):
            raise LookupError("the active party has no top model")
        place = {each: index for index, each in enumerate(features.ids()) if each}
        left_out = frozenset(without.tolist())
        return _Fitted(version, asked, left_out, embeddings, network, place)

    def stands_for(self, version: int) -> bool:
        """Return whether the model predicts in place of ``version``, which knows rows of requests.

        It does while a request is open that it was fitted without.
        """
        fitted = self._fitted
        if fitted is None or fitted.version != version:
            self._fitted = None
            return False
        return bool(fitted.without & self._asked(version))

    @torch.no_grad()
    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """Probabilities [ids, classes], or numbers [ids, 1].

        Rows that are unknown, or to be forgotten, have NaN.

        Raises:
            LookupError: there is no fallback model.
        """
        fitted = self._fitted
        if fitted is None:
            raise LookupError("there is no fallback model")
        plan = self._party.agreement
        withheld = fitted.without | self._desk.frozen_rows(fitted.version)
        place = np.array([fitted.place.get(each, -1) for each in ids], np.int64)
        place[np.isin(place, sorted(withheld))] = -1
        known = np.flatnonzero(place >= 0)
        result = np.full((len(ids), plan.labels.outputs), np.nan)
        widths = [each.width or 0 for each in plan.feature_parties.values()]
        chosen = fitted.embeddings[torch.from_numpy(place[known])]
        logits = fitted.network(list(torch.split(chosen, widths, dim=1)))
        result[known] = fitted.network.target.prediction(logits).numpy()
        return result
