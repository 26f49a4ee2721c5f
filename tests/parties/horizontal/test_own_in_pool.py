"""What is simulated clients' own: no more than that is kept in memory, and a purge removes it."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from clients import row_source
from five_clients import CONFIG
from local_cohort import LocalCohort
from torch import Tensor

from configs.federated_file import read_horizontal
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import ROW_MODE, set_up_horizontal_party
from parties.horizontal.simulation.pool import (
    MAX_SHARED_VECTORS,
    ClientJob,
    PoolCohort,
    SharedVectors,
    VectorHandle,
    run_job,
)
from parties.horizontal.simulation.simulate import simulate_federated
from parties.horizontal.simulation.simulated_data import ClientState, SimulationSource
from parties.horizontal.simulation.simulated_rows import read_row_clients
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan
from protocol.keyring import issue_certificate, make_authority

LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
HEAD = 16 * 10 + 10  # of the network of the config: weights and biases
PERSONAL = CONFIG.replace("[settings.server]", '[personal]\nkind = "fedper"\n\n[settings.server]')


class Here:
    """Tasks in this process; vectors by name, as files are."""

    def __init__(self) -> None:
        self.vectors: dict[str, Tensor] = {}

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        self.vectors[name] = vector
        return name

    def delete(self, posted: VectorHandle) -> None:
        del self.vectors[str(posted)]

    def submit(self, task: ClientJob) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(run_job(task, lambda posted: self.vectors[str(posted)]))
        return future

    def close(self) -> None:
        pass

    @property
    def own(self) -> dict[str, Tensor]:
        return {name: each for name, each in self.vectors.items() if name.endswith(".personal")}


def written(folder: Path) -> SimulationSource:
    (folder / "wards.toml").write_text(PERSONAL)
    return row_source(folder / "wards.toml", (), None)


def test_only_what_is_own_is_kept_and_means_are_those_of_clients_that_keep_all(
    tmp_path: Path,
) -> None:
    source, here = written(tmp_path), Here()
    agreement, stock = read_horizontal(source.config).agreement, read_row_clients(source)
    members, model = (
        [Member(name) for name in agreement.spokes],
        initial_parameters(agreement, "original"),
    )
    cohort = PoolCohort(agreement.spokes, source, here, 1.0)
    alone = LocalCohort({name: stock.load(name, ClientState()) for name in agreement.spokes})
    for _ in range(3):
        found = cohort.mean_update(members, LOCAL_TASK, {"model": model})
        assert torch.equal(
            found.delta, alone.mean_update(members, LOCAL_TASK, {"model": model}).delta
        )
        model = model + found.delta.float()
    assert [len(each) for each in here.own.values()] == [HEAD] * len(members)


def test_a_purge_keeps_the_delivered_line_alone(tmp_path: Path) -> None:
    source, here = written(tmp_path), Here()
    agreement = read_horizontal(source.config).agreement
    members, model = (
        [Member(name) for name in agreement.spokes],
        initial_parameters(agreement, "original"),
    )
    cohort = PoolCohort(agreement.spokes, source, here, 1.0)
    cohort.mean_update(members, LOCAL_TASK, {"model": model})
    for line, parent in (("retrain", None), ("delivered", "original")):
        cohort.switch_branch(line, parent)
        cohort.mean_update(members[1:3], LOCAL_TASK, {"model": model})
    before = cohort.evaluate(agreement.spokes, "test", model)
    assert len(here.own) == len(members) + 2 + 2
    cohort.select_request("leaver")
    cohort.purge()
    assert len(here.own) == len(members)  # of two their new own, of three their parent's
    assert cohort.evaluate(agreement.spokes, "test", model) == before


def test_a_simulation_with_own_parameters_that_was_cut_off_begins_anew(tmp_path: Path) -> None:
    """They were in memory alone: a model that goes on would meet fresh ones."""
    path = tmp_path / "wards.toml"
    path.write_text(PERSONAL.replace("unlearn =", "simulation = { workers = 1 }\nunlearn ="))
    changes = ("unlearn=[]", "limits.checkpoint_seconds=0")
    plan = SimulationPlan(path, changes, tmp_path / "runs", None)
    first, notes = simulate_federated(ROW_MODE, plan, lambda _: None), list[str]()
    party = set_up_horizontal_party(
        read_horizontal(path, changes), "server", certified(tmp_path), lambda _: None
    )
    record = RunJournal(party, federated_checkpoints(party), bytes(16))
    record.once("training", dict, dict)  # as a run that was cut off after it leaves it

    def listen(event: dict[str, Any]) -> None:
        notes.append(str(event.get("text")))

    again = simulate_federated(ROW_MODE, plan, listen)
    assert not [each for each in notes if each.startswith("going on")]
    assert again["training"] == first["training"]


def certified(folder: Path) -> StartOptions:
    make_authority(folder / "certs", "wards")
    issue_certificate(folder / "certs", "wards", "server")
    return StartOptions(folder / "runs", None, folder / "certs")


def test_a_vector_that_is_read_again_stays_on_the_board() -> None:
    here = Here()
    board, vectors = (
        SharedVectors(here),
        [torch.full((2,), float(k)) for k in range(MAX_SHARED_VECTORS + 1)],
    )
    for each in vectors[:MAX_SHARED_VECTORS]:
        board.put({"model": each})
    places = dict(board.put({"model": vectors[0], "second": vectors[MAX_SHARED_VECTORS]}))
    assert torch.equal(here.vectors[str(places["model"])], vectors[0])
    assert torch.equal(here.vectors[str(places["second"])], vectors[MAX_SHARED_VECTORS])


def test_asking_whom_a_step_hurts_changes_nothing_that_is_a_client_s_own(tmp_path: Path) -> None:
    told = []
    for asks in ("false", "true"):
        folder = tmp_path / asks
        folder.mkdir()
        source = written(folder)
        stage = "{ rounds = 2, learning_rate = 0.05 }"
        changes = (
            'unlearning.method="ewc-sga"', "unlearning.compare=[]",
            f"unlearning.ewc_sga={{ ascent = {stage}, recover = {stage} }}",
            f"evaluation.conflicts={asks}",
        )  # fmt: skip
        config = read_horizontal(source.config, changes)
        party = set_up_horizontal_party(config, "server", certified(folder), lambda _: None)
        names = config.agreement.spokes
        cohort = PoolCohort(names, row_source(source.config, changes, None), Here(), 1.0)
        record = RunJournal(party, federated_checkpoints(party), bytes(16))
        told.append(FederatedServer(party, cohort, record).run()["requests"][0]["methods"])
    (_, without, _), (_, asked, _) = told
    assert asked["rounds"][0]["conflicts"] is not None
    assert asked["scores"] == without["scores"]
