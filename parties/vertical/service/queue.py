"""The queue of predictions that a serving active party answers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from parties.data.predictions import Probabilities
from parties.vertical.engine.party import VerticalParty


class PredictsRows(Protocol):
    """Predicts rows by their IDs."""

    def probabilities(self, ids: Sequence[bytes]) -> Probabilities:
        """Return class probabilities, [ids, classes]; NaN for rows without a prediction."""


class PredictionQueue(Protocol):
    """Predictions that callers in other threads wait for."""

    @property
    def asked(self) -> bool:
        """Whether there may be callers; without callers, no fallback model is fitted."""

    def open(self, *, fallback: bool = False, absent: Sequence[str] = ()) -> None:
        """Accept predictions from now on.

        Args:
            fallback: whether a fallback model predicts.
            absent: parties that are absent.
        """

    def close_absent(self, names: Sequence[str]) -> None:
        """Refuse predictions from now on, because the parties ``names`` are absent."""

    def close_busy(self) -> None:
        """Refuse predictions from now on, because a request is being carried out."""

    def answer_next(self, predictor: PredictsRows, seconds: float) -> bool:
        """Answer one prediction, and wait for it at most ``seconds``; return whether there was one.

        Raises:
            ProtocolError: a party was lost.
        """


# Opens the queue of an active party.
Door: TypeAlias = Callable[[VerticalParty], AbstractContextManager[PredictionQueue]]
