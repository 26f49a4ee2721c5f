"""The model before recovery is evaluated with the personal parameters of that stage."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import row_source
from five_clients import CONFIG, connected_cohort, prepare, unchanged_line
from test_request_metrics import InProcessWorkers

from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import PoolCohort

OWN = CONFIG.replace("limits =", 'personal = { kind = "fedper" }\nlimits =')
OWN = OWN.replace("clients = 5", "clients = 4").replace("rounds = 3", "rounds = 1")
STAGES = {  # settings of each method, with a number of recovery rounds
    "fedosd": "fedosd = {{ unlearn = {{ rounds = 2 }}, recover = {{ rounds = {} }} }}",
    "ewc-sga": "ewc_sga = {{ ascent = {{ rounds = 2 }}, recover = {{ rounds = {} }} }}",
    "fedmm": "fedmm = {{ repair = {{ rounds = {} }}, noise_rows = 4, noise_steps = 2 }}",
}


def settings(method: str, recovery: int) -> str:
    plan = f'method = "{method}", compare = [], {STAGES[method].format(recovery)}'
    return OWN.replace("limits =", f"unlearning = {{ {plan} }}\nlimits =")


def run_unlearning(folder: Path, method: str, recovery: int) -> dict[str, Any]:
    folder.mkdir()
    config, place = prepare(folder, settings(method, recovery))
    party = set_up_horizontal_party(config, "server", place, lambda _: None)
    pool = PoolCohort(
        config.agreement.spokes,
        row_source(folder / "wards.toml", (), None),
        InProcessWorkers(),
        1.0,
    )
    return method_record(
        FederatedServer(party, pool, RunJournal(party, federated_checkpoints(party), bytes(16)))
    )


def method_record(server: FederatedServer) -> dict[str, Any]:
    record: dict[str, Any] = server.run()["requests"][0]["methods"][1]
    return record


@pytest.mark.parametrize("method", STAGES)
def test_the_stage_before_recovery_is_the_model_of_a_run_without_recovery(
    tmp_path: Path, method: str
) -> None:
    longer, shorter = (run_unlearning(tmp_path / str(n), method, n) for n in (2, 0))
    assert longer["stages"]["unlearned"] == shorter["scores"]
    assert longer["scores"] != shorter["scores"]


def test_stage_before_recovery_over_memory_lines(tmp_path: Path) -> None:
    records = []
    for recovery in (1, 0):
        folder = tmp_path / str(recovery)
        folder.mkdir()
        ready = prepare(folder, settings("fedosd", recovery))
        party = set_up_horizontal_party(*ready[:1], "server", ready[1], lambda _: None)
        with connected_cohort(ready, [], unchanged_line) as remote:
            records.append(
                method_record(
                    FederatedServer(
                        party, remote, RunJournal(party, federated_checkpoints(party), bytes(16))
                    )
                )
            )
    longer, shorter = records
    assert longer["stages"]["unlearned"] == shorter["scores"]


class Crash(Exception):
    """Simulates a crash of the server."""


class CrashingCohort(PoolCohort):
    """Raises ``Crash`` once, in the second round of recovery."""

    broken = False

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        if task.stream == "fedosd recover 1" and not self.broken:
            self.broken = True
            raise Crash
        return super().updates(members, task, slots)


def test_server_killed_in_recovery_gives_the_same_scores(tmp_path: Path) -> None:
    """Clients still have the branches of the first start; the second start does not use them."""
    whole = run_unlearning(tmp_path / "whole", "fedosd", 2)
    folder = tmp_path / "broken"
    folder.mkdir()
    config, place = prepare(folder, settings("fedosd", 2))
    party = set_up_horizontal_party(config, "server", place, lambda _: None)
    pool = CrashingCohort(
        config.agreement.spokes,
        row_source(folder / "wards.toml", (), None),
        InProcessWorkers(),
        1.0,
    )
    first = RunJournal(party, federated_checkpoints(party), bytes(16))
    with pytest.raises(Crash):
        FederatedServer(party, pool, first).run()
    first.save()
    resumed = method_record(
        FederatedServer(
            party, pool, RunJournal(party, federated_checkpoints(party), bytes([1] * 16))
        )
    )
    assert (resumed["scores"], resumed["stages"]) == (whole["scores"], whole["stages"])
