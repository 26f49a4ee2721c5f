"""Simulated clients on Ray: on this machine, or on a cluster that has the same files.

Ray is an optional dependency. Only this module imports Ray, and this module is imported only if
``simulation.backend`` is "ray". Ray sends pickled Python objects between its processes, so every
machine of the cluster can run any code. The cluster must therefore be trusted.
"""

import logging
import os
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs.errors import ConfigError
from configs.federated import SimulationSettings
from parties.horizontal.local.local_task import LocalUpdate, RowMetrics
from parties.horizontal.simulation.pool import ClientJob, VectorHandle, run_job

try:
    import ray
except ImportError as error:
    raise ConfigError(
        "simulation.backend is 'ray', but ray is not installed",
        "run: pip install 'vfl[ray]', or set simulation.backend = \"processes\"",
    ) from error


class RayWorkers:
    """Ray workers with one core each. A vector is stored once in Ray's object store.

    Raises:
        ConfigError: Ray cannot be started or reached.
    """

    def __init__(self, plan: SimulationSettings) -> None:
        # Only this variable stops Ray from sending usage statistics to its developers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Seconds for which Ray waits for its first process, which a busy machine starts slowly.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
        here = plan.address is None
        cores = (plan.workers or os.cpu_count() or 1) if here else None
        try:
            ray.init(
                address="local" if here else plan.address,
                num_cpus=cores,
                include_dashboard=False if here else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"simulation.address: cannot use Ray at {plan.address or 'this machine'}: {error}",
                "start Ray with: ray start --head",
            ) from error
        self._job = ray.remote(num_cpus=1, max_retries=3)(_run)

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        """Store a vector, ``[n]``; Ray deletes a vector when no reference to the vector is left."""
        del name
        return ray.put(vector.detach().numpy())

    def delete(self, handle: VectorHandle) -> None:
        """Do nothing: Ray deletes vectors without references."""

    def submit(self, job: ClientJob) -> "Future[LocalUpdate | RowMetrics]":
        """Start a job as a Ray task."""
        found: Future[LocalUpdate | RowMetrics] = Future()
        self._job.remote(job).future().add_done_callback(lambda done: _pass_on(done, found))
        return found

    def close(self) -> None:
        """Disconnect from Ray, and stop Ray if this process started it."""
        ray.shutdown()


def _run(job: ClientJob) -> LocalUpdate | RowMetrics:
    return run_job(job, _fetched)


def _fetched(handle: Any) -> Tensor:
    return torch.from_numpy(np.array(ray.get(handle)))  # a copy: the store is read-only


def _pass_on(done: "Future[Any]", found: "Future[LocalUpdate | RowMetrics]") -> None:
    """Copy the result of a task, or its error without the wrapper of Ray."""
    error = done.exception()
    if error is None:
        found.set_result(done.result())
    else:
        found.set_exception(getattr(error, "cause", None) or error)
