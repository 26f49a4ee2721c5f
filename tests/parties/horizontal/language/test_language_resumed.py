"""A server of language models that is killed goes on, in a training and in a way to unlearn."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from parties.cli.options import Begin
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import Learned, Lesson, Slots
from parties.horizontal.simulation import simulate as simulation
from parties.horizontal.simulation.pool import PoolCohort, Posted, Task, carry_out
from parties.session.simulation import Plan
from tests.parties.horizontal.language.ferries import FULL, simulated

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
ROUNDS = 3 + 3 + 2 + 2  # of the training, of both ways, and of a Retrain after two rounds


class Killed(Exception):
    """The server is gone."""


class Here:
    """Tasks are carried out where they are submitted."""

    def post(self, name: str, vector: Tensor) -> Posted:
        del name
        return vector

    def drop(self, posted: Posted) -> None:
        """Nothing to free."""

    def submit(self, task: Task) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(carry_out(task, lambda posted: posted))  # type: ignore[arg-type,return-value]
        return future

    def close(self) -> None:
        """Nothing to end."""


class Dying(PoolCohort):
    """Clients whose server is killed before it hears of so many rounds."""

    left = 10**6
    taught = 0

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        if Dying.left == 0:
            raise Killed
        Dying.left -= 1
        Dying.taught += 1
        return super().each(members, lesson, slots)


@pytest.fixture
def start(world: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts of a server in a folder: what it told, in how many rounds, and what it delivered."""
    monkeypatch.setattr(simulation, "PoolCohort", Dying)
    monkeypatch.setattr(simulation, "workers", lambda _: Here())
    path = simulated(world, REQUEST, FULL, rounds=3)

    def begin(folder: Path, rounds: int = 10**6) -> tuple[dict[str, Any], int, dict[str, Tensor]]:
        Dying.left, Dying.taught = rounds, 0
        plan = Plan(path, (), folder, None, begin=Begin.AUTO)
        metrics = simulation.simulate(plan, lambda _: None)
        return metrics, Dying.taught, load_file(folder / "ferries/server/model.safetensors")

    return begin


def told(metrics: dict[str, Any]) -> list[Any]:
    """All that is known of a request but the time that it took."""
    timed = ("seconds", "size")
    (request,) = metrics["requests"]
    return [
        {name: each for name, each in way.items() if name not in timed}
        for way in request["methods"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "more"),
    [
        ((1,), 0),  # in the training
        ((4,), 2),  # in the way that is chosen, which begins again
        ((1, 5, 3), 2),  # in the training, in the second way, and in the Retrain
    ],
)
def test_it_ends_as_if_nothing_had_happened(
    start: Any, tmp_path: Path, kills: tuple[int, ...], more: int
) -> None:
    wanted, taught, model = start(tmp_path / "whole")
    assert taught == ROUNDS
    total = 0
    for rounds in kills:
        with pytest.raises(Killed):
            start(tmp_path / "cut", rounds)
        total += rounds
    metrics, rest, found = start(tmp_path / "cut")
    assert total + rest == ROUNDS + more
    assert told(metrics) == told(wanted)
    assert metrics["training"] == wanted["training"]
    assert found.keys() == model.keys()
    assert all(torch.equal(found[name], model[name]) for name in model)
