"""One model of a request: how it does on every client's rows, and what it took to get there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

from torch import Tensor

from parties.common.errors import Diverged
from parties.horizontal.engine.cohort import Cohort, Kind, Member, Score, gradients, require_finite
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.evaluation.whole_model import Lender
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.methods.method import Method
from unlearning.horizontal.steepest import cosines

Scores: TypeAlias = dict[str, dict[str, Score]]  # kind, or a name of ``lent`` -> client
SLACK = 1e-6  # of a cosine
KINDS: tuple[Kind, ...] = (
    "forgotten", "retained", "held", "validation", "planted", "stamped", "members", "non_members",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unlearned:
    """A model, and the way to it.

    Attributes:
        between: the model after the rounds that unlearn, where rounds that recover follow; None
            where there is no such place.
        size: bytes on the wire.
        turns: every round, as ``scene.Turn`` has it without its model.
        line: to which what is the clients' own belongs.
        diverged: in which round it left the finite numbers, and whose; the model is then the last
            one before that, and nobody's result. None: it came to its end.
        line_between: ``line`` of ``between``.
    """

    model: Tensor
    between: Tensor | None
    seconds: float
    size: int
    turns: list[dict[str, Any]]
    line: str
    line_between: str
    diverged: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the report knows of one model.

    Attributes:
        scores: of the model.
        stages: of the model before its recovery (``unlearned``), and after the rounds of a
            reverting test (``reverted``).
        marks: what the server measured by itself.
        diverged: as in ``Unlearned``; there are no scores then.
    """

    name: str
    guarantee: str | None
    seconds: float
    size: int
    scores: Scores
    stages: dict[str, Scores] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)
    diverged: str | None = None
    marks: dict[str, Any] = field(default_factory=dict)


Against: TypeAlias = Callable[[int, Tensor, Tensor], tuple[int, float]]


@dataclass(slots=True)
class Diary:
    """What is told of every round.

    Attributes:
        step: is told that there was one, for progress.
        sent: bytes on the wire until now.
        against: of a round, its model before and after: whom the step goes against, and how far.
            Asking them is measuring, and no part of what the method took.
    """

    before: Tensor
    step: Callable[[], None]
    sent: Callable[[], int]
    against: Against | None = None
    turns: list[dict[str, Any]] = field(default_factory=list)
    between: Tensor | None = None
    aside: float = 0.0  # seconds of measuring
    extra: int = 0  # bytes of measuring

    def tell(self, turn: Turn) -> None:
        """Write one round down.

        Raises:
            Diverged: its model is not finite.
        """
        require_finite(turn.model)
        self.step()
        known = {name: each for name, each in asdict(turn).items() if name != "model"}
        if turn.stage == "unlearn":
            if self.against is not None and turn.conflicts is None and not turn.skipped:
                began, size = perf_counter(), self.sent()
                known["conflicts"], known["cosine"] = self.against(
                    turn.number, self.before, turn.model
                )
                self.aside += perf_counter() - began
                self.extra += self.sent() - size
            self.between = turn.model
        self.before = turn.model
        self.turns.append(known)


Stage: TypeAlias = Callable[[Callable[[Turn], None]], Scene]  # a scene whose rounds somebody hears


def unlearn(way: Method, scene: Stage, diary: Diary, line: str) -> Unlearned:
    """Run a way to unlearn, on a line of models; one that diverges ends where it did."""
    began, size, diverged = perf_counter(), diary.sent(), None
    try:
        model = way.run(scene(diary.tell))
        require_finite(model)
    except Diverged as error:
        diverged = f"diverged in round {len(diary.turns) + 1}: {error}"
        model = diary.before
    took, crossed = perf_counter() - began - diary.aside, diary.sent() - size - diary.extra
    recovers = any(turn["stage"] == "recover" for turn in diary.turns)
    between = diary.between if recovers else None
    return Unlearned(model, between, took, crossed, diary.turns, line, line, diverged)


def against(
    cohort: Cohort, staying: Sequence[Member], lesson: Lesson, before: Tensor, after: Tensor
) -> tuple[int, float]:
    """How many who stay a step leads against, and the largest |cosine| (FedOSD's NC)."""
    found = dict(cohort.each(staying, lesson, {"model": before}))
    step = before - after
    if not found or not float(step.norm()):
        return 0, 0.0
    towards = cosines(gradients(found, lesson), step)
    return int((towards < -SLACK).sum()), float(towards.abs().max())


def read(cohort: Cohort, model: Tensor, lender: Lender | None = None) -> Scores:
    """How a model does on all kinds of all clients' rows, and the lender's on those named there."""
    found: Scores = {kind: dict(cohort.read(cohort.clients, kind, model)) for kind in KINDS}
    return found if lender is None else found | lender.read(cohort, model)


def nothing() -> Scores:
    """The scores of a model that nobody can measure."""
    return {kind: {} for kind in KINDS}


def of_clients(scores: Mapping[str, Score], names: "set[str] | None" = None) -> list[Score]:
    """The scores of those that have rows, of ``names`` only where it is given."""
    return [each for name, each in scores.items() if each.rows and (names is None or name in names)]
