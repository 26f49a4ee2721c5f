"""Clusters of clients that learn apart, and what the server keeps of them, so that one can go back.

After Knot (Su and Li 2023). Who is in which cluster follows from the seed and the clients' names
alone, so no row is in it. A start is the model with which a cluster began a round in which some
client took part for the first time: nothing in it knows that client.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from parties.common.atomic_file import write
from parties.common.errors import IntegrityError, PolicyError
from parties.common.shared_randomness import key, permutation
from parties.horizontal.engine.cohort import Cohort, Mean, Member
from parties.horizontal.engine.rounds import Course, Watcher, run
from parties.horizontal.local.local_task import Lesson, Slots

LAST = "last"


def dealt(names: Sequence[str], clusters: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Clusters of nearly one size."""
    order = permutation(key(seed, "clusters"), len(names))
    ordered = sorted(names)
    return tuple(
        tuple(sorted(ordered[place] for place in order[number::clusters]))
        for number in range(clusters)
    )


def average(models: Sequence[Tensor]) -> Tensor:
    """The model of all clusters, ``[d]``: their plain mean."""
    return torch.stack(list(models)).mean(dim=0)


@dataclass(frozen=True, slots=True)
class Start:
    """The model with which round ``number`` began, the first one of ``clients``."""

    number: int
    model: Tensor
    clients: frozenset[str]


@dataclass(frozen=True, slots=True)
class Track:
    """One cluster: its starts in the order of their rounds, and its model.

    Attributes:
        last: None once nobody is left in it.
    """

    starts: tuple[Start, ...]
    last: Tensor | None

    def before(self, clients: frozenset[str]) -> Start | None:
        """The last model that knows none of these; None where none of them ever took part."""
        return next((each for each in self.starts if each.clients & clients), None)


@dataclass(slots=True)
class Firsts:
    """See ``Keeper``: notes where every client takes part for the first time."""

    starts: list[Start] = field(default_factory=list)

    def mean(
        self, cohort: Cohort, number: int, members: Sequence[Member], lesson: Lesson, slots: Slots
    ) -> Mean:
        """See ``Keeper``."""
        known = frozenset[str]().union(*(each.clients for each in self.starts))
        new = frozenset(each.client for each in members) - known
        if new:
            self.starts.append(Start(number, slots["model"], new))
        return cohort.mean(members, lesson, slots)


def follow(
    cohort: Cohort,
    track: Track,
    start: Start,
    members: Sequence[Member],
    course: Course,
    watch: Watcher,
) -> Track:
    """The cluster's track with ``members`` alone from ``start`` on."""
    kept = Firsts([each for each in track.starts if each.number < start.number])
    rest = replace(course, first=start.number)
    last = run(cohort, start.model, members, rest, watch, kept) if members else None
    return Track(tuple(kept.starts), last)


class Tracks:
    """The clusters' tracks, a safetensors file each, which is replaced as a whole."""

    def __init__(self, folder: Path, groups: tuple[tuple[str, ...], ...]) -> None:
        self._folder, self.groups = folder, groups

    def train(self, cohort: Cohort, model: Tensor, course: Course, watch: Watcher) -> Tensor:
        """Train all clusters from one model; the mean of what they became."""
        found = []
        for number, group in enumerate(self.groups):
            members = [Member(name) for name in group]
            start = Start(0, model, frozenset())
            track = follow(cohort, Track((), None), start, members, course, watch)
            self.write(number, track)
            found.append(track)
        return average([each.last for each in found if each.last is not None])

    def __iter__(self) -> Iterator[tuple[int, Track]]:
        """All tracks with their clusters' numbers."""
        for number in range(len(self.groups)):
            yield number, self._read(number)

    def write(self, number: int, track: Track) -> None:
        """Put a cluster's track in the place of the one before."""
        tensors = {str(each.number): each.model for each in track.starts}
        clients = {str(each.number): "\n".join(sorted(each.clients)) for each in track.starts}
        if track.last is not None:
            tensors[LAST] = track.last
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(number)
        write(path, save(tensors, clients or None))

    def _read(self, number: int) -> Track:
        path = self._path(number)
        if not path.exists():
            raise PolicyError(
                f"the server has lost the models of cluster {number}", "start the run afresh"
            )
        try:
            with safe_open(path, framework="pt") as file:
                clients = file.metadata() or {}
                starts = [
                    Start(int(name), file.get_tensor(name), frozenset(clients[name].split("\n")))
                    for name in sorted(clients, key=int)
                ]
                there = LAST in file.keys()  # noqa: SIM118  no dict
                last = file.get_tensor(LAST) if there else None
        except (SafetensorError, ValueError) as error:
            raise IntegrityError(
                f"the models of cluster {number} in {path} are damaged: {error}",
                "start the run afresh: --begin fresh",
            ) from error
        return Track(tuple(starts), last)

    def clear(self) -> None:
        """Forget all tracks."""
        rmtree(self._folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:04}.safetensors"
