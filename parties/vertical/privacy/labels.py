"""The labels for training: the true labels, or with label privacy randomly flipped labels."""

import numpy as np
import torch

from parties.common.shared_randomness import Index
from parties.vertical.engine.features import read_labels
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.privacy.ledger import PrivacySpending
from parties.vertical.privacy.one_time_release import OneTimeLabels


class UsedLabels:
    """The labels of all common rows, which training and the report use.

    Labels of training and validation rows influence the messages that are sent. Therefore, with
    ``label_dp``, these labels are flipped at random before any use. Labels of test rows are used
    only for the figures of the active party and are never flipped.

    Attributes:
        values: [common_rows], the labels.
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
        """The privacy spending of the flipped labels; None without ``label_dp``."""
        return None if self._flipped is None else self._flipped.spent

    def nameable(self, rows: Index) -> Index:
        """Those of ``rows``, [rows], whose use in a message may depend on their labels, [found].

        With ``label_dp`` these are the rows with flipped labels, else all.
        """
        return rows if self._flipped is None else np.intersect1d(rows, self._used)

    def forget(self, rows: Index) -> list[str]:
        """Mark the stored flipped labels of ``rows``, [rows], to be erased; return what will be."""
        if self._flipped is None:
            return []
        gone = np.flatnonzero(np.isin(self._used, rows))
        self._flipped.forget(gone)
        return [f"flipped labels of {len(gone)} rows"]

    def residues(self, rows: Index) -> list[str]:
        """Names of stores that still contain flipped labels of ``rows``, [rows]."""
        if self._flipped is None:
            return []
        gone = np.flatnonzero(np.isin(self._used, rows))
        return ["flipped labels"] if self._flipped.residues(gone) else []
