"""Cohorts that wrap another cohort and change or observe the local tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, MeanUpdate, Member
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind


class CohortWrapper:
    """Passes all calls except training to the wrapped cohort."""

    def __init__(self, cohort: Cohort) -> None:
        self._cohort = cohort

    @property
    def clients(self) -> Sequence[str]:
        """Names of all clients."""
        return self._cohort.clients

    @property
    def quorum(self) -> float:
        """Smallest fraction of the members that must reply."""
        return self._cohort.quorum

    def evaluate(
        self,
        names: Sequence[str],
        kind: RowKind,
        model: Tensor,
        parameters: ParameterSource = "personal",
    ) -> Mapping[str, RowMetrics]:
        """Return the metrics of a model, ``[d]``, at each client of ``names`` that is connected."""
        return self._cohort.evaluate(names, kind, model, parameters)

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch all clients to a branch, that is, to a named set of personal parameters."""
        self._cohort.switch_branch(branch, parent)

    def select_request(self, request: str) -> None:
        """Select the request to which the row kinds ``forgotten`` and ``retained`` refer."""
        self._cohort.select_request(request)

    def purge(self) -> dict[str, list[str]]:
        """Delete the forgotten rows at every client; return what each client deleted."""
        return self._cohort.purge()


class SaltedCohort(CohortWrapper):
    """A cohort that appends ``salt`` to the name of the random stream of each local task.

    Each request has a different salt, so that no two requests train the same model on the same
    batches. If two Retrain runs use the same batches and only one of these runs includes a client,
    the server can subtract their sums and obtain exactly the update of this client.
    """

    def __init__(self, cohort: Cohort, salt: str) -> None:
        super().__init__(cohort)
        self._salt = salt

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield each member's update; ``slots`` maps names to sent vectors, ``[d]`` each."""
        return self._cohort.updates(members, self._salted(task), slots)

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the members' mean update; ``slots`` maps names to sent vectors, ``[d]`` each."""
        return self._cohort.mean_update(members, self._salted(task), slots)

    def _salted(self, task: LocalTask) -> LocalTask:
        return replace(task, stream=task.stream + self._salt)


# Second word of a local task's random stream, in the rounds of a recovery.
RECOVERY_STAGES = ("recover", "repair")


class RecoveryBranchCohort(CohortWrapper):
    """A cohort that switches to a new branch before the first local task of a recovery.

    Clients train their personal parameters in every round. The old branch keeps the personal
    parameters from before recovery, so the model before recovery can still be evaluated with them.

    Args:
        start_branch: function that switches to a new branch and returns the name of the branch.

    Attributes:
        branch: name of the new branch; None before recovery.
    """

    def __init__(self, cohort: Cohort, start_branch: Callable[[], str]) -> None:
        super().__init__(cohort)
        self._start_branch = start_branch
        self.branch: str | None = None

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield the update of each member; ``slots`` maps names to sent vectors, ``[d]`` each."""
        self._observe(task)
        return self._cohort.updates(members, task, slots)

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the members' mean update; ``slots`` maps names to sent vectors, ``[d]`` each."""
        self._observe(task)
        return self._cohort.mean_update(members, task, slots)

    def _observe(self, task: LocalTask) -> None:
        if self.branch is None and task.stream.split()[1:2] in ([each] for each in RECOVERY_STAGES):
            self.branch = self._start_branch()
