"""Context of an unlearning request: clients, original model, history and clusters."""

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
    """Stored rounds of the training."""

    def __len__(self) -> int:
        """Return the number of stored rounds."""

    def rounds(self) -> Iterator[tuple[Tensor, dict[Member, LocalUpdate]]]:
        """Yield the model before each stored round, ``[d]``, and the update of each client."""


@dataclass(frozen=True, slots=True)
class UnlearningContext:
    """What an unlearning method can use.

    Attributes:
        cohort: the clients.
        original: the trained model ω⁰, ``[d]``.
        leaving: members whose rows must be forgotten.
        remaining: all other members.
        initial_model: returns a model with random weights, ``[d]``, for the name of a random
            stream.
        history: stored rounds of the training; None: none are stored.
        record_round: receives a record of each round, for progress and the report.
        clusters: histories of a training in clusters; None: all clients trained together.
        secret: returns 32 bytes that only the server knows, the same for each call of one method.
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
        number: of the round in its stage, from 0.
        model: after the round, ``[d]``.
        loss: mean loss of the trained clients, if known.
        conflicts: number of remaining clients that the step moves against; None: unknown.
        cosine: largest |cos(g_i, d)|; None: unknown.
        skipped: whether the model did not change.
        score: S_u of the primal-dual method, which its constraint keeps at or above ``threshold``.
        threshold: γ of the primal-dual method.
        multiplier: Ω of the round, of the primal-dual method.
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
