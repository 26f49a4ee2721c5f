"""Release of a passive party's embeddings: without noise, with fresh noise, or only once."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from configs.agreement import KEEP
from models.arithmetic import all_within
from parties.common.device import embed
from parties.common.shared_randomness import Index
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.privacy.ledger import PrivacyLedger, PrivacySpending
from parties.vertical.privacy.one_time_release import FrozenBottom, OneTimeEmbeddings
from parties.vertical.privacy.visit_noise import VisitNoise, VisitNoiseSettings, noise_keystream
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

FROZEN = "frozen"  # random stream of a bottom model that is never trained, equal in every model


class EmbeddingRelease:
    """The embeddings that a passive party releases in one session, with the agreed privacy."""

    def __init__(self, party: VerticalParty, session: bytes, state: PartyState) -> None:
        self._party, self._session, self._state = party, session, state
        self._released: OneTimeEmbeddings | None = None
        self._live = np.empty(0, np.int64)
        self._visit_noise = self._make_visit_noise()

    @property
    def is_one_time(self) -> bool:
        """True if each embedding is released only once; then the bottom model is never trained."""
        return self._party.agreement.privacy.embed_once is not None

    def require_trainable(self) -> None:
        """Raise an error if the bottom model keeps its random weights.

        Raises:
            RemoteProtocolError: ``privacy.embed_once`` or ``training.local.keep_embeddings`` is
                set, so the bottom model must not be trained.
        """
        if self._party.agreement.frozen_bottoms:
            key = "privacy.embed_once" if self.is_one_time else KEEP
            raise RemoteProtocolError(
                f"the active party requests embeddings for training, but {key} does not allow the "
                "training of bottom models"
            )

    def with_noise(self, request: vfl_pb2.BatchRequest, embedding: Tensor) -> Tensor:
        """Add the agreed noise to the embeddings of a batch, [batch, width], and return the sum.

        Raises:
            PolicyError: a row would be released more often than agreed.
        """
        if self._visit_noise is None:
            return embedding
        batches = self._state.batches
        return self._visit_noise.with_noise(
            batches.rows_of(request), batches.rows.select(request.rows), embedding
        )

    def released(self, request: vfl_pb2.BatchRequest) -> Tensor:
        """The one-time embeddings of a batch, [batch, width]; the first request releases all rows.

        Raises:
            PolicyError: the privacy settings forbid the release.
        """
        released = self._one_time_embeddings()  # first: it fills the map of rows
        return released.values[np.searchsorted(self._live, self._state.batches.rows_of(request))]

    def predicted(self, rows: Index) -> Tensor:
        """The embeddings of common ``rows``, [rows], for a prediction: [rows, width].

        Raises:
            LookupError: this party has no features.
            PolicyError: the privacy settings forbid the release.
        """
        if self.is_one_time:
            released = self._one_time_embeddings()  # first: it fills the map of rows
            return released.values[np.searchsorted(self._live, rows)]
        model = self._state.local_model.model
        if model.inputs is None:
            raise LookupError("this party has no features, so it has no embeddings")
        embedding = embed(model.network, model.inputs.values[torch.from_numpy(rows)])
        noise = self._visit_noise
        return embedding if noise is None else noise.with_noise(rows, rows, embedding)

    def forget(self, rows: Index) -> list[str]:
        """Mark released embeddings of ``rows``, [rows], to be erased; return what will be."""
        if not self.is_one_time:
            return []
        released = self._one_time_embeddings()  # first: it fills the map of rows
        released.forget(np.searchsorted(self._live, np.intersect1d(rows, self._live)))
        return [f"released embeddings of {len(rows)} rows"]

    def residues(self, rows: Index) -> list[str]:
        """Names of stores that still contain released embeddings of ``rows``, [rows]."""
        if self._released is None:
            return []
        remaining = self._released.residues(
            np.searchsorted(self._live, np.intersect1d(rows, self._live))
        )
        return ["released embeddings"] if remaining else []

    @property
    def spent(self) -> PrivacySpending | None:
        """The privacy spending of embeddings that are released once; None for other embeddings."""
        return self._one_time_embeddings().spent if self.is_one_time else None

    def spending(self) -> vfl_pb2.PrivacySpent:
        """The message with the privacy spending of this party so far."""
        spent = self._one_time_embeddings().spent
        bounded = math.isfinite(spent.square)
        return vfl_pb2.PrivacySpent(
            releases=spent.releases, square=spent.square if bounded else None
        )

    def _one_time_embeddings(self) -> OneTimeEmbeddings:
        if self._released is None:
            self._released = self._release()
        return self._released

    def _release(self) -> OneTimeEmbeddings:
        plan, model = self._party.agreement.privacy.embed_once, self._state.local_model.model
        if plan is None or model.inputs is None:
            raise LookupError(
                "one-time embeddings need the key privacy.embed_once in the agreement, and "
                "features at this party"
            )
        row_map = self._state.features.rows
        self._live = np.flatnonzero(row_map >= 0)
        ids = [self._party.holding.ids[row] for row in row_map[self._live].tolist()]
        inputs = model.inputs.values[torch.from_numpy(self._live)]
        frozen = FrozenBottom(model.network, inputs, ids)
        return OneTimeEmbeddings(self._party, plan, self._session, frozen)

    def _make_visit_noise(self) -> VisitNoise | None:
        plan = self._party.agreement.privacy.embed_train
        if plan is None:
            return None
        settings = VisitNoiseSettings(plan, self._party.agreement.limits.magnitude)
        ledger = PrivacyLedger(self._party.state, self._party.entropy)
        return VisitNoise(
            settings,
            ledger,
            self._state.features.ids(),
            noise_keystream(self._party, self._session, "visits"),
        )


Embed = Callable[[Index], tuple[Tensor, bool]]


def prediction_release(party: VerticalParty, session: bytes, frozen: FrozenBottom) -> Embed:
    """Build the function that releases embeddings in prediction.

    The function takes row indices, [rows], and returns two values: the embeddings to send,
    [rows, width], and a flag. The flag is true if the embeddings are within ``limits.magnitude``.
    With ``embed_once``, the function returns the same bytes for a row that was released before, and
    makes a new release for any other row. With ``embed_once``, the flag is always true, because the
    value false would reveal features.

    Raises:
        PolicyError: the privacy settings forbid the release.
    """
    plan, magnitude = party.agreement.privacy, party.agreement.limits.magnitude
    if plan.embed_once:
        once = OneTimeEmbeddings(party, plan.embed_once, session, frozen)
        return lambda rows: (once.values[rows], True)
    visit_noise: VisitNoise | None = None
    if plan.embed_train:
        ledger, settings = (
            PrivacyLedger(party.state, party.entropy),
            VisitNoiseSettings(plan.embed_train, magnitude),
        )
        visit_noise = VisitNoise(
            settings, ledger, frozen.ids, noise_keystream(party, session, "predictions")
        )

    @torch.no_grad()
    def sent(rows: Index) -> tuple[Tensor, bool]:
        embedding = embed(frozen.network, frozen.inputs[rows])
        if not all_within([embedding], magnitude):
            return torch.zeros_like(embedding), False
        return embedding if visit_noise is None else visit_noise.with_noise(
            rows, rows, embedding
        ), True

    return sent
