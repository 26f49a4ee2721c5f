"""Simulated clients in a pool of worker processes.

A vector is written once to memory that all processes share. A client is loaded in the process that
runs the client's job. Therefore, memory use grows with the number of processes, not with the number
of clients.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from parties.common.errors import PolicyError, ResourceError
from parties.common.workers import end_with_parent
from parties.horizontal.engine.cohort import MeanUpdate, Member, weighted_mean
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalTaskError,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind
from parties.horizontal.simulation.simulated_data import (
    ClientSource,
    ClientState,
    SimulatedClients,
    SimulationSource,
)

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  in memory; without it the usual temporary folder
MAX_SHARED_VECTORS = 8  # vectors that are kept
# Jobs that are started and whose results were not used, per worker: one runs, one waits.
JOBS_PER_WORKER = 2
K = TypeVar("K")
VectorHandle: TypeAlias = object  # a stored vector: a file, or a reference into Ray's store


@dataclass(frozen=True, slots=True)
class ClientJob:
    """A job of one client: a local task or an evaluation."""

    source: ClientSource  # config and data of the simulation
    client: str  # name of the client
    state: ClientState  # unlearning requests that the client received
    kind: RowKind  # which rows of the client the job uses, for example the forgotten rows
    # The local task; None: the job evaluates the vector ``model`` of ``slots``.
    task: LocalTask | None
    # Handles of the stored vectors that the job uses, by name.
    slots: tuple[tuple[str, VectorHandle], ...]
    # Handle of the packed personal parameters; None before the client's first local task.
    personal: VectorHandle | None = None
    # "personal": before an evaluation, the client's personal parameters replace those of the model;
    # "sent": the model is evaluated unchanged.
    parameters: ParameterSource = "personal"


class ClientWorkers(Protocol):
    """Workers that run jobs: processes of this machine, or of a cluster."""

    @property
    def parallel(self) -> int:
        """Number of jobs that run at the same time."""

    def put(self, name: str, vector: Tensor) -> VectorHandle:
        """Store a vector, ``[n]``, for all workers.

        The vector replaces an earlier vector of the same name.
        """

    def delete(self, handle: VectorHandle) -> None:
        """Delete a stored vector."""

    def submit(self, job: ClientJob) -> "Future[LocalUpdate | RowMetrics]":
        """Start a job."""

    def close(self) -> None:
        """End all workers."""


class ProcessWorkers:
    """Worker processes of this machine, with one thread each."""

    def __init__(self, count: int) -> None:
        self.parallel = count  # number of jobs that run at the same time
        self._pool = ProcessPoolExecutor(count, get_context("spawn"), end_with_parent)
        self._folder = TemporaryDirectory(
            prefix="vfl-vectors-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        )

    def put(self, name: str, vector: Tensor) -> Path:
        """Write a vector, ``[n]``, to a file for all processes and return its path."""
        path = Path(self._folder.name) / f"{name}.npy"
        np.save(path, vector.detach().numpy())
        return path

    def delete(self, handle: VectorHandle) -> None:
        """Delete a vector's file."""
        Path(str(handle)).unlink()

    def submit(self, job: ClientJob) -> "Future[LocalUpdate | RowMetrics]":
        """Start a job in one of the processes."""
        return self._pool.submit(_run, job)

    def close(self) -> None:
        """End all processes and delete the vectors."""
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()


def run_job(job: ClientJob, fetch: Callable[[VectorHandle], Tensor]) -> LocalUpdate | RowMetrics:
    """Run a job in a worker; ``fetch`` reads a stored vector, ``[n]``."""
    client = _clients(job.source).load(job.client, job.state)
    slots = {name: fetch(handle) for name, handle in job.slots}
    client.personal = None if job.personal is None else client.unpack_personal(fetch(job.personal))
    if job.task is not None:
        update = client.run_task(job.kind, job.task, slots)
        if update.personal is None:
            return update
        return replace(update, personal=client.pack_personal(update.personal))
    return client.evaluate(job.kind, slots["model"], job.parameters)


@lru_cache(maxsize=1)
def _clients(source: ClientSource) -> SimulatedClients:
    return source.clients()


def _run(job: ClientJob) -> LocalUpdate | RowMetrics:
    return run_job(job, _fetch)


def _fetch(handle: VectorHandle) -> Tensor:
    path = Path(str(handle))
    return _cached(path) if path.stem.isdecimal() else torch.from_numpy(np.load(path))


@lru_cache(maxsize=MAX_SHARED_VECTORS)
def _cached(path: Path) -> Tensor:
    """A vector whose file is never written again."""
    return torch.from_numpy(np.load(path))


class SharedVectors:
    """Stores each vector once for all workers, and deletes the least recently used vectors."""

    def __init__(self, workers: ClientWorkers) -> None:
        self._workers, self._count = workers, 0
        self._shared: dict[int, tuple[Tensor, VectorHandle]] = {}

    def put(self, slots: Slots) -> tuple[tuple[str, VectorHandle], ...]:
        """Store all new vectors, ``[n]`` each; return the handles of all vectors by name."""
        return tuple((name, self._put(vector)) for name, vector in slots.items())

    def _put(self, vector: Tensor) -> VectorHandle:
        if id(vector) not in self._shared:
            self._count += 1
            handle = self._workers.put(str(self._count), vector)
            self._shared[id(vector)] = (vector, handle)
            while len(self._shared) > MAX_SHARED_VECTORS:
                _, old = self._shared.pop(next(iter(self._shared)))
                self._workers.delete(old)
        else:  # the vector becomes the most recently used one
            self._shared[id(vector)] = self._shared.pop(id(vector))
        return self._shared[id(vector)][1]


