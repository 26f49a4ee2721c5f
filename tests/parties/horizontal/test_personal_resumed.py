"""A server of clients with personal parameters, killed at any task, repeats at most one round."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from five_clients import CONFIG, prepare
from local_cohort import LocalCohort
from test_methods_resumed import Killed, results

from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party

ROUNDS = "{ rounds = 2, learning_rate = 0.02 }"
TEXT = (
    CONFIG.replace("clients = 5", "clients = 3")
    .replace("rounds = 3", "rounds = 2")
    .replace(
        "[settings.server]",
        f"""
personal = {{ kind = "fedper" }}

[evaluation]
conflicts = true
revert = 2

[unlearning]
method = "fedosd"
compare = ["fine-tune"]
fine_tune = {ROUNDS}
fedosd = {{ unlearn = {ROUNDS}, recover = {ROUNDS} }}

[settings.server]""",
        1,
    )
)


class StoredCohort(LocalCohort):
    """Clients whose state is on disk; the server is killed after ``remaining`` tasks."""

    remaining = 10**6
    tasks = 0

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        for member, found in super().updates(members, task, slots):
            self.tasks += 1
            if self.tasks > self.remaining:
                raise Killed  # after the client has stored its parameters, before the reply
            yield member, found

    def select_request(self, request: str) -> None:
        for each in self._client_tasks.values():
            each.select_request(request)


class RestartedRun:
    """Starts of the server and of all clients, in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._config, self._options = prepare(folder, TEXT)
        self._server = replace(self._set_up("server"), entropy=lambda size: bytes([5] * size))
        self.starts = self.tasks = 0

    def _set_up(self, name: str) -> Any:
        return set_up_horizontal_party(self._config, name, self._options, lambda _: None)

    def start(self, tasks: int = 10**6) -> list[Any]:
        """Start the server, which is killed after ``tasks`` tasks; return the results."""
        names = self._config.agreement.spokes
        cohort = StoredCohort({name: ClientStore(self._set_up(name)) for name in names})  # type: ignore[arg-type]
        cohort.remaining, self.starts = tasks, self.starts + 1
        checkpoints, number = federated_checkpoints(self._server), bytes([self.starts]) * 16
        journal = RunJournal(self._server, checkpoints, number, each_step=True)
        try:
            return results(FederatedServer(self._server, cohort, journal).run())
        finally:
            self.tasks += cohort.tasks


@pytest.mark.parametrize("tasks", [7, 8, 11])
def test_a_killed_server_of_clients_with_personal_parameters_repeats_one_round(
    tmp_path: Path, tasks: int
) -> None:
    whole, broken = RestartedRun(tmp_path / "whole"), RestartedRun(tmp_path / "broken")
    expected, found = whole.start(), None
    while found is None:
        assert broken.starts < 50, "the run makes no progress"
        try:
            found = broken.start(tasks)
        except Killed:
            continue
    assert found == expected
    kills = broken.starts - 1
    assert kills > 2
    assert broken.tasks <= whole.tasks + kills * 6  # a step of FedOSD, and the check of conflicts
