"""A horizontal run on this machine: simulated clients in a pool, beside the server's program."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from configs.federated import Simulation
from configs.federated_file import read_federated
from parties.common.progress import Listener
from parties.horizontal.engine.aggregation import SIMULATED
from parties.horizontal.record import Record, checkpoints, prepare
from parties.horizontal.run_party import publish
from parties.horizontal.server import Server
from parties.horizontal.setup import take_federated_seat
from parties.horizontal.simulation.pool import PoolCohort, Processes, Workers
from parties.horizontal.simulation.simulated_data import Source
from parties.horizontal.tasks import subject
from parties.session.setup import Place
from parties.session.simulation import Plan, pinned
from protocol.keyring import issue, make_authority


def simulate(plan: Plan, listener: Listener) -> dict[str, Any]:
    """Run the server and all simulated clients; the metrics of the run."""
    config = read_federated(plan.config, plan.changes)
    agreement = config.agreement
    with TemporaryDirectory(prefix="vfl-certs-") as folder:
        keys = Path(folder) / "certs"
        make_authority(keys, agreement.federation)
        issue(keys, agreement.federation, agreement.hub)
        pin = pinned(keys, agreement.hub)
        place = Place(plan.out, plan.data, keys, plan.begin)
        known = read_federated(plan.config, (*plan.changes, pin))
        party = take_federated_seat(known, agreement.hub, place, listener)
    taught = subject(party)
    if taught.own:  # in memory alone, and so gone
        checkpoints(party).clear()
    prepare(party, plan.begin)
    source = Source(plan.config, plan.changes, plan.data)
    cohort = PoolCohort(
        agreement.spokes, source, workers(agreement.simulation), agreement.training.quorum
    )
    try:
        record = Record(party, checkpoints(party), party.entropy(16))
        server = Server(party, cohort, record, taught)
        metrics = server.story()
    finally:
        cohort.close()
    metrics["run"]["aggregation"]["promise"] = SIMULATED
    publish(plan.out, party, metrics)
    server.delivered()
    server.record.clear()
    return metrics


def workers(plan: Simulation) -> Workers:
    """Whoever computes the clients.

    Raises:
        ConfigError: Ray was chosen and is not here.
    """
    if plan.backend == "ray":
        from parties.horizontal.simulation.ray_workers import RayWorkers

        return RayWorkers(plan)
    return Processes(plan.workers or os.cpu_count() or 1)
