"""What is simulated clients' own: no more than that is kept in memory, and a purge removes it."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from five_clients import CONFIG
from torch import Tensor

from configs.federated_file import read_horizontal
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.networks import fresh
from parties.horizontal.record import Record, checkpoints
from parties.horizontal.server import Server
from parties.horizontal.setup import take_horizontal_seat
from parties.horizontal.simulation.local_cohort import LocalCohort
from parties.horizontal.simulation.pool import (
    POSTED,
    Board,
    PoolCohort,
    Posted,
    Task,
    carry_out,
)
from parties.horizontal.simulation.simulate import simulate
from parties.horizontal.simulation.simulated_data import Source, Standing
from parties.horizontal.simulation.simulated_data_registry import read_stock
from parties.session.setup import Place
from parties.session.simulation import Plan
from protocol.keyring import issue, make_authority

LESSON = Lesson(stream="one", batch=16, learning_rate=0.1)
HEAD = 16 * 10 + 10  # of the network of the config: weights and biases
PERSONAL = CONFIG.replace("[seats.server]", '[personal]\nkind = "fedper"\n\n[seats.server]')


class Here:
    """Tasks in this process; vectors by name, as files are."""

    def __init__(self) -> None:
        self.vectors: dict[str, Tensor] = {}

    def post(self, name: str, vector: Tensor) -> Posted:
        self.vectors[name] = vector
        return name

    def drop(self, posted: Posted) -> None:
        del self.vectors[str(posted)]

    def submit(self, task: Task) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(carry_out(task, lambda posted: self.vectors[str(posted)]))
        return future

    def close(self) -> None:
        pass

    @property
    def own(self) -> dict[str, Tensor]:
        return {name: each for name, each in self.vectors.items() if name.endswith(".own")}


def written(folder: Path) -> Source:
    (folder / "wards.toml").write_text(PERSONAL)
    return Source(folder / "wards.toml", (), None)


def test_only_what_is_own_is_kept_and_means_are_those_of_clients_that_keep_all(
    tmp_path: Path,
) -> None:
    source, here = written(tmp_path), Here()
    agreement, stock = read_horizontal(source.config).agreement, read_stock(source)
    members, model = [Member(name) for name in agreement.spokes], fresh(agreement, "original")
    cohort = PoolCohort(agreement.spokes, source, here, 1.0)
    alone = LocalCohort({name: stock.learner(name, Standing()) for name in agreement.spokes})
    for _ in range(3):
        found = cohort.mean(members, LESSON, {"model": model})
        assert torch.equal(found.change, alone.mean(members, LESSON, {"model": model}).change)
        model = model + found.change.float()
    assert [len(each) for each in here.own.values()] == [HEAD] * len(members)


def test_a_purge_keeps_the_delivered_line_alone(tmp_path: Path) -> None:
    source, here = written(tmp_path), Here()
    agreement = read_horizontal(source.config).agreement
    members, model = [Member(name) for name in agreement.spokes], fresh(agreement, "original")
    cohort = PoolCohort(agreement.spokes, source, here, 1.0)
    cohort.mean(members, LESSON, {"model": model})
    for line, parent in (("retrain", None), ("delivered", "original")):
        cohort.follow(line, parent)
        cohort.mean(members[1:3], LESSON, {"model": model})
    before = cohort.read(agreement.spokes, "held", model)
    assert len(here.own) == len(members) + 2 + 2
    cohort.attend("leaver")
    cohort.purge()
    assert len(here.own) == len(members)  # of two their new own, of three their parent's
    assert cohort.read(agreement.spokes, "held", model) == before


def test_a_simulation_with_own_parameters_that_was_cut_off_begins_anew(tmp_path: Path) -> None:
    """They were in memory alone: a model that goes on would meet fresh ones."""
    path = tmp_path / "wards.toml"
    path.write_text(PERSONAL.replace("unlearn =", "simulation = { workers = 1 }\nunlearn ="))
    changes = ("unlearn=[]", "limits.checkpoint_seconds=0")
    plan = Plan(path, changes, tmp_path / "runs", None)
    first, notes = simulate(plan, lambda _: None), list[str]()
    party = take_horizontal_seat(
        read_horizontal(path, changes), "server", certified(tmp_path), lambda _: None
    )
    record = Record(party, checkpoints(party), bytes(16))
    record.once("training", dict, dict)  # as a run that was cut off after it leaves it

    def listen(event: dict[str, Any]) -> None:
        notes.append(str(event.get("text")))

    again = simulate(plan, listen)
    assert not [each for each in notes if each.startswith("going on")]
    assert again["training"] == first["training"]


def certified(folder: Path) -> Place:
    make_authority(folder / "certs", "wards")
    issue(folder / "certs", "wards", "server")
    return Place(folder / "runs", None, folder / "certs")


def test_a_vector_that_is_read_again_stays_on_the_board() -> None:
    here = Here()
    board, vectors = Board(here), [torch.full((2,), float(k)) for k in range(POSTED + 1)]
    for each in vectors[:POSTED]:
        board.post({"model": each})
    places = dict(board.post({"model": vectors[0], "second": vectors[POSTED]}))
    assert torch.equal(here.vectors[str(places["model"])], vectors[0])
    assert torch.equal(here.vectors[str(places["second"])], vectors[POSTED])


def test_asking_whom_a_step_hurts_changes_nothing_that_is_a_client_s_own(tmp_path: Path) -> None:
    told = []
    for asks in ("false", "true"):
        folder = tmp_path / asks
        folder.mkdir()
        source = written(folder)
        stage = "{ rounds = 2, learning_rate = 0.05 }"
        changes = (
            'unlearning.method="ewc-sga"', "unlearning.compare=[]",
            f"unlearning.ewc_sga={{ climb = {stage}, recover = {stage} }}",
            f"evaluation.conflicts={asks}",
        )  # fmt: skip
        config = read_horizontal(source.config, changes)
        party = take_horizontal_seat(config, "server", certified(folder), lambda _: None)
        names = config.agreement.spokes
        cohort = PoolCohort(names, Source(source.config, changes, None), Here(), 1.0)
        record = Record(party, checkpoints(party), bytes(16))
        told.append(Server(party, cohort, record).story()["requests"][0]["methods"])
    (_, without, _), (_, asked, _) = told
    assert asked["turns"][0]["conflicts"] is not None
    assert asked["scores"] == without["scores"]
