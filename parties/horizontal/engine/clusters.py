"""Clusters of clients that train separately (Knot), and the snapshots of each cluster.

The method is Knot (Su and Li 2023). Clients are assigned to clusters by the seed and the clients'
names only, so the assignment does not depend on any row. A snapshot is the model before a round in
which some client takes part for the first time; therefore that client has not influenced the
snapshot. To unlearn a client, the client's cluster is trained again from the snapshot before the
client's first round.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import IntegrityError, PolicyError
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.engine.cohort import Cohort, MeanUpdate, Member, Trainer
from parties.horizontal.engine.rounds import ChosenRound, RoundPlan, RoundResult, run_rounds

LAST = "last"  # name of the trained model in a cluster's file
CLUSTERS = "clusters"  # folder of the histories in the server's folder


def assign_clusters(names: Sequence[str], clusters: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Assign the clients to clusters of nearly equal size; return each cluster's clients."""
    order = permutation(derive_key(seed, "clusters"), len(names))
    ordered = sorted(names)
    return tuple(
        tuple(sorted(ordered[place] for place in order[number::clusters]))
        for number in range(clusters)
    )


def mean_model(models: Sequence[Tensor]) -> Tensor:
    """Return the unweighted mean, ``[d]``, of the models of all clusters, ``[d]`` each."""
    return torch.stack(list(models)).mean(dim=0)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The model, ``[d]``, before round ``number``.

    In this round, ``clients`` take part for the first time.
    """

    number: int
    model: Tensor
    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """The snapshots and the trained model of one cluster."""

    snapshots: tuple[ClusterSnapshot, ...]  # the snapshots, in the order of their rounds
    model: Tensor | None  # the trained model, ``[d]``; None if the cluster has no clients left

    def snapshot_before(self, clients: frozenset[str]) -> ClusterSnapshot | None:
        """Return the latest snapshot that was made before any of ``clients`` took part in a round.

        The result is None if none of ``clients`` ever took part in a round.
        """
        return next((each for each in self.snapshots if clients.intersection(each.clients)), None)


@dataclass(slots=True)
class SnapshotWriter:
    """A history writer that stores a snapshot before the first round of each client."""

    snapshots: list[ClusterSnapshot] = field(default_factory=list)

    def mean_update(self, trainer: Trainer, chosen: ChosenRound) -> MeanUpdate:
        """Return a round's mean update; store a snapshot if it is the first round of a client."""
        known = frozenset[str]().union(*(each.clients for each in self.snapshots))
        new = frozenset(each.client for each in chosen.members) - known
        if new:
            first = ClusterSnapshot(chosen.number, chosen.slots["model"], tuple(sorted(new)))
            self.snapshots.append(first)
        return chosen.mean_update(trainer)


# (result of a round, snapshots of the cluster until then)
ClusterCallback: TypeAlias = Callable[[RoundResult, tuple[ClusterSnapshot, ...]], None]


@dataclass(frozen=True, slots=True)
class ClusterProgress:
    """The progress of an unfinished training of all clusters, one after the other.

    Attributes:
        model: the model of the present cluster after its last finished round, ``[d]``.
        rounds: number of finished rounds of all clusters.
        snapshots: the snapshots of the present cluster so far.
    """

    model: Tensor
    rounds: int = 0
    snapshots: tuple[ClusterSnapshot, ...] = ()


class ClusterStore:
    """The histories of all clusters on disk, one safetensors file per cluster."""

    def __init__(self, folder: Path, groups: tuple[tuple[str, ...], ...]) -> None:
        self._folder, self.groups = folder, groups

    def train(
        self,
        cohort: Cohort,
        model: Tensor,
        round_plan: RoundPlan,
        watch: ClusterCallback,
        begun: ClusterProgress | None = None,
    ) -> Tensor:
        """Train all clusters from one model, ``[d]``; return the mean of their models, ``[d]``.

        Args:
            cohort: the clients.
            model: the model before the first round of each cluster, ``[d]``.
            round_plan: settings of the rounds of one cluster.
            watch: callback that receives the result of each round, and the snapshots of the
                cluster; the files of the clusters that are trained are written before the call.
            begun: the progress before a crash; None: no round is finished.
        """
        fresh = ClusterProgress(model)
        first, done = divmod((begun or fresh).rounds, round_plan.rounds)
        start = begun if begun and done else fresh
        for number in range(first, len(self.groups)):
            self._train_one(number, cohort, start, replace(round_plan, first=done), watch)
            start, done = fresh, 0
        return mean_model([each.model for _, each in self if each.model is not None])

    def _train_one(
        self,
        number: int,
        cohort: Cohort,
        begun: ClusterProgress,
        round_plan: RoundPlan,
        watch: ClusterCallback,
    ) -> None:
        """Train one cluster from the model of ``begun``, and store its history."""
        members, kept = [Member(n) for n in self.groups[number]], SnapshotWriter([*begun.snapshots])

        def finish(each: RoundResult) -> None:
            snapshots = tuple(kept.snapshots)
            if each.number + 1 == round_plan.rounds:
                self.write(number, ClusterHistory(snapshots, each.model))
            watch(each, snapshots)

        run_rounds(cohort, begun.model, members, round_plan, finish, kept)

    def __iter__(self) -> Iterator[tuple[int, ClusterHistory]]:
        """Yield each cluster's number and history."""
        for number in range(len(self.groups)):
            yield number, self.read(number)

    def write(self, number: int, history: ClusterHistory) -> None:
        """Store a new history of a cluster in place of the old history."""
        tensors = {str(each.number): each.model for each in history.snapshots}
        clients = {str(each.number): "\n".join(sorted(each.clients)) for each in history.snapshots}
        if history.model is not None:
            tensors[LAST] = history.model
        make_folder(self._folder)
        path = self._path(number)
        write_atomically(path, save(tensors, clients or None))

    def read(self, number: int) -> ClusterHistory:
        """Return the history of a cluster.

        Raises:
            PolicyError: the history is missing.
            IntegrityError: the history is damaged.
        """
        path = self._path(number)
        if not path.exists():
            raise PolicyError(
                f"the models of cluster {number} are missing: {path} does not exist",
                "start a new run with --begin fresh",
            )
        try:
            with safe_open(path, framework="pt") as file:
                clients = file.metadata() or {}
                snapshots = [
                    ClusterSnapshot(
                        int(name), file.get_tensor(name), tuple(clients[name].split("\n"))
                    )
                    for name in sorted(clients, key=int)
                ]
                trained = LAST in file.keys()  # noqa: SIM118  the file is not a dictionary
                model = file.get_tensor(LAST) if trained else None
        except (SafetensorError, ValueError) as error:
            raise IntegrityError(
                f"the models of cluster {number} in {path} are damaged: {error}",
                "start a new run with --begin fresh",
            ) from error
        return ClusterHistory(tuple(snapshots), model)

    def clear(self) -> None:
        """Delete the histories of all clusters."""
        rmtree(self._folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:04}.safetensors"
