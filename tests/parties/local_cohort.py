"""A cohort whose clients are in this process and reply one after the other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from torch import Tensor

from parties.horizontal.engine.cohort import MeanUpdate, Member, WeightedMean
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.rows import RowKind

Present = Callable[[Member, LocalTask], bool]


class LocalCohort:
    """A cohort of clients in this process; ``present`` decides which members reply."""

    def __init__(
        self,
        client_tasks: Mapping[str, NetworkClientTask],
        quorum: float = 1.0,
        present: Present = lambda _member, _task: True,
    ) -> None:
        self._client_tasks, self.quorum, self._present = client_tasks, quorum, present

    @property
    def clients(self) -> Sequence[str]:
        """Names of all clients."""
        return list(self._client_tasks)

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield the update of each member that is present; the ``slots`` are ``[d]`` each."""
        for member in members:
            if self._present(member, task):
                client_task = self._client_tasks[member.client]
                yield member, client_task.run_task(member.kind, task, slots)

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the mean update of the members; the ``slots`` are ``[d]`` each."""
        total = WeightedMean()
        for member, update in self.updates(members, task, slots):
            total.add(member, update)
        return total.result(members, self.quorum)

    def evaluate(
        self,
        names: Sequence[str],
        kind: RowKind,
        model: Tensor,
        parameters: ParameterSource = "personal",
    ) -> Mapping[str, RowMetrics]:
        """Return the metrics of a model, ``[d]``, on rows of each client."""
        return {name: self._client_tasks[name].evaluate(kind, model, parameters) for name in names}

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch all clients to the personal parameters of a branch."""
        for each in self._client_tasks.values():
            each.switch_branch(branch, parent)

    def select_request(self, request: str) -> None:
        """Do nothing: the test selects the forgotten rows itself."""

    def purge(self) -> dict[str, list[str]]:
        """Do nothing and return that no client deleted anything."""
        return {}
