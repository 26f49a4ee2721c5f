"""The model before recovery is measured with what was the clients' own then."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from five_clients import CONFIG, cohort, prepared, untouched
from test_figures import Here

from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import Learned, Lesson, Slots
from parties.horizontal.record import Record, checkpoints
from parties.horizontal.server import Server
from parties.horizontal.setup import take_horizontal_seat
from parties.horizontal.simulation.pool import PoolCohort
from parties.horizontal.simulation.simulated_data import Source

OWN = CONFIG.replace("limits =", 'personal = { kind = "fedper" }\nlimits =')
OWN = OWN.replace("clients = 5", "clients = 4").replace("rounds = 3", "rounds = 1")
STAGES = {  # of each method: its settings, with so many rounds of recovery
    "fedosd": "fedosd = {{ unlearn = {{ rounds = 2 }}, recover = {{ rounds = {} }} }}",
    "ewc-sga": "ewc_sga = {{ climb = {{ rounds = 2 }}, recover = {{ rounds = {} }} }}",
    "fedmm": "fedmm = {{ repair = {{ rounds = {} }}, noise_rows = 4, noise_steps = 2 }}",
}


def settings(method: str, recovery: int) -> str:
    plan = f'method = "{method}", compare = [], {STAGES[method].format(recovery)}'
    return OWN.replace("limits =", f"unlearning = {{ {plan} }}\nlimits =")


def unlearned(folder: Path, method: str, recovery: int) -> dict[str, Any]:
    folder.mkdir()
    config, place = prepared(folder, settings(method, recovery))
    party = take_horizontal_seat(config, "server", place, lambda _: None)
    pool = PoolCohort(config.agreement.spokes, Source(folder / "wards.toml", (), None), Here(), 1.0)
    return told(Server(party, pool, Record(party, checkpoints(party), bytes(16))))


def told(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.story()["requests"][0]["methods"][1]
    return found


@pytest.mark.parametrize("method", STAGES)
def test_the_stage_before_recovery_is_the_model_of_a_run_without_recovery(
    tmp_path: Path, method: str
) -> None:
    longer, shorter = (unlearned(tmp_path / str(n), method, n) for n in (2, 0))
    assert longer["stages"]["unlearned"] == shorter["scores"]
    assert longer["scores"] != shorter["scores"]


def test_over_lines_too(tmp_path: Path) -> None:
    found = []
    for recovery in (1, 0):
        folder = tmp_path / str(recovery)
        folder.mkdir()
        ready = prepared(folder, settings("fedosd", recovery))
        party = take_horizontal_seat(*ready[:1], "server", ready[1], lambda _: None)
        with cohort(ready, [], untouched) as remote:
            found.append(told(Server(party, remote, Record(party, checkpoints(party), bytes(16)))))
    longer, shorter = found
    assert longer["stages"]["unlearned"] == shorter["scores"]


class Crash(Exception):
    """The server is gone."""


class Breaks(PoolCohort):
    """Once, in the second round of recovery."""

    broken = False

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        if lesson.stream == "fedosd recover 1" and not self.broken:
            self.broken = True
            raise Crash
        return super().each(members, lesson, slots)


def test_a_server_that_died_in_recovery_finds_the_same(tmp_path: Path) -> None:
    """Clients hold the lines of the first try; nobody goes on with what came of it."""
    whole = unlearned(tmp_path / "whole", "fedosd", 2)
    folder = tmp_path / "broken"
    folder.mkdir()
    config, place = prepared(folder, settings("fedosd", 2))
    party = take_horizontal_seat(config, "server", place, lambda _: None)
    pool = Breaks(config.agreement.spokes, Source(folder / "wards.toml", (), None), Here(), 1.0)
    first = Record(party, checkpoints(party), bytes(16))
    with pytest.raises(Crash):
        Server(party, pool, first).story()
    first.save()
    again = told(Server(party, pool, Record(party, checkpoints(party), bytes([1] * 16))))
    assert (again["scores"], again["stages"]) == (whole["scores"], whole["stages"])
