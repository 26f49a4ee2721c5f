"""What a federation teaches, from the server's side and from a client's.

A network on rows and a language model on texts are two subjects; whoever leads the rounds, carries
out requests and keeps what must outlive a crash knows neither.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, Kind, Member, Score, Whose
from parties.horizontal.engine.rounds import Course
from parties.horizontal.evaluation.outcome import Outcome, Scores
from parties.horizontal.local.local_task import Learned, Lesson, Slots
from parties.horizontal.methods.method import Method
from unlearning.audit.figure import Figure


class Subject(Protocol):
    """What the server knows of it."""

    @property
    def own(self) -> bool:
        """Whether clients have parameters of their own."""

    @property
    def one_start(self) -> bool:
        """Whether all trainings begin with one model, and not each with random weights."""

    @property
    def history(self) -> int:
        """Every so many rounds of the training are kept; 0: none."""

    @property
    def revert(self) -> int:
        """Rounds of the reverting test; 0: it is not made."""

    @property
    def conflicts(self) -> bool:
        """Whether those who stay say if a step goes against them."""

    @property
    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """Who learns with whom; none where all learn together."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """What is installed for it alone, whose versions the record of a run names."""

    def around(self, cohort: Cohort) -> Cohort:
        """The clients, as they are merged."""

    def fresh(self, stream: str) -> Tensor:
        """A model that saw nobody's rows, ``[d]``, by the name of its randomness."""

    def training(self, stream: str) -> Course:
        """The rounds of the training."""

    def ways(self, rounds: int) -> Sequence[Method]:
        """All that a request is answered with: the chosen method first, the Retrains last.

        ``rounds`` are those of the training so far, which a Retrain gets, too.
        """

    def read(self, cohort: Cohort, model: Tensor, leaving: Sequence[Member]) -> Scores:
        """How a model does on all kinds of all clients' rows."""

    def marks(self, name: str, model: Tensor) -> dict[str, Any]:
        """What the server measures by itself, with what it has; {} where it has nothing."""

    def figures(
        self, outcomes: Sequence[Outcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Figure]]:
        """Every figure of every model of a request."""

    def told(self) -> dict[str, Any]:
        """What the record of a run says of it."""

    def delivered(self, model: Tensor) -> dict[str, Tensor]:
        """A model, ``[d]``, by the names under which it is written."""


class Taught(Protocol):
    """A client that is taught."""

    name: str
    line: str
    own: Tensor | None
    lines: dict[str, Tensor | None]

    @property
    def size(self) -> int:
        """Numbers in a model's vector."""

    @property
    def holds(self) -> bool:
        """Whether any rows are left."""

    def answer(self, kind: Kind, lesson: Lesson, slots: Slots) -> Learned:
        """Do what a lesson says with rows of one kind.

        Raises:
            Unteachable: there are none.
        """

    def measure(self, kind: Kind, model: Tensor, whose: Whose = "own") -> Score:
        """How a model does on rows of one kind."""

    def follow(self, line: str, parent: str | None) -> None:
        """Go over to another line of models; see ``Cohort.follow``."""

    def attend(self, request: str) -> bool:
        """``forgotten`` means this request's rows from now on; whether there is such a request."""

    def dismiss(self) -> None:
        """``forgotten`` means no rows from now on."""

    def purge(self) -> int:
        """Drop the forgotten rows for good; how many they were."""

    def packed(self, own: Tensor) -> Tensor:
        """Of all parameters ``[d]`` the client's own: no more of them need be kept."""

    def unpacked(self, kept: Tensor) -> Tensor:
        """``[d]`` with what was kept in its places."""

    def delivered(self, model: Tensor) -> dict[str, Tensor]:
        """A model, ``[d]``, as it is the client's, by the names under which it is written."""
