"""The labels that training uses: the true ones, or randomly flipped ones under label privacy."""

import numpy as np
import torch

from parties.common.shared_randomness import Index
from parties.vertical.engine.features import read_labels
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.privacy.ledger import PrivacySpending
from parties.vertical.privacy.one_time_release import OneTimeLabels


class UsedLabels:
    """The labels of all common rows.

    Labels of training and validation rows influence what is sent. So with ``label_dp`` they are
    flipped at random before any use. Labels of test rows only enter the report, and stay true.

    Attributes:
        values: [common_rows].
    """

    def __init__(self, party: VerticalParty, state: PartyState) -> None:
        row_map, plan = state.features.rows, party.agreement.privacy.label_dp
        self.values = read_labels(party, np.maximum(row_map, 0))
        self._flipped: OneTimeLabels | None = None
        if plan is not None:
            used = np.union1d(state.rows.initial_train, state.rows.validation)
            self._used = used[row_map[used] >= 0]
            ids = [party.holding.ids[row] for row in row_map[self._used].tolist()]
            chosen = torch.from_numpy(self._used)
            self._flipped = OneTimeLabels(party, plan, ids, self.values[chosen])
            self.values[chosen] = self._flipped.values

    @property
    def spent(self) -> PrivacySpending | None:
        """The spending of the flipped labels; None if no label was flipped."""
        return None if self._flipped is None else self._flipped.spent

    def forget(self, rows: Index) -> list[str]:
        """Delete the stored flipped labels of ``rows``, [rows]; return what was deleted."""
        if self._flipped is None:
            return []
        gone = np.flatnonzero(np.isin(self._used, rows))
        self._flipped.forget(gone)
        return [f"flipped labels of {len(gone)} rows"]

    def residues(self, rows: Index) -> list[str]:
        """The places that still hold flipped labels of ``rows``, [rows]."""
        if self._flipped is None:
            return []
        gone = np.flatnonzero(np.isin(self._used, rows))
        return ["flipped labels"] if self._flipped.residues(gone) else []
