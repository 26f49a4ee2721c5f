"""Interface of a client unlearning method: steps of the driver, then rounds of recovery."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from torch import Tensor, nn

from configs.client_unlearning import LocalTrainingSettings, Reads, StageSettings
from configs.horizontal import HorizontalAgreement
from configs.unlearning import MethodSettings
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.local.local_task import Aim, LocalTask
from parties.horizontal.local.networks import build_whole_network
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.report.method_names import Label
from parties.requests.driver import JsonObject, MethodDefaults, StepResult, Stop


@dataclass(frozen=True, slots=True)
class Stages:
    """Builds the round plans of the stages of the method that configs call ``name``."""

    agreement: HorizontalAgreement
    name: str

    def network(self) -> nn.Module:
        """Return a network whose parameters have the names and shapes of the model's parameters."""
        return build_whole_network(self.agreement, "shape")

    def __call__(
        self, stage: LocalTrainingSettings, stream: str, aim: Aim = "fit", strength: float = 0.0
    ) -> RoundPlan:
        """Return the plan of a stage with the random stream ``stream``.

        Settings of local training alone have one round.
        """
        usual = self.agreement.training
        task = LocalTask(
            aim=aim,
            # The names of random streams are part of the seed: a renamed one changes the results.
            stream=f"{self.name} {stream}",
            epochs=stage.epochs,
            batch=stage.batch or usual.batch,
            learning_rate=stage.learning_rate or usual.learning_rate,
            momentum=stage.momentum,
            weight_decay=usual.weight_decay,
            proximal=strength,
            clip=stage.clip,
        )
        rounds = stage.rounds if isinstance(stage, StageSettings) else 1
        return RoundPlan(task, rounds, seed=self.agreement.seed, decay=usual.decay)


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


class ClientMethod(MethodDefaults, ABC, Generic[State]):
    """A client unlearning method; a step is one round, and the state contains the model."""

    name: str  # name in the config and in the report
    label: ClassVar[Label | None] = None  # what the report shows; None: a Retrain
    state: ClassVar[type[Any]] = ModelState  # type of the method's state
    # What the method reads of the clients; secure aggregation hides some of it.
    reads: ClassVar[Reads] = "sums"
    # Whether the method trains a new model, with new personal parameters of the clients; a result
    # of this method is a reference for the other methods.
    from_scratch: ClassVar[bool] = False

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

    def init(self, run: HorizontalRun) -> State:
        """Return the state before the first step; by default, the original model is all of it."""
        first: State = self.state(run.original)
        return first

    @abstractmethod
    def step(self, run: HorizontalRun, state: State, k: int) -> StepResult[State]:
        """Carry out step ``k``, from 0; return the new state and a record, or the end."""

    def finish(
        self, _run: HorizontalRun, state: State, _records: Sequence[JsonObject], _stop: Stop
    ) -> State:
        """Return the state after the last step."""
        return state

    def recovery(self, _run: HorizontalRun, _state: State) -> Recovery | None:
        """Return the rounds of recovery that follow the last step; None without recovery."""
        return None


class StagedMethod(ClientMethod[State]):
    """A method of two stages: rounds of unlearning, then rounds of training as recovery."""

    recover: RoundPlan  # plan of the rounds of recovery

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of unlearning; 0 for a method that only trains further."""
        return 0

    def step(self, run: HorizontalRun, state: State, k: int) -> StepResult[State]:
        """Carry out round ``k`` of the unlearning, from 0; end after the last one."""
        return Stop() if k == self.count(run) else self.round(run, state, k)

    def round(self, _run: HorizontalRun, _state: State, _k: int) -> StepResult[State]:
        """Carry out one round of unlearning; return the new state and a record, or the end."""
        return Stop()

    def recovery(self, _run: HorizontalRun, state: State) -> Recovery:
        """Return the rounds of recovery, in which all remaining clients train the model."""
        return Recovery(self.recover, TrainedState(state.model))


AnyClientMethod: TypeAlias = ClientMethod[Any]


class MethodClass(Protocol):
    """The class of a method that a config can choose."""

    @property
    def settings(self) -> type[MethodSettings] | None:
        """The class of the method's table of settings; None without settings."""

    @property
    def label(self) -> Label:
        """What the report shows of the method."""

    @property
    def reads(self) -> Reads:
        """What the method reads of the clients."""

    def from_settings(self, plan: Any, rounds: Any, /) -> AnyClientMethod:
        """Build the method from its settings ``plan``; ``rounds`` builds the plans of stages."""
