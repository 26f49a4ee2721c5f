"""A client's texts as tokens: those it learns, those kept apart, and those that must go."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parties.common.shared_randomness import Index
from parties.horizontal.engine.cohort import Kind
from parties.language.texts.encoding import Encoded


def nowhere() -> Index:
    """No places."""
    return np.empty(0, np.int64)


def kept_apart(share: float, texts: int) -> int:
    """How many of a client's unflagged texts nobody learns: one at least, if it has two."""
    return max(round(share * texts), int(share > 0 and texts > 1))


@dataclass(slots=True)
class TextShelf:
    """See ``learning.learner.Shelf``.

    Attributes:
        rows: for training.
        flagged: which of ``rows`` a request for what is flagged means, ``[rows]``.
        held: texts of the same kind from which nobody learns, the reference of attacks.
        validation: others, the reference of thresholds; no text is in both.
        public: texts that everybody may know; they are learned beside ``rows`` and never forgotten.
        forgotten: places among ``rows`` that must go.
    """

    rows: list[Encoded]
    flagged: NDArray[np.bool_]
    held: list[Encoded] = field(default_factory=list)
    validation: list[Encoded] = field(default_factory=list)
    public: list[Encoded] = field(default_factory=list)
    forgotten: Index = field(default_factory=nowhere)

    def of(self, kind: Kind) -> list[Encoded]:
        """The texts of one kind; there are no triggers."""
        match kind:
            case "learn":
                return self.rows
            case "held":
                return self.held
            case "validation":
                return self.validation
            case "forgotten":
                return [self.rows[at] for at in self.forgotten]
            case "retained":
                return [self.rows[at] for at in self._retained()]
            case _:
                return []

    def purge(self) -> int:
        """Drop the forgotten texts for good; how many they were."""
        gone, stay = len(self.forgotten), self._retained()
        self.rows, self.flagged = [self.rows[at] for at in stay], self.flagged[stay]
        self.forgotten = nowhere()
        return gone

    def _retained(self) -> Index:
        return np.setdiff1d(np.arange(len(self.rows)), self.forgotten)
