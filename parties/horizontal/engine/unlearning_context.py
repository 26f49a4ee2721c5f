"""The scene of a request: who leaves, who stays, and what the server has of the time before."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import urandom
from typing import Protocol

from torch import Tensor

from parties.horizontal.engine.clusters import Tracks
from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.local.local_task import Learned

Fresh = Callable[[str], Tensor]  # a model of random weights, by the name of its randomness


def drawn() -> bytes:
    """A secret of this moment."""
    return urandom(32)


class History(Protocol):
    """What the server kept of the training: models and the clients' changes of some rounds."""

    def __len__(self) -> int:
        """Rounds that were kept."""

    def rounds(self) -> Iterator[tuple[Tensor, dict[Member, Learned]]]:
        """The model that a round began with, and what every client learned in it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a way to unlearn has to work with.

    Attributes:
        original: ω⁰, ``[d]``.
        leaving: members whose rows must be forgotten.
        staying: all others.
        fresh: makes models of random weights.
        history: None where none was kept.
        tell: is told of every round, for progress and the report.
        tracks: of a training in clusters.
        secret: gives 32 bytes that the server alone knows, the same whenever a way is asked again.
    """

    cohort: Cohort
    original: Tensor
    leaving: Sequence[Member]
    staying: Sequence[Member]
    fresh: Fresh
    history: History | None
    tell: Callable[["Turn"], None]
    tracks: Tracks | None = None
    secret: Callable[[], bytes] = drawn


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of a way to unlearn, as the report draws it.

    Attributes:
        stage: ``unlearn`` or ``recover``.
        loss: mean of those who stay, where it is known.
        conflicts: how many who stay would lose by the step; None where nobody knows.
        cosine: the largest of |cos(g_i, d)|.
        skipped: whether the model stayed as it was.
        score: S_u of the primal-dual way, what its constraint holds at or above ``threshold``.
        price: Ω with which the round was learned.
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
    price: float | None = None
