"""The run of an unlearning method: the clients, the model before it, and the rounds so far.

The state of a method is a value that contains the model, so the run has no copies of models to
keep and restore: the state after the last round is the last good model.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from os import urandom
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from torch import Tensor

from parties.common.progress import ProgressReporter
from parties.horizontal.engine.clusters import ClusterStore
from parties.horizontal.engine.cohort import Cohort, MeanUpdate, Member, require_finite
from parties.horizontal.engine.history import History
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.requests.driver import Cost, CostMeter, JsonObject, MethodProgress, StepRecord

T = TypeVar("T")
ModelFactory: TypeAlias = Callable[[str], Tensor]  # (name of a random stream) -> model, [d]
# (round, model before, model after) -> number of conflicting clients, largest |cosine|
ConflictCheck: TypeAlias = Callable[[int, Tensor, Tensor], tuple[int, float]]


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """Record of one round of an unlearning method, for the report."""

    stage: str  # ``unlearn`` or ``recover``
    number: int  # number of the round within its stage, from 0
    model: Tensor  # the model after the round, ``[d]``
    loss: float | None = None  # mean loss of the trained clients; None if unknown
    # Number of remaining clients i with cos(g_i, d) < 0, where g_i is the client's gradient and d
    # the direction of the step; None if unknown.
    conflicts: int | None = None
    cosine: float | None = None  # largest |cos(g_i, d)| over the remaining clients; None if unknown
    skipped: bool = False  # True if the round did not change the model
    # S_u, the mean score of the forgotten answers in the primal-dual method.
    score: float | None = None
    threshold: float | None = None  # γ of the primal-dual method, which requires S_u ≥ γ
    multiplier: float | None = None  # Ω, the multiplier of the primal-dual method in this round

    @property
    def figures(self) -> JsonObject:
        """All values but the model, as JSON."""
        names = [each.name for each in fields(self) if each.name != "model"]
        return {name: getattr(self, name) for name in names}


class ProgressJournal(Protocol):
    """Interface to the journal in which a run records the progress of a method."""

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return the progress that was recorded under ``name`` before a crash; else None."""

    def record(self, name: str, value: object) -> None:
        """Record the progress under ``name``, in place of the earlier progress of this name."""

    def save(self) -> None:
        """Write a checkpoint with all recorded progress."""


