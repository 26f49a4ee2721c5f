"""Simulation of a federated run: the server program with simulated clients on this machine."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from configs.config_file import FederatedConfig, read_any
from configs.federated import SimulationSettings
from parties.common.progress import ProgressListener
from parties.horizontal.engine.aggregation import SIMULATED_CLAIM
from parties.horizontal.engine.run_journal import (
    RunJournal,
    federated_checkpoints,
    prepare_federated_run,
)
from parties.horizontal.party import FederatedMode
from parties.horizontal.run_party import write_results
from parties.horizontal.server import FederatedServer
from parties.horizontal.simulation.pool import ClientWorkers, PoolCohort, ProcessWorkers
from parties.horizontal.simulation.simulated_data import SimulationSource
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan, pin_override
from protocol.keyring import issue_certificate, make_authority


def simulate_federated(
    mode: FederatedMode, plan: SimulationPlan, listener: ProgressListener
) -> dict[str, Any]:
    """Run the server with all simulated clients and return the run's metrics."""
    config: FederatedConfig = read_any(plan.config, plan.schemas, plan.changes)
    agreement = config.agreement
    with TemporaryDirectory(prefix="vfl-certs-") as folder:
        keys = Path(folder) / "certs"
        make_authority(keys, agreement.federation)
        issue_certificate(keys, agreement.federation, agreement.hub)
        pin = pin_override(keys, agreement.hub)
        options = StartOptions(plan.out, plan.data, keys, plan.begin)
        known: FederatedConfig = read_any(plan.config, plan.schemas, (*plan.changes, pin))
        party = mode.set_up(known, agreement.hub, options, listener)
    task = party.server_task(party)
    if task.has_personal:  # personal parameters of simulated clients do not survive a restart
        federated_checkpoints(party).clear()
    prepare_federated_run(party, plan.begin)
    source = SimulationSource(plan.config, plan.changes, plan.data, mode.read_data)
    cohort = PoolCohort(
        agreement.spokes, source, start_workers(agreement.simulation), agreement.training.quorum
    )
    try:
        journal = RunJournal(party, federated_checkpoints(party), party.entropy(16))
        server = FederatedServer(party, cohort, journal, task)
        metrics = server.run()
    finally:
        cohort.close()
    metrics["run"]["aggregation"]["claim"] = SIMULATED_CLAIM
    write_results(plan.out, party, metrics)
    server.delivered()
    server.journal.clear()
    return metrics


def start_workers(plan: SimulationSettings) -> ClientWorkers:
    """Start the workers that run the clients.

    Raises:
        ConfigError: ``simulation.backend`` is "ray", but Ray is not installed or cannot be reached.
    """
    if plan.backend == "ray":
        from parties.horizontal.simulation.ray_workers import RayWorkers

        return RayWorkers(plan)
    return ProcessWorkers(plan.workers or os.cpu_count() or 1)
