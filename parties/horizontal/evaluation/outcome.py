"""Outcome of one model of an unlearning request: metrics on every client's rows, and cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, Member, pseudo_gradients
from parties.horizontal.local.local_task import LocalTask, RowMetrics
from parties.horizontal.local.rows import RowKind
from unlearning.horizontal.fedosd import client_cosines

# Kind of rows, or a name of the whole-model evaluation -> client -> metrics.
Scores: TypeAlias = dict[str, dict[str, RowMetrics]]
COSINE_TOLERANCE = 1e-6
EVALUATED_KINDS: tuple[RowKind, ...] = (
    "forgotten", "retained", "test", "validation", "planted", "stamped", "members", "non_members",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """Outcome of one model, for the report."""

    name: str  # name of the method
    # What the method guarantees, for example ``exact`` or ``heuristic``; None for the original
    # model.
    guarantee: str | None
    seconds: float  # run time of the method
    size: int  # number of bytes sent and received for the method
    scores: Scores  # metrics of the model by kind of rows and client
    # Metrics of the model before recovery (``unlearned``) and after the further training rounds of
    # a reverting test (``reverted``).
    stages: dict[str, Scores] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)  # a record of every round
    # Why the method produced no valid model and no metrics, for example because of divergence in a
    # round; None if the model is valid.
    diverged: str | None = None
    # Metrics that the server itself measures.
    benchmark_metrics: dict[str, Any] = field(default_factory=dict)


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
    cohort: Cohort,
    model: Tensor,
    kinds: Sequence[RowKind] = EVALUATED_KINDS,
    step: Callable[[], None] = lambda: None,
) -> Scores:
    """Return the metrics of a model, ``[d]``, on the ``kinds`` of rows of all clients.

    ``step`` is called after each kind.
    """
    found: Scores = {}
    for kind in kinds:
        found[kind] = dict(cohort.evaluate(cohort.clients, kind, model))
        step()
    return found


def no_scores() -> Scores:
    """Return empty scores, for a model that cannot be evaluated."""
    return {kind: {} for kind in EVALUATED_KINDS}


def client_scores(
    scores: Mapping[str, RowMetrics], names: "set[str] | None" = None
) -> list[RowMetrics]:
    """Return the metrics of all clients with rows; if ``names`` is set, only of these clients."""
    return [each for name, each in scores.items() if each.rows and (names is None or name in names)]