class NoJournal:
    """A journal that records nothing, for a run outside a server."""

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return None."""
        del name, kind
        return None

    def record(self, name: str, value: object) -> None:
        """Do nothing."""

    def save(self) -> None:
        """Do nothing."""


NO_JOURNAL = NoJournal()


@dataclass(frozen=True, slots=True)
class CostedProgress(Generic[T]):
    """The progress of a method, its cost until then, and the branch of the personal parameters."""

    progress: T
    cost: Cost
    branch: str


def random_secret() -> bytes:
    """Return 32 random bytes."""
    return urandom(32)


def nothing_sent() -> int:
    """Return 0, the number of bytes of a run whose clients are in this process."""
    return 0


@dataclass(slots=True, kw_only=True)
class HorizontalRun:
    """Data and functions that an unlearning method can use, and the rounds that it carried out."""

    cohort: Cohort  # the clients
    original: Tensor  # the trained model ω⁰, ``[d]``
    leaving: Sequence[Member]  # members whose rows must be forgotten
    remaining: Sequence[Member]  # all other members
    # Function that returns a model with random weights, ``[d]``, for the name of a random stream.
    initial_model: ModelFactory
    progress: ProgressReporter  # receives the steps of the method, for the progress display
    history: History | None = None  # stored rounds of the training; None if no rounds are stored
    # Stored models of the clusters; None if the clients were not trained in clusters.
    clusters: ClusterStore | None = None
    # Function that returns a secret of the server, 32 bytes; all calls by the same method return
    # the same secret.
    secret: Callable[[], bytes] = random_secret
    journal: ProgressJournal = NO_JOURNAL  # the journal of the run
    # Is appended to the name of the random stream of each local task. Each request has a different
    # salt, so that no two requests train the same model on the same batches. If two Retrain runs
    # use the same batches and only one of these runs includes a client, the server can subtract
    # their sums and obtain exactly the update of this client.
    salt: str = ""
    branch: str = ""  # name of the branch with the clients' personal parameters
    # Function that switches all clients to a new branch for the recovery, whose parent is its
    # argument, and returns its name; None if clients have no personal parameters.
    recovery_branch: Callable[[str], str] | None = None
    # Function that measures the conflicts of a round of unlearning; None if conflicts are not
    # measured. Measurements are not part of the method's cost.
    check_conflicts: ConflictCheck | None = None
    # Function that returns the number of bytes sent and received until now.
    sent: Callable[[], int] = nothing_sent
    # The model after the last recorded round, ``[d]``; before the first round, ω⁰.
    model: Tensor = field(init=False)
    # The records of the rounds until now, without the models.
    rounds: list[JsonObject] = field(init=False, default_factory=list)
    cost: CostMeter = field(init=False)  # measures the cost of the method

    def __post_init__(self) -> None:
        self.model, self.cost = self.original, CostMeter(self.sent)

    # --- clients ---------------------------------------------------------------------------------

    @property
    def quorum(self) -> float:
        """Smallest fraction of the members that must reply."""
        return self.cohort.quorum

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield each member's update; ``slots`` maps names to sent vectors, ``[d]`` each."""
        return self.cohort.updates(members, self._salted(task), slots)

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the members' mean update; ``slots`` maps names to sent vectors, ``[d]`` each."""
        return self.cohort.mean_update(members, self._salted(task), slots)

    def _salted(self, task: LocalTask) -> LocalTask:
        return replace(task, stream=task.stream + self.salt)

    def begin_recovery(self) -> None:
        """Switch the clients to a new branch, which they train in the recovery.

        The old branch keeps the personal parameters from before recovery, so the model before
        recovery can still be evaluated with them.
        """
        if self.recovery_branch is not None:
            self.branch = self.recovery_branch(self.branch)

    # --- rounds ----------------------------------------------------------------------------------

    def finish_round(self, done: RoundRecord) -> StepRecord:
        """Check and measure the model after a round, and return the record for the report.

        Raises:
            Diverged: the model is not finite.
        """
        require_finite(done.model)
        self.progress.step()
        figures = done.figures
        unknown = done.stage == "unlearn" and done.conflicts is None and not done.skipped
        if unknown and self.check_conflicts is not None:
            with self.cost.paused():
                conflicts, cosine = self.check_conflicts(done.number, self.model, done.model)
            figures |= {"conflicts": conflicts, "cosine": cosine}
        self.model = done.model
        self.rounds.append(figures)
        return StepRecord(figures)

    @property
    def finite(self) -> bool:
        """True: a round that is not finite raises ``Diverged``."""
        return True

    def verify(self) -> None:
        """Do nothing: every round checks all parameters of its model."""

    # --- journal ---------------------------------------------------------------------------------

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return the progress that was recorded under ``name`` before a crash; else None."""
        costed: Any = CostedProgress[kind]  # type: ignore[valid-type]
        found: CostedProgress[T] | None = self.journal.recorded(name, costed)
        if found is None:
            return None
        self.cost.restore(found.cost)
        if found.branch != self.branch:
            self.branch = found.branch
            self.cohort.switch_branch(found.branch, None)
        if isinstance(found.progress, MethodProgress):
            rounds = [each for each in found.progress.records if each]
            self.rounds += rounds
            self.model = found.progress.state.model if rounds else self.model
        return found.progress

    def record(self, name: str, value: object) -> None:
        """Record the progress under ``name``, in place of the earlier progress of this name."""
        self.journal.record(name, CostedProgress(value, self.cost.spent, self.branch))

    def keep_good(self, which: Sequence[bool] | None) -> None:
        """Do nothing: the method's state is the good model."""

    def restore_good(self) -> None:
        """Do nothing: the method's state is the good model."""

    def drop_good(self) -> None:
        """Do nothing: there is no copy."""
