"""Simulated clients in a pool of processes: as many at work as there are processes.

A vector is written once, to where all processes read it; a client is laid out in whichever
process is asked for it, so memory grows with the processes and not with the clients.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from parties.common.errors import PolicyError, ResourceError
from parties.common.workers import end_with_parent
from parties.horizontal.engine.cohort import Kind, Mean, Member, Score, Summing, Whose
from parties.horizontal.local.local_task import Learned, Lesson, Slots, Unteachable
from parties.horizontal.simulation.simulated_data import Source, Standing, Stock
from parties.horizontal.simulation.simulated_data_registry import read_stock

SHARED = Path("/dev/shm")  # noqa: S108  memory; elsewhere the usual temporary folder
POSTED = 8  # newest vectors that stay
Posted: TypeAlias = object  # where a vector lies: a file, or a place in a cluster's memory


@dataclass(frozen=True, slots=True)
class Task:
    """One client's work."""

    source: Source
    client: str
    standing: Standing
    kind: Kind
    lesson: Lesson | None  # None: only measure the model
    slots: tuple[tuple[str, Posted], ...]
    own: Posted | None = None  # the parameters that are the client's own, and no others
    whose: Whose = "own"  # of a model that is measured


class Workers(Protocol):
    """Whoever carries out tasks: processes of this machine, or of a cluster."""

    def post(self, name: str, vector: Tensor) -> Posted:
        """Put a vector where all of them can read it, in the place of the last one of this name."""

    def drop(self, posted: Posted) -> None:
        """Nobody reads it any more."""

    def submit(self, task: Task) -> "Future[Learned | Score]":
        """Begin it."""

    def close(self) -> None:
        """End them."""


class Processes:
    """Processes of this machine, one thread each."""

    def __init__(self, count: int) -> None:
        self._pool = ProcessPoolExecutor(count, get_context("spawn"), end_with_parent)
        self._folder = TemporaryDirectory(
            prefix="vfl-board-", dir=SHARED if SHARED.is_dir() else None
        )

    def post(self, name: str, vector: Tensor) -> Path:
        """See ``Workers``."""
        path = Path(self._folder.name) / f"{name}.npy"
        np.save(path, vector.detach().numpy())
        return path

    def drop(self, posted: Posted) -> None:
        """See ``Workers``."""
        Path(str(posted)).unlink()

    def submit(self, task: Task) -> "Future[Learned | Score]":
        """See ``Workers``."""
        return self._pool.submit(_carry_out, task)

    def close(self) -> None:
        """See ``Workers``."""
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()


def carry_out(task: Task, fetch: Callable[[Posted], Tensor]) -> Learned | Score:
    """A task, in the process that got it; ``fetch`` reads what was posted."""
    learner = _stock(task.source).learner(task.client, task.standing)
    slots = {name: fetch(posted) for name, posted in task.slots}
    learner.own = None if task.own is None else learner.unpacked(fetch(task.own))
    if task.lesson is not None:
        found = learner.answer(task.kind, task.lesson, slots)
        return found if found.own is None else replace(found, own=learner.packed(found.own))
    return learner.measure(task.kind, slots["model"], task.whose)


@lru_cache(maxsize=1)
def _stock(source: Source) -> Stock:
    return read_stock(source)


def _carry_out(task: Task) -> Learned | Score:
    return carry_out(task, _vector)


def _vector(posted: Posted) -> Tensor:
    path = Path(str(posted))
    return _again(path) if path.stem.isdecimal() else torch.from_numpy(np.load(path))


@lru_cache(maxsize=POSTED)
def _again(path: Path) -> Tensor:
    """What many clients read, and nobody writes twice."""
    return torch.from_numpy(np.load(path))


