"""What of a passive party's embeddings leaves it: as they are, with noise, or released once."""

import math

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.engine.party_state import State
from parties.vertical.privacy.ledger import PrivacyLedger
from parties.vertical.privacy.one_time_release import Frozen, OnceReleased
from parties.vertical.privacy.visits import Visits, Way, keystream
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

FROZEN = "frozen"  # the stream of a bottom that is never trained: the same for every model


class Outgoing:
    """A passive party's release of embeddings in one session, by the modes that are on."""

    def __init__(self, party: Party, session: bytes, state: State) -> None:
        self._party, self._session, self._state = party, session, state
        self._released: OnceReleased | None = None
        self._live = np.empty(0, np.int64)
        self._visits = self._noise()

    @property
    def once(self) -> bool:
        """Whether embeddings are released once, and gradients are not taken."""
        return self._party.agreement.privacy.embed_once is not None

    def refuse_to_learn(self) -> None:
        """Refuse a question whose gradient would follow, where nothing may be learnt from it."""
        if self.once:
            raise RemoteProtocolError(
                "asks for embeddings to learn from; with privacy.embed_once the bottoms are frozen"
            )

    def visit(self, ask: vfl_pb2.Ask, embedding: Tensor) -> Tensor:
        """What is sent in place of ``embedding``, with noise of its own where that is agreed."""
        if self._visits is None:
            return embedding
        batches = self._state.batches
        return self._visits.noised(batches.of(ask), batches.rows.of(ask.rows), embedding)

    def released(self, ask: vfl_pb2.Ask) -> Tensor:
        """The released embeddings of a batch; all rows are released at the first question."""
        released = self._all()  # first: it fills the map of rows
        return released.values[np.searchsorted(self._live, self._state.batches.of(ask))]

    def forget(self, rows: Index) -> list[str]:
        """Remove what was released of ``rows``; says what it was."""
        if not self.once:
            return []
        released = self._all()  # first: it fills the map of rows
        released.forget(np.searchsorted(self._live, rows))
        return [f"released embeddings of {len(rows)} rows"]

    def remains(self, rows: Index) -> list[str]:
        """Where released embeddings of ``rows`` still are."""
        if self._released is None:
            return []
        kept = self._released.remains(np.searchsorted(self._live, rows))
        return ["released embeddings"] if kept else []

    def account(self) -> vfl_pb2.Spent:
        """What our releases have cost so far."""
        spent = self._all().spent
        bounded = math.isfinite(spent.square)
        return vfl_pb2.Spent(releases=spent.releases, square=spent.square if bounded else None)

    def _all(self) -> OnceReleased:
        if self._released is None:
            self._released = self._release()
        return self._released

    def _release(self) -> OnceReleased:
        plan, model = self._party.agreement.privacy.embed_once, self._state.half.model
        if plan is None or model.inputs is None:
            raise LookupError("embeddings are released once with privacy.embed_once alone")
        row_map = self._state.features.rows
        self._live = np.flatnonzero(row_map >= 0)
        ids = [self._party.holding.ids[row] for row in row_map[self._live].tolist()]
        inputs = model.inputs.values[torch.from_numpy(self._live)]
        frozen = Frozen(model.network, inputs, ids)
        return OnceReleased(self._party, plan, self._session, frozen)

    def _noise(self) -> Visits | None:
        plan = self._party.agreement.privacy.embed_train
        if plan is None:
            return None
        way = Way(plan, self._party.agreement.limits.magnitude)
        ledger = PrivacyLedger(self._party.state, self._party.entropy)
        return Visits(way, ledger, self._ids(), keystream(self._party, self._session, "visits"))

    def _ids(self) -> list[bytes]:
        """Of all common rows; nothing stands for rows that are forgotten."""
        rows = self._state.features.rows.tolist()
        return [self._party.holding.ids[row] if row >= 0 else b"" for row in rows]
