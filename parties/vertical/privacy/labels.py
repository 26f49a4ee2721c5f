"""The labels that the active party uses: its own, or with training and validation rows flipped."""

import numpy as np
import torch

from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.engine.features import labels
from parties.vertical.engine.party_state import State
from parties.vertical.privacy.ledger import Spent
from parties.vertical.privacy.one_time_release import OnceFlipped


class UsedLabels:
    """The labels of all common rows.

    Those of training and validation rows decide on what is sent, so with `label_dp` they are
    flipped before anything else sees them. Those of test rows enter the report alone, and stay.

    Attributes:
        values: [common rows].
    """

    def __init__(self, party: Party, state: State) -> None:
        row_map, plan = state.features.rows, party.agreement.privacy.label_dp
        self.values = labels(party, np.maximum(row_map, 0))
        self._flipped: OnceFlipped | None = None
        if plan is not None:
            used = np.union1d(state.rows.drawn, state.rows.validation)
            self._used = used[row_map[used] >= 0]
            ids = [party.holding.ids[row] for row in row_map[self._used].tolist()]
            chosen = torch.from_numpy(self._used)
            self._flipped = OnceFlipped(party, plan, ids, self.values[chosen])
            self.values[chosen] = self._flipped.values

    @property
    def spent(self) -> Spent | None:
        """What flipping has cost; None where nothing was flipped."""
        return None if self._flipped is None else self._flipped.spent

    def forget(self, rows: Index) -> list[str]:
        """Remove what is kept of the flipped labels of ``rows``; says what it was."""
        if self._flipped is None:
            return []
        gone = np.flatnonzero(np.isin(self._used, rows))
        self._flipped.forget(gone)
        return [f"flipped labels of {len(gone)} rows"]

    def remains(self, rows: Index) -> list[str]:
        """Where flipped labels of ``rows`` still are."""
        if self._flipped is None:
            return []
        gone = np.flatnonzero(np.isin(self._used, rows))
        return ["flipped labels"] if self._flipped.remains(gone) else []
