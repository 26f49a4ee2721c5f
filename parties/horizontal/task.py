"""Interfaces of a run's task, which determines what the server and the clients train.

There are two tasks: a network on rows, and a language model on texts. Rounds, requests and stored
state are the same for both tasks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.evaluation.outcome import ModelOutcome, Scores
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind
from parties.horizontal.methods.method import AnyClientMethod
from unlearning.audit.metric import Metric


class ServerTask(Protocol):
    """The server's part of a task."""

    @property
    def has_personal(self) -> bool:
        """Whether clients have personal parameters."""

    @property
    def common_start(self) -> bool:
        """Whether every training starts from one common model instead of new random weights."""

    @property
    def history_every(self) -> int:
        """Interval, in rounds, at which a training round is stored; 0: no round is stored."""

    @property
    def revert_rounds(self) -> int:
        """Number of rounds of the reverting test, run after unlearning; 0: no reverting test."""

    @property
    def measures_conflicts(self) -> bool:
        """Whether remaining clients report conflicts of their gradients with an unlearning step."""

    @property
    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """The clients of each cluster; empty if all clients train together."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Libraries that only this task needs; the record of a run names their versions."""

    def wrap_cohort(self, cohort: Cohort) -> Cohort:
        """Return ``cohort``, or a wrapper of ``cohort`` that aggregates updates for this task."""

    def initial_model(self, stream: str) -> Tensor:
        """Return the initial model, ``[d]``, which depends only on ``stream`` and the agreement."""

    def training_plan(self, stream: str) -> RoundPlan:
        """Return the plan of the training rounds, with the random stream ``stream``."""

    def methods(self, rounds: int) -> Sequence[AnyClientMethod]:
        """Return the methods of a request, the chosen method first and the Retrain methods last.

        ``rounds`` is the number of training rounds so far; each Retrain method runs equally many
        rounds.
        """

    def evaluate(self, cohort: Cohort, model: Tensor, leaving: Sequence[Member]) -> Scores:
        """Return the metrics of a model, ``[d]``, on all kinds of rows of all clients."""

    def benchmark_metrics(self, name: str, model: Tensor) -> dict[str, Any]:
        """Return the metrics that the server itself measures for a model, ``[d]``.

        The metrics are empty if the server has no data.
        """

    def metrics(
        self, outcomes: Sequence[ModelOutcome], leaving: Sequence[str]
    ) -> Mapping[str, Sequence[Metric]]:
        """Return the metrics of all models of a request, by model name."""

    def run_facts(self) -> dict[str, Any]:
        """Return the task's entries of a run's record."""

    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return a model, ``[d]``, as tensors by name, of any shape, for the model's file."""


class ClientTask(Protocol):
    """A client's part of a task.

    Attributes:
        name: name of the client.
        branch: name of the current branch.
        personal: a vector with the personal parameters of the current branch, ``[d]``; None before
            the first local task.
        branches: the personal parameters of each branch.
    """

    name: str
    branch: str
    personal: Tensor | None
    branches: dict[str, Tensor | None]

    @property
    def size(self) -> int:
        """d, the number of elements of a model's vector."""

    @property
    def has_rows(self) -> bool:
        """Whether any training rows are left."""

    def run_task(self, kind: RowKind, task: LocalTask, slots: Slots) -> LocalUpdate:
        """Carry out a local task on rows of one kind; ``slots`` are vectors by name, ``[d]``.

        Raises:
            LocalTaskError: the client has no rows of this kind, or cannot carry out the task.
        """

    def evaluate(
        self, kind: RowKind, model: Tensor, parameters: ParameterSource = "personal"
    ) -> RowMetrics:
        """Return the metrics of a model, ``[d]``, on the client's rows of one kind."""

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch to the personal parameters of the branch ``branch``.

        A new branch starts with the personal parameters of the branch ``parent``, or without
        personal parameters if ``parent`` is None.
        """

    def select_request(self, request: str) -> bool:
        """Mark the rows that the request ``request`` names as rows to forget.

        Returns:
            True if the agreement has a request with this name.
        """

    def clear_request(self) -> None:
        """Unmark all rows to forget."""

    def purge(self) -> int:
        """Delete the rows to forget permanently, and return the number of deleted rows."""

    def pack_personal(self, vector: Tensor) -> Tensor:
        """Return only the personal parameters, ``[personal]``, of a parameter vector, ``[d]``."""

    def unpack_personal(self, packed: Tensor) -> Tensor:
        """Return a vector, ``[d]``, with the personal parameters ``packed``, ``[personal]``."""

    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return the client's personalised model, ``[d]``, as tensors by name, of any shape."""