@contextmanager
def _alive() -> Iterator[None]:
    """Report a lost worker process while jobs run.

    Raises:
        ResourceError: a worker process was killed.
    """
    try:
        yield
    except BrokenProcessPool as error:
        raise ResourceError(
            "a worker process of the simulation was killed",
            "if memory is low, reduce simulation.workers; 1 worker needs the least memory",
        ) from error


class PoolCohort:
    """Cohort of simulated clients, which are always connected.

    Args:
        names: names of all clients.
        source: config and data of the simulation.
        workers: the workers that run the clients' jobs.
        quorum: smallest fraction of the members that must reply.
    """

    def __init__(
        self, names: Sequence[str], source: SimulationSource, workers: ClientWorkers, quorum: float
    ) -> None:
        self.clients, self._source = tuple(names), source
        self._workers, self.quorum = workers, quorum
        self._state, self._personal = ClientState(), dict[str, VectorHandle]()
        self._branch, self._branches = "original", dict[str, dict[str, VectorHandle]]()
        self._vectors = SharedVectors(workers)

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield the members' updates in order; ``slots`` are vectors by name, ``[d]`` each.

        Raises:
            PolicyError: a client cannot carry out the task.
        """
        handles = self._vectors.put(slots)
        jobs = [(m, replace(self._job(m.client, m.kind, handles), task=task)) for m in members]
        for member, future in self._run_in_order(jobs):
            try:
                with _alive():
                    found = future.result()
            except LocalTaskError as error:
                raise PolicyError(f"{member} cannot carry out the local task: {error}") from error
            del future  # the caller may drop the update before the next one
            if isinstance(found, LocalUpdate):
                if found.personal is not None:
                    self._personal[member.client] = self._workers.put(
                        f"{self._branch}.{member.client}.personal", found.personal
                    )
                yield member, found

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the mean update of the members; ``slots`` are vectors by name, ``[d]`` each."""
        return weighted_mean(self, members, task, slots)

    def evaluate(
        self,
        names: Sequence[str],
        kind: RowKind,
        model: Tensor,
        parameters: ParameterSource = "personal",
    ) -> Mapping[str, RowMetrics]:
        """Return the metrics of a model, ``[d]``, on each client's rows of one kind."""
        handles = self._vectors.put({"model": model})
        jobs = [
            (name, replace(self._job(name, kind, handles), parameters=parameters)) for name in names
        ]
        with _alive():
            results = {name: future.result() for name, future in self._run_in_order(jobs)}
        return {name: each for name, each in results.items() if isinstance(each, RowMetrics)}

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch all clients to ``branch``; a new branch starts as ``parent``."""
        self._branches[self._branch] = self._personal
        if branch not in self._branches:
            self._branches[branch] = dict(self._branches.get(parent, {})) if parent else {}
        self._branch, self._personal = branch, self._branches[branch]

    def select_request(self, request: str) -> None:
        """Select the request that decides which rows are ``forgotten`` or ``retained``."""
        self._state = ClientState(request, self._state.purged)

    def purge(self) -> dict[str, list[str]]:
        """Delete the forgotten rows at every client.

        Returns:
            An empty dictionary: simulated clients store no copies of rows, so no copies are
            deleted.
        """
        request, purged = self._state.request, self._state.purged
        self._state = ClientState(None, (*purged, request) if request else purged)
        self._delete_other_branches()
        return {}

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def _delete_other_branches(self) -> None:
        """Delete personal parameters of models that were not delivered.

        They contain information about the forgotten rows.
        """
        known = {handle for personal in self._branches.values() for handle in personal.values()}
        for handle in known - set(self._personal.values()):
            self._workers.delete(handle)
        self._branches = {self._branch: self._personal}

    def _run_in_order(
        self, jobs: Iterable[tuple[K, ClientJob]]
    ) -> "Iterator[tuple[K, Future[LocalUpdate | RowMetrics]]]":
        """Start the jobs, and yield their results in the order of ``jobs``.

        A job starts only if few results wait for the caller. Therefore, memory use grows with the
        number of workers, not with the number of jobs.
        """
        waiting = deque[tuple[K, Future[LocalUpdate | RowMetrics]]]()
        limit = JOBS_PER_WORKER * self._workers.parallel
        for key, job in jobs:
            if len(waiting) == limit:
                yield waiting.popleft()
            with _alive():
                waiting.append((key, self._workers.submit(job)))
        while waiting:
            yield waiting.popleft()

    def _job(
        self, client: str, kind: RowKind, slots: tuple[tuple[str, VectorHandle], ...]
    ) -> ClientJob:
        """A job that evaluates the model; a caller adds the local task."""
        personal = self._personal.get(client)
        return ClientJob(self._source, client, self._state, kind, None, slots, personal)
