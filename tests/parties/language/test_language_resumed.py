"""A killed server of a language model resumes, in the training and in an unlearning method."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from parties.cli.modes import SCHEMAS
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.horizontal.simulation import simulate as simulation
from parties.horizontal.simulation.pool import ClientJob, PoolCohort, VectorHandle, run_job
from parties.language.setup import LANGUAGE_MODE
from parties.session.setup import Begin
from parties.session.simulation import SimulationPlan
from tests.parties.language.ferries import FULL, simulation_config

REQUEST = """
[[unlearn]]
name = "gone"
rows = "flagged"
round = 2

[unlearning]
method = "primal-dual"
compare = ["npo"]
npo = { unlearn = { rounds = 2 } }
primal_dual = { unlearn = { rounds = 3 } }

[limits]
checkpoint_seconds = 0.0
"""
ROUNDS = 3 + 3 + 2 + 2  # training, both methods, and a Retrain of two rounds


class Killed(Exception):
    """The server was killed."""


class InlinePool:
    """Worker pool that runs each task in the calling thread."""

    parallel = 1

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        del name
        return vector

    def delete(self, posted: VectorHandle) -> None:
        """Free nothing."""

    def submit(self, task: ClientJob) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(run_job(task, lambda posted: posted))  # type: ignore[arg-type,return-value]
        return future

    def close(self) -> None:
        """Stop nothing."""


class KilledCohort(PoolCohort):
    """Cohort of a server that is killed after a number of rounds."""

    remaining = 10**6
    rounds_done = 0

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        if KilledCohort.remaining == 0:
            raise Killed
        KilledCohort.remaining -= 1
        KilledCohort.rounds_done += 1
        return super().updates(members, task, slots)


@pytest.fixture
def start(world: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that runs a server in a folder: metrics, number of rounds, saved model."""
    monkeypatch.setattr(simulation, "PoolCohort", KilledCohort)
    monkeypatch.setattr(simulation, "start_workers", lambda _: InlinePool())
    path = simulation_config(world, REQUEST, FULL, rounds=3)

    def begin(folder: Path, rounds: int = 10**6) -> tuple[dict[str, Any], int, dict[str, Tensor]]:
        KilledCohort.remaining, KilledCohort.rounds_done = rounds, 0
        plan = SimulationPlan(path, (), folder, None, begin=Begin.AUTO, schemas=SCHEMAS)
        metrics = simulation.simulate_federated(LANGUAGE_MODE, plan, lambda _: None)
        return (
            metrics,
            KilledCohort.rounds_done,
            load_file(folder / "ferries/server/model.safetensors"),
        )

    return begin


def without_times(metrics: dict[str, Any]) -> list[Any]:
    """Results of a request's methods, without times and traffic."""
    (request,) = metrics["requests"]
    return [
        {name: each for name, each in method.items() if name != "cost"}
        for method in request["methods"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills",
    [
        (1,),  # in the training
        (4,),  # in the first method
        (1, 6, 2),  # in the training, in the second method, and in the Retrain
    ],
)
def test_a_resumed_run_has_the_results_of_an_uninterrupted_run(
    start: Any, tmp_path: Path, kills: tuple[int, ...]
) -> None:
    expected, rounds_done, model = start(tmp_path / "whole")
    assert rounds_done == ROUNDS
    total = 0
    for rounds in kills:
        with pytest.raises(Killed):
            start(tmp_path / "cut", rounds)
        total += rounds
    metrics, rest, resumed_model = start(tmp_path / "cut")
    assert total + rest == ROUNDS, "no round is repeated"
    assert without_times(metrics) == without_times(expected)
    assert metrics["training"] == expected["training"]
    assert resumed_model.keys() == model.keys()
    assert all(torch.equal(resumed_model[name], model[name]) for name in model)
