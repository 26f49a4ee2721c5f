"""Passing over rows whose embeddings came once: nothing is asked twice, and no gradient is sent."""

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.engine.batch import Group, Use
from parties.vertical.engine.party_state import State
from parties.vertical.engine.training_loop import Passes
from protocol import vfl_pb2
from protocol.hub import Hub


class CachedPasses(Passes):
    """Training, evaluation and unlearning of the top on embeddings that are kept (`embed_once`).

    After a restart the cache is empty and is asked for again: a passive party answers with the
    bytes that it released before.
    """

    def __init__(self, party: Party, hub: Hub, state: State, labels: Tensor) -> None:
        super().__init__(party, hub, state, labels)
        self._cache: dict[str, Tensor] = {}  # [common rows, width] of each passive party
        self._known = np.zeros(len(labels), np.bool_)

    def forget(self, rows: Index) -> list[str]:
        """Drop also the cached embeddings of ``rows``."""
        for cached in self._cache.values():
            cached[rows] = 0
        self._known[rows] = False
        return [*super().forget(rows), f"cached embeddings of {len(rows)} rows"]

    def remains(self, gone: Index) -> list[str]:
        """Where we still hold anything of the rows ``gone``, the cache included."""
        cached = any(bool(each[gone].any()) for each in self._cache.values())
        return [*super().remains(gone), *(["cached embeddings"] if cached else [])]

    def _ask(
        self,
        task: vfl_pb2.Task,
        ask: vfl_pb2.Ask,
        *,
        learns: bool = True,  # noqa: ARG002  no bottom learns here
    ) -> None:
        """Ask for the embeddings of the whole row set, unless they are here."""
        if self._known[self._state.batches.rows.of(ask.rows)].all():
            return
        for part in self.parts(ask.rows):
            super()._ask(task, part, learns=False)
            rows = self._state.batches.of(part)
            super()._receive(task, rows)
            self._keep(rows)

    def _answer(
        self,
        task: vfl_pb2.Task,
        use: Use,  # noqa: ARG002  no gradient goes out
        following: Group,
    ) -> None:
        """Ask for what follows, unless it is here."""
        for ask in following:
            self._ask(task, ask)

    def _drain(self, asked: object, rest: int) -> None:
        """Nothing is on its way."""

    def _receive(
        self,
        task: vfl_pb2.Task,  # noqa: ARG002  nothing arrives that could be wrong
        rows: Index,
    ) -> list[vfl_pb2.Report]:
        if not self._known[rows].all():
            raise LookupError("these rows were never asked for")
        chosen = torch.from_numpy(rows)
        self._leaves = {name: each.index_select(0, chosen) for name, each in self._cache.items()}
        return []

    def _keep(self, rows: Index) -> None:
        for name, embedding in self._leaves.items():
            empty = torch.zeros((len(self._known), embedding.shape[1]), dtype=embedding.dtype)
            self._cache.setdefault(name, empty)[rows] = embedding.detach()
        self._known[rows] = True
