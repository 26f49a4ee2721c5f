"""Interface of a client unlearning method: steps of the driver, then rounds of recovery."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from torch import Tensor

from configs.client_unlearning import LocalTrainingSettings, Reads
from configs.unlearning import MethodSettings
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.local.local_task import Aim
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
        title: name in the report.
        meaning: what the method does, in a few words, for the report.
        reads: what the method reads of the clients; secure aggregation hides some of it.
        from_scratch: whether the method trains a new model, with new personal parameters of the
            clients; a result of this method is a reference for the other methods.
    """

    name: str
    title: ClassVar[str] = ""
    meaning: ClassVar[str] = ""
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    settings: ClassVar[type[MethodSettings] | None] = None
    state: ClassVar[type[Any]] = ModelState
    reads: ClassVar[Reads] = "sums"
    from_scratch: ClassVar[bool] = False

    def title_and_meaning(self) -> tuple[str, str]:
        """Return title and meaning for the report; a variant is shown with its own name."""
        own = {each.name: each.default for each in fields(self)}.get("name")  # type: ignore[arg-type]
        if self.title and self.name != own:
            return self.name, "the same method with other settings"
        return self.title, self.meaning

    def needs(self, _agreement: Any) -> Needs:
        """Return the state that the method needs after the training."""
        return NOTHING

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
