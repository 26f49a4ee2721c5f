"""Data that an unlearning method receives: clients, original model, history and clusters."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import urandom
from typing import Protocol

from torch import Tensor

from parties.horizontal.engine.clusters import ClusterStore
from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.local.local_task import LocalUpdate

ModelFactory = Callable[[str], Tensor]  # (name of a random stream) -> model, [d]


def random_secret() -> bytes:
    """Return 32 random bytes."""
    return urandom(32)


class History(Protocol):
    """Interface to the training rounds that the server has stored."""

    def __len__(self) -> int:
        """Return the number of stored rounds."""

    def rounds(self) -> Iterator[tuple[Tensor, dict[Member, LocalUpdate]]]:
        """Yield the model before each stored round, ``[d]``, and the update of each client."""


@dataclass(frozen=True, slots=True)
class UnlearningContext:
    """Data and functions that an unlearning method can use.

    Attributes:
        cohort: the clients.
        original: the trained model ω⁰, ``[d]``.
        leaving: members whose rows must be forgotten.
        remaining: all other members.
        initial_model: function that returns a model with random weights, ``[d]``, for the name of a
            random stream.
        history: stored rounds of the training; None if no rounds are stored.
        record_round: receives a record of each round, for progress and the report.
        clusters: stored models of the clusters; None if the clients were not trained in clusters.
        secret: function that returns a secret of the server, 32 bytes; all calls by the same method
            return the same secret.
    """

    cohort: Cohort
    original: Tensor
    leaving: Sequence[Member]
    remaining: Sequence[Member]
    initial_model: ModelFactory
    history: History | None
    record_round: Callable[["RoundRecord"], None]
    clusters: ClusterStore | None = None
    secret: Callable[[], bytes] = random_secret


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """Record of one round of an unlearning method, for the report.

    Attributes:
        stage: ``unlearn`` or ``recover``.
        number: number of the round within its stage, from 0.
        model: the model after the round, ``[d]``.
        loss: mean loss of the trained clients; None if unknown.
        conflicts: number of remaining clients i with cos(g_i, d) < 0, where g_i is the client's
            gradient and d the direction of the step; None if unknown.
        cosine: largest |cos(g_i, d)| over the remaining clients; None if unknown.
        skipped: True if the round did not change the model.
        score: S_u, the mean score of the forgotten answers in the primal-dual method.
        threshold: γ of the primal-dual method, which requires S_u ≥ γ.
        multiplier: Ω, the multiplier of the primal-dual method in this round.
    """

    stage: str
    number: int
    model: Tensor
    loss: float | None = None
    conflicts: int | None = None
    cosine: float | None = None
    skipped: bool = False
    score: float | None = None
    threshold: float | None = None
    multiplier: float | None = None
