"""A pool of simulated clients stores only personal parameters, and a purge removes them."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import row_source
from five_clients import CONFIG
from local_cohort import LocalCohort
from torch import Tensor

from configs.config_file import read_config
from parties.cli.modes import SCHEMAS
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.horizontal.server import FederatedServer
from parties.horizontal.setup import ROW_MODE, set_up_horizontal_party
from parties.horizontal.simulation.pool import (
    JOBS_PER_WORKER,
    MAX_SHARED_VECTORS,
    ClientJob,
    PoolCohort,
    SharedVectors,
    VectorHandle,
    run_job,
)
from parties.horizontal.simulation.simulate import simulate_federated
from parties.horizontal.simulation.simulated_data import ClientState, SimulationSource
from parties.horizontal.simulation.simulated_rows import read_row_data
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan
from protocol.keyring import issue_certificate, make_authority

LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
HEAD = 16 * 10 + 10  # weights and biases of the last layer of the network
PERSONAL = CONFIG.replace("[settings.server]", '[personal]\nkind = "fedper"\n\n[settings.server]')


class InProcessWorkers:
    """Workers that run each task in this process and store vectors by name."""

    parallel = 1

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
    def personal(self) -> dict[str, Tensor]:
        return {name: each for name, each in self.vectors.items() if name.endswith(".personal")}


class CountingWorkers(InProcessWorkers):
    """Workers that count the tasks that they started."""

    started = 0

    def submit(self, task: ClientJob) -> "Future[Any]":
        self.started += 1
        return super().submit(task)


def write_config(folder: Path) -> SimulationSource:
    (folder / "wards.toml").write_text(PERSONAL)
    return row_source(folder / "wards.toml", (), None)


def test_pool_stores_only_personal_parameters_and_has_the_same_mean(
    tmp_path: Path,
) -> None:
    source, workers = write_config(tmp_path), InProcessWorkers()
    agreement, clients = (
        read_config(source.config, HORIZONTAL).agreement,
        read_row_data(source).clients(),
    )
    members, model = (
        [Member(name) for name in agreement.spokes],
        initial_parameters(agreement, "original"),
    )
    cohort = PoolCohort(agreement.spokes, source, workers, 1.0)
    local = LocalCohort({name: clients.load(name, ClientState()) for name in agreement.spokes})
    for _ in range(3):
        mean = cohort.mean_update(members, LOCAL_TASK, {"model": model})
        assert torch.equal(
            mean.delta, local.mean_update(members, LOCAL_TASK, {"model": model}).delta
        )
        model = model + mean.delta.float()
    assert [len(each) for each in workers.personal.values()] == [HEAD] * len(members)


@pytest.mark.parametrize("parallel", [1, 2])
def test_few_updates_wait_for_the_server(tmp_path: Path, parallel: int) -> None:
    source, workers = write_config(tmp_path), CountingWorkers()
    workers.parallel = parallel
    agreement = read_config(source.config, HORIZONTAL).agreement
    cohort, model = (
        PoolCohort(agreement.spokes, source, workers, 1.0),
        initial_parameters(agreement, "original"),
    )
    members = [Member(name) for name in agreement.spokes]
    updates, waiting = cohort.updates(members, LOCAL_TASK, {"model": model}), list[int]()
    for used, _ in enumerate(updates, start=1):
        waiting.append(workers.started - used + 1)
    assert len(waiting) == len(members)
    assert max(waiting) == min(len(members), JOBS_PER_WORKER * parallel)


def test_purge_keeps_only_the_delivered_branch(tmp_path: Path) -> None:
    source, workers = write_config(tmp_path), InProcessWorkers()
    agreement = read_config(source.config, HORIZONTAL).agreement
    members, model = (
        [Member(name) for name in agreement.spokes],
        initial_parameters(agreement, "original"),
    )
    cohort = PoolCohort(agreement.spokes, source, workers, 1.0)
    cohort.mean_update(members, LOCAL_TASK, {"model": model})
    for branch, parent in (("retrain", None), ("delivered", "original")):
        cohort.switch_branch(branch, parent)
        cohort.mean_update(members[1:3], LOCAL_TASK, {"model": model})
    before = cohort.evaluate(agreement.spokes, "test", model)
    assert len(workers.personal) == len(members) + 2 + 2
    cohort.select_request("leaver")
    cohort.purge()
    assert len(workers.personal) == len(
        members
    )  # two clients have new parameters, three those of the parent branch
    assert cohort.evaluate(agreement.spokes, "test", model) == before


@pytest.mark.slow
def test_interrupted_simulation_with_personal_parameters_starts_again(tmp_path: Path) -> None:
    """Personal parameters were in memory only, so the training starts again."""
    path = tmp_path / "wards.toml"
    path.write_text(PERSONAL.replace("unlearn =", "simulation = { workers = 1 }\nunlearn ="))
    changes = ("unlearn=[]", "limits.checkpoint_seconds=0")
    plan = SimulationPlan(path, changes, tmp_path / "runs", None, schemas=SCHEMAS)
    first, notes = simulate_federated(ROW_MODE, plan, lambda _: None), list[str]()
    party = set_up_horizontal_party(
        read_config(path, HORIZONTAL, changes),
        "server",
        write_certificates(tmp_path),
        lambda _: None,
    )
    record = RunJournal(party, federated_checkpoints(party), bytes(16))
    record.once("training", dict, dict)  # as after an interruption that follows the training

    def listen(event: dict[str, Any]) -> None:
        notes.append(str(event.get("text")))

    restarted = simulate_federated(ROW_MODE, plan, listen)
    assert not [each for each in notes if each.startswith("going on")]
    assert restarted["training"] == first["training"]


def write_certificates(folder: Path) -> StartOptions:
    make_authority(folder / "certs", "wards")
    issue_certificate(folder / "certs", "wards", "server")
    return StartOptions(folder / "runs", None, folder / "certs")


def test_recently_used_vector_stays_shared() -> None:
    workers = InProcessWorkers()
    shared, vectors = (
        SharedVectors(workers),
        [torch.full((2,), float(k)) for k in range(MAX_SHARED_VECTORS + 1)],
    )
    for each in vectors[:MAX_SHARED_VECTORS]:
        shared.put({"model": each})
    places = dict(shared.put({"model": vectors[0], "second": vectors[MAX_SHARED_VECTORS]}))
    assert torch.equal(workers.vectors[str(places["model"])], vectors[0])
    assert torch.equal(workers.vectors[str(places["second"])], vectors[MAX_SHARED_VECTORS])


@pytest.mark.parametrize("method", ["ewc-sga", "adaclipping-like"])
def test_counting_conflicts_does_not_change_personal_parameters(
    tmp_path: Path, method: str
) -> None:
    methods = []
    for conflicts in ("false", "true"):
        folder = tmp_path / conflicts
        folder.mkdir()
        source = write_config(folder)
        stage = "{ rounds = 2, learning_rate = 0.05 }"
        changes = (
            f'unlearning.method="{method}"', "unlearning.compare=[]",
            f"unlearning.ewc_sga={{ ascent = {stage}, recover = {stage} }}",
            f"unlearning.adaclipping_like={{ recover = {stage} }}",
            f"evaluation.conflicts={conflicts}",
        )  # fmt: skip
        config = read_config(source.config, HORIZONTAL, changes)
        party = set_up_horizontal_party(
            config, "server", write_certificates(folder), lambda _: None
        )
        names = config.agreement.spokes
        cohort = PoolCohort(
            names, row_source(source.config, changes, None), InProcessWorkers(), 1.0
        )
        record = RunJournal(party, federated_checkpoints(party), bytes(16))
        methods.append(FederatedServer(party, cohort, record).run()["requests"][0]["methods"])
    (_, without_conflicts, _), (_, with_conflicts, _) = methods
    assert with_conflicts["steps"][0]["conflicts"] is not None
    assert with_conflicts["scores"] == without_conflicts["scores"]
