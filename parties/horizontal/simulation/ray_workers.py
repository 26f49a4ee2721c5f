"""Simulated clients on Ray: on this machine, or on a cluster that has the same files.

Ray is an optional extra and imported here alone, only when it was chosen. It moves Python objects
between its processes: whoever is in the cluster runs what it likes there, so it must be ours.
"""

import logging
import os
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs.errors import ConfigError
from configs.federated import Simulation
from parties.horizontal.engine.cohort import Score
from parties.horizontal.local.local_task import Learned
from parties.horizontal.simulation.pool import Posted, Task, carry_out

try:
    import ray
except ImportError as error:
    raise ConfigError(
        "simulation.backend is 'ray', and ray is not installed here",
        "pip install 'vfl[ray]', or take backend = \"processes\"",
    ) from error


class RayWorkers:
    """Tasks of Ray, one core each; a vector is put into its store once."""

    def __init__(self, plan: Simulation) -> None:
        # Nothing but this variable keeps Ray from reporting on its use to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
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
                f"simulation.address: no Ray at {plan.address or 'this machine'}: {error}",
                "start one with: ray start --head",
            ) from error
        self._task = ray.remote(num_cpus=1, max_retries=3)(_carry_out)

    def post(self, name: str, vector: Tensor) -> Posted:
        """See ``Workers``; the store frees what nobody refers to."""
        del name
        return ray.put(vector.detach().numpy())

    def drop(self, posted: Posted) -> None:
        """See ``Workers``."""

    def submit(self, task: Task) -> "Future[Learned | Score]":
        """See ``Workers``."""
        found: Future[Learned | Score] = Future()
        self._task.remote(task).future().add_done_callback(lambda done: _pass_on(done, found))
        return found

    def close(self) -> None:
        """See ``Workers``."""
        ray.shutdown()


def _carry_out(task: Task) -> Learned | Score:
    return carry_out(task, _fetched)


def _fetched(posted: Any) -> Tensor:
    return torch.from_numpy(np.array(ray.get(posted)))  # a copy: the store is read-only


def _pass_on(done: "Future[Any]", found: "Future[Learned | Score]") -> None:
    """What came of a task; an error as it was raised there, without Ray's wrapping."""
    error = done.exception()
    if error is None:
        found.set_result(done.result())
    else:
        found.set_exception(getattr(error, "cause", None) or error)