class Board:
    """Vectors for all to read: each is posted once, and what was read longest ago goes."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self._count = workers, 0
        self._posted: dict[int, tuple[Tensor, Posted]] = {}

    def post(self, slots: Slots) -> tuple[tuple[str, Posted], ...]:
        """Where the vectors lie."""
        return tuple((name, self._place(vector)) for name, vector in slots.items())

    def _place(self, vector: Tensor) -> Posted:
        if id(vector) not in self._posted:
            self._count += 1
            posted = self._workers.post(str(self._count), vector)
            self._posted[id(vector)] = (vector, posted)
            while len(self._posted) > POSTED:
                _, old = self._posted.pop(next(iter(self._posted)))
                self._workers.drop(old)
        else:  # it is read again, and goes after those that are not
            self._posted[id(vector)] = self._posted.pop(id(vector))
        return self._posted[id(vector)][1]


@contextmanager
def _alive() -> Iterator[None]:
    """While workers are asked.

    Raises:
        ResourceError: one of their processes is gone.
    """
    try:
        yield
    except BrokenProcessPool as error:
        raise ResourceError(
            "a process with simulated clients was ended from outside",
            "too little memory? simulation.workers = 1 needs least",
        ) from error


class PoolCohort:
    """See ``Cohort``: all clients are always here."""

    def __init__(
        self, names: Sequence[str], source: Source, workers: Workers, quorum: float
    ) -> None:
        self._names, self._source, self._workers, self.quorum = (
            tuple(names),
            source,
            workers,
            quorum,
        )
        self._standing, self._own = Standing(), dict[str, Posted]()
        self._line, self._lines = "original", dict[str, dict[str, Posted]]()
        self._board = Board(workers)

    @property
    def clients(self) -> Sequence[str]:
        """All of them, by name."""
        return self._names

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``; in the order in which they were named."""
        posted = self._board.post(slots)
        with _alive():
            tasks = [(m, self._task(m.client, m.kind, posted)) for m in members]
            work = [(m, self._workers.submit(replace(t, lesson=lesson))) for m, t in tasks]
        for member, future in work:
            try:
                with _alive():
                    found = future.result()
            except Unteachable as error:
                raise PolicyError(f"{member} cannot learn this: {error}") from error
            if isinstance(found, Learned):
                if found.own is not None:
                    self._own[member.client] = self._workers.post(
                        f"{self._line}.{member.client}.own", found.own
                    )
                yield member, found

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``."""
        total = Summing()
        for member, learned in self.each(members, lesson, slots):
            total.add(member, learned)
        return total.mean(members, self.quorum)

    def read(
        self, names: Sequence[str], kind: Kind, model: Tensor, whose: Whose = "own"
    ) -> Mapping[str, Score]:
        """How a model does on some rows of every client."""
        posted = self._board.post({"model": model})
        with _alive():
            futures = {
                self._workers.submit(replace(self._task(name, kind, posted), whose=whose)): name
                for name in names
            }
            found = {futures[each]: each.result() for each in as_completed(futures)}
        return {n: found[n] for n in names if isinstance(found[n], Score)}  # type: ignore[misc]

    def follow(self, line: str, parent: str | None) -> None:
        """See ``Cohort``."""
        self._lines[self._line] = self._own
        if line not in self._lines:
            self._lines[line] = dict(self._lines.get(parent, {})) if parent else {}
        self._line, self._own = line, self._lines[line]

    def attend(self, request: str) -> None:
        """Tell all clients which request ``forgotten`` means."""
        self._standing = Standing(request, self._standing.purged)

    def purge(self) -> dict[str, list[str]]:
        """Have every client forget the rows of the request."""
        request, purged = self._standing.request, self._standing.purged
        self._standing = Standing(None, (*purged, request) if request else purged)
        self._drop_other_lines()
        return {}

    def close(self) -> None:
        """End the processes."""
        self._workers.close()

    def _drop_other_lines(self) -> None:
        """What is the clients' own in a model that was not delivered remembers what must go."""
        known = {posted for own in self._lines.values() for posted in own.values()}
        for posted in known - set(self._own.values()):
            self._workers.drop(posted)
        self._lines = {self._line: self._own}

    def _task(self, client: str, kind: Kind, slots: tuple[tuple[str, Posted], ...]) -> Task:
        """To measure the model."""
        own = self._own.get(client)
        return Task(self._source, client, self._standing, kind, None, slots, own)
