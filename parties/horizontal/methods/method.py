"""Interface of a client unlearning method: steps of the driver, then rounds of recovery."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from torch import Tensor

from configs.client_unlearning import LocalTrainingSettings
from configs.unlearning import MethodSettings
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.local.local_task import Aim, LocalTask
from parties.horizontal.methods.recover import Recovery
from parties.requests.driver import NOTHING, JsonObject, Needs, StepRecord, Stop
from unlearning.guarantee import Guarantee


class StageBuilder(Protocol):
    """Builds the round plan of one stage of a method."""

    def __call__(
        self, stage: LocalTrainingSettings, stream: str, aim: Aim = "fit", strength: float = 0.0
    ) -> RoundPlan:
        """Return the round plan of a stage; ``stream`` is the stage's random stream."""


class HasModel(Protocol):
    """The state of a method: it contains the model."""

    @property
    def model(self) -> Tensor:
        """The model, ``[d]``."""


State = TypeVar("State", bound=HasModel)


@dataclass(frozen=True, slots=True)
class ModelState:
    """The state of a method that needs nothing but the model, ``[d]``."""

    model: Tensor


class ClientMethod(ABC, Generic[State]):
    """A client unlearning method; a step is one round, and the state contains the model.

    Attributes:
        name: name in the config and in the report.
        guarantee: how strong the method's guarantee is, for example ``EXACT`` or ``HEURISTIC``.
        settings: class of the method's table of settings; None without settings.
        state: type of the method's state.
        needs_single_updates: whether the method needs the updates of single clients. Such a method
            cannot run with secure aggregation, which hides the updates of single clients.
        from_scratch: whether the method trains a new model, with new personal parameters of the
            clients; a result of this method is a reference for the other methods.
        repeats_training: whether the method repeats rounds of the training with their random
            streams.
    """

    name: str
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    settings: ClassVar[type[MethodSettings] | None] = None
    state: ClassVar[type[Any]] = ModelState
    needs_single_updates: ClassVar[bool] = False
    from_scratch: ClassVar[bool] = False
    repeats_training: ClassVar[bool] = False

    def needs(self, _agreement: Any) -> Needs:
        """Return the state that the method needs after the training."""
        return NOTHING

    def tasks(self) -> list[LocalTask]:
        """Return the local tasks that the method sends; a client refuses every other task.

        ``task_differences`` says in what the task of a round may differ from these tasks.
        """
        return self.planned_tasks()

    def planned_tasks(self) -> list[LocalTask]:
        """Return the local tasks of the method's round plans."""
        values = [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]
        return [each.task for each in values if isinstance(each, RoundPlan)]

    @abstractmethod
    def count(self, run: HorizontalRun) -> int | None:
        """Return the largest number of steps, for the progress display; None if unknown."""

    @abstractmethod
    def init(self, run: HorizontalRun) -> State:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, run: HorizontalRun, state: State, k: int) -> tuple[State, StepRecord] | Stop:
        """Carry out step ``k``, from 0; return the new state and a record, or the end."""

    def finish(
        self, _run: HorizontalRun, state: State, _records: Sequence[JsonObject], _stop: Stop
    ) -> State:
        """Return the state after the last step."""
        return state

    def recovery(self, _run: HorizontalRun, _state: State) -> Recovery | None:
        """Return the rounds of recovery that follow the last step; None without recovery."""
        return None


AnyClientMethod: TypeAlias = ClientMethod[Any]
