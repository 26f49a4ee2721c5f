"""A server that is killed in the middle of an unlearning method repeats at most one step of it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clients import row_source
from five_clients import CONFIG, prepare
from test_request_metrics import InProcessWorkers

from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.run_journal import (
    RunJournal,
    federated_checkpoints,
    prepare_federated_run,
)
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import PoolCohort
from parties.session.setup import Begin

ROUNDS = "{ rounds = 2, learning_rate = 0.02 }"
METHODS = f"""[unlearning]
method = "fedosd"
compare = ["fine-tune", "fedforget", "federaser", "fedrecovery", "mode", "ewc-sga", "fu-pga", "sfu",
    "adaclipping-like", "fedmm"]
fine_tune = {ROUNDS}
fedosd = {{ unlearn = {ROUNDS}, recover = {ROUNDS} }}
fedforget = {{ distil = {ROUNDS}, teacher_b = {ROUNDS} }}
fedrecovery = {{ recover = {ROUNDS}, epsilon = 1.0 }}
mode = {{ degrade = {ROUNDS}, guide = {ROUNDS}, recover = {ROUNDS} }}
ewc_sga = {{ ascent = {ROUNDS}, recover = {ROUNDS} }}
fu_pga = {{ ascent = {ROUNDS}, recover = {ROUNDS} }}
sfu = {{ ascent = {ROUNDS}, recover = {ROUNDS} }}
adaclipping_like = {{ recover = {ROUNDS} }}
fedmm = {{ impair = {ROUNDS}, repair = {ROUNDS}, noise_rows = 4, noise_steps = 2 }}

[settings.server]
"""
CLUSTERS = """[unlearning]
method = "knot"
compare = []

[settings.server]
"""
MOST_CALLS = 3  # of one step: MoDe trains the degradation model, and both kinds of clients


class Killed(Exception):
    """Simulates a kill of the server."""


class KilledCohort(PoolCohort):
    """Clients whose server is killed after ``remaining`` calls."""

    remaining = 10**6
    calls = 0

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        if self.remaining == 0:
            raise Killed
        self.remaining, self.calls = self.remaining - 1, self.calls + 1
        return super().updates(members, task, slots)


class RestartedRun:
    """Starts of one run, in one folder."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir()
        config, options = prepare(folder, text)
        party = set_up_horizontal_party(config, "server", options, lambda _: None)
        self.party = replace(party, entropy=lambda size: bytes([5] * size))
        self.source, self.spokes = (
            row_source(folder / "wards.toml", (), None),
            config.agreement.spokes,
        )
        self.starts = self.calls = 0

    def start(self, calls: int = 10**6) -> dict[str, Any]:
        """Start the server, which is killed after ``calls`` calls; return the metrics."""
        cohort = KilledCohort(self.spokes, self.source, InProcessWorkers(), 1.0)
        cohort.remaining, self.starts = calls, self.starts + 1
        number = bytes([self.starts]) * 16
        journal = RunJournal(self.party, federated_checkpoints(self.party), number)
        try:
            return FederatedServer(self.party, cohort, journal).run()
        finally:
            self.calls += cohort.calls


def results(metrics: dict[str, Any]) -> list[Any]:
    """Return the results of all methods, without times and traffic."""
    return [
        {name: each for name, each in method.items() if name != "cost"}
        for request in metrics["requests"]
        for method in request["methods"]
    ]


def config_text(methods: str, training: str) -> str:
    text = CONFIG.replace("rounds = 3", training).replace(
        "idle_seconds = 10.0", "idle_seconds = 10.0, checkpoint_seconds = 0.0"
    )
    return text.replace("clients = 5", "clients = 3").replace("[settings.server]\n", methods)


HISTORY = "[history]\nevery = 1\n\n"


@pytest.mark.parametrize(
    ("methods", "training", "first", "calls"),
    [
        (HISTORY + METHODS, "rounds = 2", 5, 5),
        (CLUSTERS, "rounds = 4, clusters = 2", 1, 1),
    ],
    ids=["methods", "clusters"],
)
def test_a_killed_server_repeats_at_most_one_step(
    tmp_path: Path, methods: str, training: str, first: int, calls: int
) -> None:
    whole = RestartedRun(tmp_path / "whole", config_text(methods, training))
    expected = results(whole.start())
    broken, metrics = RestartedRun(tmp_path / "broken", config_text(methods, training)), None
    while metrics is None:
        try:
            metrics = broken.start(calls if broken.starts else first)
        except Killed:
            assert broken.starts < 100, "the run makes no progress"
    assert results(metrics) == expected
    kills = broken.starts - 1
    assert kills > 2
    assert broken.calls <= whole.calls + kills * min(calls - 1, MOST_CALLS)


@pytest.mark.parametrize(
    ("methods", "training", "calls", "folder"),
    [
        (HISTORY + "[settings.server]\n", "rounds = 2", 1, "history"),
        (CLUSTERS, "rounds = 2, clusters = 2", 3, "clusters"),
    ],
    ids=["history", "clusters"],
)
def test_a_run_without_requests_leaves_no_stored_rounds(
    tmp_path: Path, methods: str, training: str, calls: int, folder: str
) -> None:
    """A fresh start also deletes those of an interrupted run."""
    text = re.sub(r"unlearn = \[.*?\]\n", "", config_text(methods, training))
    run = RestartedRun(tmp_path / "run", text)
    stored = run.party.state / folder
    with pytest.raises(Killed):
        run.start(calls)
    assert [*stored.glob("*.safetensors")]
    prepare_federated_run(run.party, Begin.FRESH)
    assert not stored.exists()
    run.start()
    assert not stored.exists()
