"""Interface of the server's task, which determines what the server and the clients train.

There are two tasks: a network on rows, and a language model on texts. Rounds, requests and stored
state are the same for both tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.evaluation.outcome import EVALUATED_KINDS, ModelOutcome, Scores
from parties.horizontal.local.rows import RowKind
from parties.horizontal.methods.method import AnyClientMethod
from unlearning.audit.metric import Metric


class ServerTask(ABC):
    """The server's part of a task."""

    has_personal: bool = False  # whether clients have personal parameters
    # Whether every training starts from one common model instead of new random weights.
    common_start: bool = False
    # Whether remaining clients report conflicts of their gradients with an unlearning step.
    measures_conflicts: bool = False
    # Interval, in rounds, at which a training round is stored; 0: no round is stored.
    history_every: int = 0
    # Number of rounds of the reverting test, run after unlearning; 0: no reverting test.
    revert_rounds: int = 0
    # The clients of each cluster; empty if all clients train together.
    clusters: tuple[tuple[str, ...], ...] = ()
    # The kinds of rows on which the clients evaluate every model of a request.
    kinds: tuple[RowKind, ...] = EVALUATED_KINDS
    # Libraries that only this task needs; the record of a run names their versions.
    libraries: tuple[str, ...] = ()

    def wrap_cohort(self, cohort: Cohort) -> Cohort:
        """Return ``cohort``, or a wrapper of ``cohort`` that aggregates updates for this task."""
        return cohort

    @abstractmethod
    def initial_model(self, stream: str) -> Tensor:
        """Return the initial model, ``[d]``, which depends only on ``stream`` and the agreement."""

    @abstractmethod
    def training_plan(self, stream: str) -> RoundPlan:
        """Return the plan of the training rounds, with the random stream ``stream``."""

    @abstractmethod
    def methods(self, rounds: int) -> Sequence[AnyClientMethod]:
        """Return the methods of a request, the chosen method first and the Retrain methods last.

        ``rounds`` is the number of training rounds so far; each Retrain method runs equally many
        rounds.
        """

    def further_scores(self, cohort: Cohort, model: Tensor, leaving: Sequence[Member]) -> Scores:
        """Return metrics of a model, ``[d]``, besides those of ``kinds``; by default, none."""
        del cohort, model, leaving
        return {}

    def evaluate_trained(self, cohort: Cohort, model: Tensor) -> Scores:
        """Return the metrics of a trained model, ``[d]``, on test rows, for a run without requests.

        By default, nothing is measured.
        """
        del cohort, model
        return {}

    def benchmark_metrics(self, name: str, model: Tensor) -> dict[str, Any]:
        """Return the metrics that the server itself measures for a model, ``[d]``.

        By default, the metrics are empty, because the server has no data.
        """
        del name, model
        return {}

    @abstractmethod
    def metrics(
        self, outcomes: Sequence[ModelOutcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Metric]]:
        """Return the metrics of all models of a request, by model name."""

    @abstractmethod
    def run_facts(self) -> dict[str, Any]:
        """Return the task's entries of a run's record."""

    @abstractmethod
    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return a model, ``[d]``, as tensors by name, of any shape, for the model's file."""
