"""Unlearning methods as sequences of steps, their cost, and the driver that carries out the steps.

The driver records a method's state after every step, so a crash costs at most one step. If a step
leaves numbers that are not finite, the driver stops the method and restores the last good model.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from configs.unlearning import MethodSettings
from parties.common.progress import ProgressReporter
from unlearning.guarantee import Guarantee

NOT_FINITE = "not finite"  # reason to stop: a party computed a number that is not finite
JsonObject = dict[str, Any]
T = TypeVar("T")
State = TypeVar("State")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a method, over all its steps."""

    seconds: float = 0.0  # run time
    rows: int = 0  # number of embeddings that passive parties sent; 0 in modes without embeddings
    size: int = 0  # number of bytes on the wire, in both directions
    payload: int = 0  # the part of ``size`` that tensors take, in bytes; 0 if not measured
    messages: int = 0  # number of messages; 0 if not measured

    def since(self, start: "Cost") -> "Cost":
        """Return the cost that was added since ``start``."""
        return Cost(
            self.seconds - start.seconds,
            self.rows - start.rows,
            self.size - start.size,
            self.payload - start.payload,
            self.messages - start.messages,
        )


class CostMeter:
    """Measures the cost of a method from the construction of this object on.

    Args:
        sent: function that returns the number of bytes sent and received until now.
    """

    def __init__(self, sent: Callable[[], int]) -> None:
        self._sent = sent
        self.restore(Cost())

    @property
    def spent(self) -> Cost:
        """The cost until now."""
        return Cost(seconds=perf_counter() - self._seconds, size=self._sent() - self._size)

    def restore(self, spent: Cost) -> None:
        """Continue from the cost ``spent``."""
        self._seconds, self._size = perf_counter() - spent.seconds, self._sent() - spent.size

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside the ``with`` block."""
        before = self.spent
        yield
        self.restore(before)


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a method."""

    reason: str | None = None  # why the method ended; None if the method carried out all its steps
    restore: bool = False  # whether the last good model is restored


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The record of one step."""

    figures: JsonObject = field(default_factory=dict)  # values of the step for the report, as JSON
    # Whether the model after the step is good: if a later step fails, it is restored.
    good: bool = True
    which: list[bool] | None = None  # of N models, the models that are good; None: all of them


StepResult: TypeAlias = tuple[State, StepRecord] | Stop


@dataclass(frozen=True, slots=True)
class MethodProgress(Generic[State]):
    """The progress of a method, as the journal records it after every step."""

    state: State  # the method's state
    records: list[JsonObject] = field(default_factory=list)  # the figures of all steps so far
    good: bool = False  # whether the model is good
    which: list[bool] | None = None  # of N models, the models that are good; None: all of them
    stop: Stop | None = None  # the end of the method; None if more steps follow
    shown: int = 0  # how much the steps so far advanced the progress display


@dataclass(frozen=True, slots=True)
class Needs:
    """State that a method needs after the training, so that a request can be carried out later."""

    # Fraction of the training after which every party saves an early checkpoint; None: no early
    # checkpoint.
    early_checkpoint: float | None = None
    history: bool = False  # whether the method needs the stored rounds of the training
    clusters: bool = False  # whether the method needs the stored models of the clusters


NOTHING = Needs()


class MethodDefaults:
    """What most methods have in common: a heuristic that needs no state after the training."""

    # How strong the method's guarantee is, for example ``EXACT`` or ``HEURISTIC``.
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    # Class of the method's table of settings; None without settings.
    settings: ClassVar[type[MethodSettings] | None] = None
    # Whether the method can replace labels: D_u stays in D_r, with other labels.
    corrects: ClassVar[bool] = False
    # Why the method holds only for labels of one of several classes; empty: it holds for any loss.
    only_classes: ClassVar[str] = ""
    # Whether the method trains a new model and reads the remaining rows alone, so that it makes the
    # same model again when it starts from the version that it made.
    fresh: ClassVar[bool] = False

    def needs(self, _agreement: Any) -> Needs:
        """Return the state that the method needs after the training."""
        return NOTHING


class Run(Protocol):
    """A model that a method can change, and the journal of the run."""

    @property
    def progress(self) -> ProgressReporter:
        """Receives the steps of the method, for the progress display."""

    @property
    def finite(self) -> bool:
        """Whether all numbers of the last step are finite."""

    def verify(self) -> None:
        """Check all parameters of the model; afterwards ``finite`` tells whether they are finite.

        During a step, only numbers that the step itself computes are checked.
        """

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return the progress that was recorded under ``name`` before a crash; else None."""

    def record(self, name: str, value: object) -> None:
        """Record the progress under ``name``, in place of the earlier progress of this name."""

    def keep_good(self, which: Sequence[bool] | None) -> None:
        """Keep a copy of the present model, which is good; of N models, only of ``which``."""

    def restore_good(self) -> None:
        """Restore the last good model: the kept copy, or the model before the method."""

    def drop_good(self) -> None:
        """Delete the kept copy."""


