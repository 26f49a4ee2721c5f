"""Tokenised texts of one client: training texts, test texts and texts to forget."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parties.common.shared_randomness import Index
from parties.horizontal.local.rows import RowKind
from parties.language.texts.encoding import EncodedText


def no_text_rows() -> Index:
    """Return an empty array of row numbers, ``[n]`` with n = 0."""
    return np.empty(0, np.int64)


def held_out_count(share: float, texts: int) -> int:
    """Return the number of texts to hold out: at least 1 if ``share`` > 0 and ``texts`` > 1."""
    return max(round(share * texts), int(share > 0 and texts > 1))


@dataclass(slots=True)
class TextDataset:
    """Tokenised texts of one client."""

    rows: list[EncodedText]  # training texts
    # ``[rows]``, True for rows that the corpus or the party settings mark as rows to forget.
    flagged: NDArray[np.bool_]
    # held-out texts, with which attacks compare the forgotten texts.
    test: list[EncodedText] = field(default_factory=list)
    # held-out texts that are not in ``test``; thresholds are computed from these texts.
    validation: list[EncodedText] = field(default_factory=list)
    # Public texts for training; a request never includes public texts.
    public: list[EncodedText] = field(default_factory=list)
    forgotten: Index = field(default_factory=no_text_rows)  # row numbers of the texts to forget
    ids: Sequence[bytes] = ()  # content hash of the text of each training row

    def of(self, kind: RowKind) -> list[EncodedText]:
        """Return the texts of one kind.

        The list is empty for kinds that do not exist for texts, such as rows with a backdoor
        trigger.
        """
        match kind:
            case "learn":
                return self.rows
            case "test":
                return self.test
            case "validation":
                return self.validation
            case "forgotten":
                return [self.rows[at] for at in self.forgotten]
            case "retained":
                return [self.rows[at] for at in self._retained()]
            case _:
                return []

    def purge(self) -> int:
        """Delete the rows to forget, and return the number of their texts.

        A long text has several rows. Texts with the same content count as one.
        """
        stay, gone = self._retained(), len(self.forgotten)
        if self.ids:
            gone = len({self.ids[at] for at in self.forgotten})
            self.ids = [self.ids[at] for at in stay]
        self.rows, self.flagged = [self.rows[at] for at in stay], self.flagged[stay]
        self.forgotten = no_text_rows()
        return gone

    def _retained(self) -> Index:
        return np.setdiff1d(np.arange(len(self.rows)), self.forgotten)
