"""Outcome of one model of an unlearning request: metrics on every client's rows, and cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

from torch import Tensor

from parties.common.errors import Diverged
from parties.horizontal.engine.cohort import Cohort, Member, pseudo_gradients, require_finite
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.evaluation.whole_model import WholeModelEvaluation
from parties.horizontal.local.local_task import LocalTask, RowMetrics
from parties.horizontal.local.rows import RowKind
from parties.horizontal.methods.method import Method
from unlearning.horizontal.fedosd import client_cosines

# Kind of rows, or a name of the whole-model evaluation -> client -> metrics.
Scores: TypeAlias = dict[str, dict[str, RowMetrics]]
COSINE_TOLERANCE = 1e-6
EVALUATED_KINDS: tuple[RowKind, ...] = (
    "forgotten", "retained", "test", "validation", "planted", "stamped", "members", "non_members",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnlearnedModel:
    """An unlearned model and its cost.

    Attributes:
        model: the unlearned model, ``[d]``. If the method diverged, ``model`` is the last finite
            model, which is not a valid result.
        before_recovery: the model between unlearning and recovery, ``[d]``; None if there were no
            recovery rounds.
        seconds: run time of the method; the time for measurements is not counted.
        size: number of bytes sent and received; the bytes for measurements are not counted.
        rounds: a record of every round, without the round's model.
        branch: name under which the clients keep their personal parameters for ``model``.
        branch_before_recovery: the same name for ``before_recovery``.
        diverged: the round in which the method diverged, and the error; None if the method did not
            diverge.
    """

    model: Tensor
    before_recovery: Tensor | None
    seconds: float
    size: int
    rounds: list[dict[str, Any]]
    branch: str
    branch_before_recovery: str
    diverged: str | None = None


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """Outcome of one model, for the report.

    Attributes:
        name: name of the method.
        guarantee: what the method guarantees, for example ``exact`` or ``heuristic``; None for the
            original model.
        seconds: run time of the method.
        size: number of bytes sent and received for the method.
        scores: metrics of the model by kind of rows and client.
        stages: metrics of the model before recovery (``unlearned``) and after the further training
            rounds of a reverting test (``reverted``).
        rounds: a record of every round.
        diverged: why the method produced no valid model and no metrics, for example because of
            divergence in a round; None if the model is valid.
        benchmark_metrics: metrics that the server itself measures.
    """

    name: str
    guarantee: str | None
    seconds: float
    size: int
    scores: Scores
    stages: dict[str, Scores] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    diverged: str | None = None
    benchmark_metrics: dict[str, Any] = field(default_factory=dict)


# (round, model before, model after) -> number of conflicting clients, largest |cosine|
ConflictCheck: TypeAlias = Callable[[int, Tensor, Tensor], tuple[int, float]]


@dataclass(slots=True)
class RoundLog:
    """Records the rounds of a method, and measures their conflicts (see ``count_conflicts``).

    Measurements are not part of the method's cost.

    Attributes:
        before: the model before the next round, ``[d]``.
        step: callback after each round, for the progress display.
        sent: function that returns the number of bytes sent and received until now.
        check_conflicts: function that measures the conflicts of a round; None if conflicts are not
            measured.
        rounds: the records of the rounds until now.
        before_recovery: the model after the last round of unlearning, ``[d]``.
        measuring_seconds: time that the measurements took.
        measuring_bytes: bytes sent and received for the measurements.
    """

    before: Tensor
    step: Callable[[], None]
    sent: Callable[[], int]
    check_conflicts: ConflictCheck | None = None
    rounds: list[dict[str, Any]] = field(default_factory=list)
    before_recovery: Tensor | None = None
    measuring_seconds: float = 0.0
    measuring_bytes: int = 0

    def add(self, record: RoundRecord) -> None:
        """Add the record of a round.

        Raises:
            Diverged: the model of the round is not finite.
        """
        require_finite(record.model)
        self.step()
        known = {name: each for name, each in asdict(record).items() if name != "model"}
        if record.stage == "unlearn":
            unknown = record.conflicts is None and not record.skipped
            if self.check_conflicts is not None and unknown:
                began, size = perf_counter(), self.sent()
                known["conflicts"], known["cosine"] = self.check_conflicts(
                    record.number, self.before, record.model
                )
                self.measuring_seconds += perf_counter() - began
                self.measuring_bytes += self.sent() - size
            self.before_recovery = record.model
        self.before = record.model
        self.rounds.append(known)


# Returns a context for the callback that receives the records of rounds.
ContextFactory: TypeAlias = Callable[[Callable[[RoundRecord], None]], UnlearningContext]


def run_method(
    method: Method, context: ContextFactory, log: RoundLog, branch: str
) -> UnlearnedModel:
    """Run an unlearning method; ``branch`` names the clients' personal parameters for the method.

    If the method diverges, the result contains the last finite model.
    """
    began, size, diverged = perf_counter(), log.sent(), None
    try:
        model = method.run(context(log.add))
        require_finite(model)
    except Diverged as error:
        diverged = f"diverged in round {len(log.rounds) + 1}: {error}"
        model = log.before
    seconds = perf_counter() - began - log.measuring_seconds
    size = log.sent() - size - log.measuring_bytes
    recovers = any(each["stage"] == "recover" for each in log.rounds)
    before_recovery = log.before_recovery if recovers else None
    return UnlearnedModel(
        model, before_recovery, seconds, size, log.rounds, branch, branch, diverged
    )


def count_conflicts(
    cohort: Cohort, remaining: Sequence[Member], task: LocalTask, before: Tensor, after: Tensor
) -> tuple[int, float]:
    """Return the number of clients with which a step conflicts, and the largest |cosine|.

    A step conflicts with a client if the cosine of the step and the client's gradient is negative.
    In the paper of FedOSD, NC is this number of clients.

    Args:
        cohort: the clients.
        remaining: members that train one round each.
        task: the local task with which the clients compute their gradients.
        before: the model before the step, ``[d]``.
        after: the model after the step, ``[d]``.
    """
    found = dict(cohort.updates(remaining, task, {"model": before}))
    step = before - after
    if not found or not float(step.norm()):
        return 0, 0.0
    # FedOSD (paper 001) Table 3: NC = number of clients with cos(g_i, d) < 0.
    cosines = client_cosines(pseudo_gradients(found, task), step)
    return int((cosines < -COSINE_TOLERANCE).sum()), float(cosines.abs().max())


def evaluate_model(
    cohort: Cohort, model: Tensor, whole_model: WholeModelEvaluation | None = None
) -> Scores:
    """Return the metrics of a model, ``[d]``, on all kinds of rows of all clients.

    ``whole_model`` adds the metrics of one client's model with its personal parameters.
    """
    found: Scores = {
        kind: dict(cohort.evaluate(cohort.clients, kind, model)) for kind in EVALUATED_KINDS
    }
    return found if whole_model is None else found | whole_model.evaluate(cohort, model)


def no_scores() -> Scores:
    """Return empty scores, for a model that cannot be evaluated."""
    return {kind: {} for kind in EVALUATED_KINDS}


def client_scores(
    scores: Mapping[str, RowMetrics], names: "set[str] | None" = None
) -> list[RowMetrics]:
    """Return the metrics of all clients with rows; if ``names`` is set, only of these clients."""
    return [each for name, each in scores.items() if each.rows and (names is None or name in names)]