Run_contra = TypeVar("Run_contra", bound=Run, contravariant=True)


class Method(Protocol[Run_contra, State, Result_co]):
    """An unlearning method: its state, its steps and its result."""

    @property
    def name(self) -> str:
        """The name in the config and the report."""

    @property
    def guarantee(self) -> Guarantee:
        """What the method guarantees."""

    @property
    def settings(self) -> type[MethodSettings] | None:
        """The class of the method's table of settings; None without settings."""

    @property
    def fresh(self) -> bool:
        """Whether the method trains a new model and reads the remaining rows alone."""

    @property
    def state(self) -> type[State]:
        """The type of the method's state."""

    def needs(self, agreement: Any) -> Needs:
        """Return the state that the method needs after the training of ``agreement``."""

    def count(self, run: Run_contra) -> int | None:
        """Return the largest number of steps, for the progress display; None if unknown."""

    def init(self, run: Run_contra) -> State:
        """Prepare the model, and return the state before the first step."""

    def step(self, run: Run_contra, state: State, k: int) -> StepResult[State]:
        """Carry out step ``k``, from 0; return the new state and a record, or the end."""

    def finish(
        self, run: Run_contra, state: State, records: Sequence[JsonObject], stop: Stop
    ) -> Result_co:
        """Return the result, after the last step."""


def carry_out(method: Method[Run_contra, State, Result_co], run: Run_contra) -> Result_co:
    """Carry out a method from its first step, or from the step that a crash interrupted."""
    kind: type[MethodProgress[State]] = MethodProgress[method.state]  # type: ignore[name-defined]
    now = run.recorded(method.name, kind)
    if now is None:
        state = method.init(run)
        now = MethodProgress(state, stop=_failure(run))
        run.record(method.name, now)
    elif now.stop is None:
        run.progress.note(f"{method.name}: continuing after {len(now.records)} steps")
    total = method.count(run)
    run.progress.phase(method.name, None if total is None else max(0, total - now.shown))
    while now.stop is None:
        if now.good:
            run.keep_good(now.which)
        before, now = len(now.records), _next(method, run, now)
        run.record(method.name, now)
        if len(now.records) > before:
            run.progress.measured(method.name, len(now.records), now.records[-1])
    if now.stop.restore:
        run.restore_good()
    run.drop_good()
    return method.finish(run, now.state, now.records, now.stop)


def _next(
    method: Method[Run_contra, State, Result_co], run: Run_contra, now: MethodProgress[State]
) -> MethodProgress[State]:
    """The progress after one more step."""
    before = run.progress.counted
    done = method.step(run, now.state, len(now.records))
    if isinstance(done, Stop):
        if not done.restore:
            run.verify()
        return replace(now, stop=_failure(run) or done)
    state, record = done
    if record.good:
        run.verify()
    records, shown = [*now.records, record.figures], now.shown + run.progress.counted - before
    return MethodProgress(state, records, record.good, record.which, _failure(run), shown)


def _failure(run: Run) -> Stop | None:
    """The end of a method that left numbers that are not finite; else None."""
    return None if run.finite else Stop(NOT_FINITE, restore=True)
