"""Simulated clients on Ray: on this machine, or on a cluster whose nodes have the same program.

Ray is an optional dependency. Only this module and ``ray_nodes`` import Ray, and this module is
imported only if ``simulation.backend`` is "ray". Ray sends pickled Python objects between its
processes, so every machine of the cluster can run any code. The cluster must therefore be trusted.

Only the driver, which is the process of the server, reads files: the agreement and the data go
through Ray's object store, which sends them once to each node.
"""

import warnings
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from configs.errors import ConfigError
from configs.federated import SimulationSettings
from parties.common.errors import ResourceError
from parties.horizontal.local.local_task import LocalUpdate, RowMetrics
from parties.horizontal.simulation.pool import ClientJob, VectorHandle, run_job
from parties.horizontal.simulation.simulated_data import (
    ClientSource,
    SimulatedClients,
    SimulationSource,
)

try:
    import ray
    from ray.exceptions import RayError
    from ray.util import deregister_serializer, register_serializer

    from parties.horizontal.simulation.ray_nodes import (
        check_nodes,
        connect,
        job_slots,
        require_gpus,
    )
except ImportError as error:
    raise ConfigError(
        "simulation.backend is 'ray', but ray is not installed",
        "run: pip install 'vfl[ray]', or set simulation.backend = \"processes\"",
    ) from error


@dataclass(frozen=True, slots=True)
class StoredSource:
    """Data of all simulated clients in Ray's object store."""

    handle: "ray.ObjectRef[Any]"

    def clients(self) -> SimulatedClients:
        """Return all clients; all processes of a node share the memory of the data's tensors."""
        clients: SimulatedClients = ray.get(self.handle).clients()
        return clients


class RayWorkers:
    """Ray workers with one core each. A vector is stored once in Ray's object store.

    Raises:
        ConfigError: Ray cannot be started or reached, a node lacks the program, or the cluster
            lacks the GPUs.
    """

    def __init__(self, plan: SimulationSettings) -> None:
        connect(plan.address, plan.workers, "simulation.address")
        self._gpus = plan.num_gpus
        try:
            require_gpus(self._gpus)
            check_nodes("simulation.backend")
        except BaseException:
            ray.shutdown()
            raise
        # By default, Ray starts a process for every task that uses a GPU; 0 reuses the processes.
        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": self._gpus, "max_calls": 0}
        self._job = ray.remote(**options, max_retries=3)(_run)
        self._sources = dict[ClientSource, StoredSource]()

    @property
    def parallel(self) -> int:
        """Number of jobs that run at the same time."""
        return job_slots(self._gpus)

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        """Store a vector, ``[n]``; Ray deletes a vector when no reference to the vector is left."""
        del name
        return ray.put(vector.detach().numpy())

    def delete(self, handle: VectorHandle) -> None:
        """Do nothing: Ray deletes vectors without references."""

    def submit(self, job: ClientJob) -> "Future[LocalUpdate | RowMetrics]":
        """Start a job as a Ray task."""
        found: Future[LocalUpdate | RowMetrics] = Future()
        task = self._job.remote(replace(job, source=self._stored(job.source)))
        task.future().add_done_callback(lambda done: _pass_on(done, found))
        return found

    def close(self) -> None:
        """Disconnect from Ray, and stop Ray if this process started it."""
        ray.shutdown()

    def _stored(self, source: ClientSource) -> ClientSource:
        """The data of ``source`` in the object store, where they are stored at the first use."""
        if not isinstance(source, SimulationSource):
            return source
        if source not in self._sources:
            data = source.read_data(source).without_paths()
            # Arrays in the object store are in memory that all processes of a node share.
            register_serializer(Tensor, serializer=Tensor.numpy, deserializer=_shared_tensor)
            try:
                self._sources[source] = StoredSource(ray.put(data))
            finally:
                deregister_serializer(Tensor)
        return self._sources[source]


def _shared_tensor(array: NDArray[Any]) -> Tensor:
    """A tensor of any shape in the memory of an array in the object store, which is read-only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _run(job: ClientJob) -> LocalUpdate | RowMetrics:
    return run_job(job, _fetched)


def _fetched(handle: Any) -> Tensor:
    return torch.from_numpy(np.array(ray.get(handle)))  # a copy: the store is read-only


def _pass_on(done: "Future[Any]", found: "Future[LocalUpdate | RowMetrics]") -> None:
    """Copy the result of a task, or its error without the wrapper of Ray."""
    error = done.exception()
    cause = getattr(error, "cause", None)
    if error is None:
        found.set_result(done.result())
    elif cause is None and isinstance(error, RayError):
        found.set_exception(
            ResourceError(f"Ray lost a job of a simulated client: {error}", "run: ray status")
        )
    else:
        found.set_exception(cause or error)
