"""The server's view of its clients: whom to ask, and what comes back from those who are there.

Algorithms are written against ``Cohort`` alone; over gRPC, in a process pool or on a cluster they
are the same program.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from parties.common.errors import Diverged, PolicyError
from parties.horizontal.local.local_task import Learned, Lesson, Slots

# held: for tests; stamped: the same with the trigger; planted: training rows that bear it; members
# and non_members: forgotten and test rows without it, of every class as many (see ``matched``).
Kind: TypeAlias = Literal[
    "learn", "retained", "forgotten", "held", "validation", "stamped", "planted",
    "members", "non_members",
]  # fmt: skip
# What of a model is a client's own, while it is measured: the client's, or as it was sent.
Whose: TypeAlias = Literal["own", "sent"]

SMALLER = "a smaller learning rate, or a bound on its steps (clip)"  # what helps


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A client with one kind of its training rows: all, those that stay, or those that must go.

    A client that has some rows forgotten takes part twice: its forgotten rows are a client of their
    own (FedOSD, §2.2).
    """

    client: str
    kind: Kind = "learn"

    def __str__(self) -> str:
        return self.client if self.kind == "learn" else f"{self.client}, {self.kind} rows"


@dataclass(frozen=True, slots=True)
class Mean:
    """The members' changes as one.

    Attributes:
        change: Σ n_k (φ_k − φ) / Σ n_k over those who answered, ``[d]``.
        rows: Σ n_k.
        loss: mean by rows.
        absent: who did not answer.
    """

    change: Tensor
    rows: int
    loss: float
    absent: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """How a model does on one client's rows of one kind."""

    rows: int
    right: int
    loss: float  # sum
    odds: tuple[int, ...] = ()  # see ``odds.counted``; none without rows
    chance: float = 0.0  # of texts: the sum of their probabilities, each to the power of 1 / tokens


class Cohort(Protocol):
    """Clients that can be taught."""

    @property
    def clients(self) -> Sequence[str]:
        """All of them, by name."""

    @property
    def quorum(self) -> float:
        """The part of those asked that must answer."""

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """What every member learned, as it comes; who does not answer is left out.

        Raises:
            PolicyError: secure aggregation lets nobody see a single one.
        """

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """The mean of what they learned.

        Raises:
            PolicyError: fewer answered than the agreed quorum.
        """

    def read(
        self, names: Sequence[str], kind: Kind, model: Tensor, whose: Whose = "own"
    ) -> Mapping[str, Score]:
        """How a model, ``[d]``, does on rows of every client that is here."""

    def follow(self, line: str, parent: str | None) -> None:
        """What of the model is the clients' own belongs to this line of models from now on.

        A new line begins with a copy of its parent's, or fresh.
        """

    def attend(self, request: str) -> None:
        """Tell all clients which request ``forgotten`` means from now on.

        Raises:
            PolicyError: one of them is not here: nobody may be passed over.
        """

    def purge(self) -> dict[str, list[str]]:
        """Have every client forget the rows of the request; what each removed."""


class Summing:
    """A running mean by rows, in float64, in memory of two models for any number of clients."""

    def __init__(self) -> None:
        self._sum: Tensor | None = None
        self.rows, self._loss = 0, 0.0
        self.seen, self._diverged = set[Member](), list[Member]()

    def add(self, member: Member, learned: Learned) -> None:
        """Add one member's change; of one that is not finite only whose it is."""
        self.seen.add(member)
        if not sound(learned):
            self._diverged.append(member)
            return
        if self._sum is None:
            self._sum = torch.zeros_like(learned.change, dtype=torch.float64)
        self._sum.add_(learned.change, alpha=learned.rows)
        self.rows += learned.rows
        self._loss += learned.loss * learned.rows

    def mean(self, members: Sequence[Member], quorum: float) -> Mean:
        """The mean over those who answered.

        Raises:
            PolicyError: they are less than the part ``quorum`` of all.
            Diverged: what one of them learned is not finite.
        """
        require_sound(self._diverged)
        absent = _absent(members, self.seen, quorum)
        if self._sum is None:
            raise PolicyError("a mean of nobody")
        return Mean(self._sum / self.rows, self.rows, self._loss / self.rows, absent)


def sound(learned: Learned) -> bool:
    """Whether a change and its loss are finite; otherwise they would spoil every mean."""
    return isfinite(learned.loss) and bool(torch.isfinite(learned.change).all())


def require_sound(diverged: Sequence[Member]) -> None:
    """Refuse to go on, once all were heard: who is asked at a line still answers.

    Raises:
        Diverged: somebody diverged.
    """
    if diverged:
        raise Diverged(
            f"the update of {diverged[0]} is not finite, or beyond limits.magnitude", SMALLER
        )


def require_finite(model: Tensor) -> None:
    """Refuse a model ``[d]`` that nobody can go on with.

    Raises:
        Diverged: it is not finite.
    """
    if not bool(torch.isfinite(model).all()):
        raise Diverged("the model is not finite", SMALLER)


def require_bounded(model: Tensor, magnitude: float) -> None:
    """Refuse a model ``[d]`` that clients would not take.

    Raises:
        Diverged: a number is beyond the agreed magnitude, or not finite.
    """
    if not bool((model.abs() <= magnitude).all()):
        raise Diverged(f"a number of the model is beyond limits.magnitude, {magnitude:g}", SMALLER)


def needed(quorum: float, asked: int) -> int:
    """How many of so many who are asked must answer; 0.56 of 25 are 14, whatever a float says."""
    return ceil(quorum * asked - 1e-9)


def answers(
    cohort: Cohort, members: Sequence[Member], lesson: Lesson, slots: Slots
) -> Iterator[tuple[Member, Learned]]:
    """What every member learned, as it comes, of no fewer than the quorum.

    What is not finite is kept back, and in the end an error.

    Raises:
        PolicyError: fewer answered, which is known once all were asked.
        Diverged: what one of them learned is not finite.
    """
    seen, diverged = set[Member](), list[Member]()
    for member, learned in cohort.each(members, lesson, slots):
        seen.add(member)
        if sound(learned):
            yield member, learned
        else:
            diverged.append(member)
    require_sound(diverged)
    _absent(members, seen, cohort.quorum)


def _absent(members: Sequence[Member], seen: set[Member], quorum: float) -> tuple[Member, ...]:
    """Who did not answer; raises ``PolicyError`` where nobody did, or fewer than the quorum."""
    absent = tuple(each for each in members if each not in seen)
    if not seen or len(seen) < needed(quorum, len(members)):
        raise PolicyError(
            f"{len(seen)} of {len(members)} clients answered, fewer than the quorum; "
            f"missing: {', '.join(map(str, absent[:10]))}",
            "are they started? training.quorum says how many must answer",
        )
    return absent


def gradients(found: Mapping[Member, Learned], lesson: Lesson) -> Tensor:
    """Pseudo-gradients g_i = (ω − ω_i) / η, ``[members, d]``, in the order of ``found``.

    Raises:
        Diverged: what one of them learned is not finite.
    """
    require_sound([member for member, each in found.items() if not sound(each)])
    return torch.stack([-each.change for each in found.values()]) / lesson.learning_rate
