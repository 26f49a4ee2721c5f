"""Five clients in this process, each with a part of the digits data set."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from local_cohort import LocalCohort
from local_run import WatchedRun, no_progress
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from models.full_networks import full_mlp
from models.initialisation import build_seeded
from parties.common.shared_randomness import torch_seed
from parties.data.partition import iid_partition, pathological_partition
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan, run_rounds
from parties.horizontal.engine.run import RoundRecord
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.rows import ClientData, Rows
from parties.horizontal.simulation.simulated_data import SimulationSource
from parties.horizontal.simulation.simulated_rows import read_row_data

CLIENTS = [f"client-{number}" for number in range(5)]
LOCAL_TASK = LocalTask(stream="train", batch=16, learning_rate=0.1)


@cache
def digits() -> Rows:
    data = load_digits()
    images = torch.from_numpy(data.images).float() / 16
    return Rows(images[:, None], torch.from_numpy(data.target))


def network(stream: str = "shape") -> nn.Module:
    return build_seeded(torch_seed(0, stream), lambda: full_mlp((1, 8, 8), (32,), 10))


def fresh(stream: str) -> Tensor:
    return parameters_to_vector(network(stream).parameters()).detach()


def client_tasks(share: float | None = 0.4, forgotten: int = 0) -> dict[str, NetworkClientTask]:
    """Return the clients; the first one must forget its first ``forgotten`` rows."""
    rows = digits()
    labels = rows.labels.numpy()
    parts = (
        iid_partition(labels, 5, 0)
        if share is None
        else pathological_partition(labels, 10, 5, share, 0)
    )
    tasks = {}
    for name, part in zip(CLIENTS, parts, strict=True):
        test, train = part[::5], np.setdiff1d(part, part[::5])
        forgotten_rows = np.arange(forgotten if name == CLIENTS[0] else 0)
        client_data = ClientData(rows.take(train), rows.take(test), forgotten_rows)
        tasks[name] = NetworkClientTask(name, network(), client_data, seed=0)
    return tasks


@cache
def trained(share: float | None = 0.4, rounds: int = 15) -> Tensor:
    members = [Member(name) for name in CLIENTS]
    cohort = LocalCohort(client_tasks(share))
    round_plan = RoundPlan(LOCAL_TASK, rounds)
    return run_rounds(cohort, fresh("original"), members, round_plan, lambda *_: None)


def context(
    rounds: list[RoundRecord], share: float | None = 0.4, history: object = None
) -> WatchedRun:
    """Return the run of a request to forget the first client."""
    return WatchedRun(
        cohort=LocalCohort(client_tasks(share)),
        original=trained(share),
        leaving=[Member(CLIENTS[0])],
        remaining=[Member(name) for name in CLIENTS[1:]],
        initial_model=fresh,
        progress=no_progress(),
        history=history,  # type: ignore[arg-type]
        watch=rounds.append,
    )


def accuracy(model: Tensor, clients: list[str], share: float | None = 0.4) -> float:
    """Return the accuracy on the training rows of these clients."""
    net = network()
    torch.nn.utils.vector_to_parameters(model.clone(), net.parameters())
    correct = rows = 0
    with torch.no_grad():
        for name in clients:
            train = client_tasks(share)[name].client_data.train
            correct += int((net(train.inputs).argmax(1) == train.labels).sum())
            rows += len(train)
    return correct / rows


def loss(model: Tensor, name: str) -> float:
    """Return the mean cross entropy on the training rows of one client."""
    metrics = client_tasks()[name].evaluate("learn", model)
    return metrics.loss / metrics.rows


def row_source(config: Path, changes: tuple[str, ...], data: Path | None) -> SimulationSource:
    """Return the source of simulated clients that train networks on rows."""
    return SimulationSource(config, changes, data, read_row_data)
