"""Clusters of clients that train separately (Knot), and the snapshots of each cluster.

The method is Knot (Su and Li 2023). Clients are assigned to clusters by the seed and the clients'
names only, so the assignment does not depend on any row. A snapshot is the model before a round in
which some client takes part for the first time; therefore that client has not influenced the
snapshot. To unlearn a client, the client's cluster is trained again from the snapshot before the
client's first round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from parties.common.atomic_file import write_atomically
from parties.common.errors import IntegrityError, PolicyError
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.engine.cohort import Cohort, MeanUpdate, Member, Trainer
from parties.horizontal.engine.rounds import ChosenRound, RoundCallback, RoundPlan, run_rounds

LAST = "last"  # name of the trained model in a cluster's file


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
    """The snapshots and the trained model of one cluster.

    Attributes:
        snapshots: the snapshots, in the order of their rounds.
        model: the trained model, ``[d]``; None if the cluster has no clients left.
    """

    snapshots: tuple[ClusterSnapshot, ...]
    model: Tensor | None

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


class ClusterStore:
    """The histories of all clusters on disk, one safetensors file per cluster."""

    def __init__(self, folder: Path, groups: tuple[tuple[str, ...], ...]) -> None:
        self._folder, self.groups = folder, groups

    def train(
        self, cohort: Cohort, model: Tensor, round_plan: RoundPlan, watch: RoundCallback
    ) -> Tensor:
        """Train all clusters from one model, ``[d]``; return the mean of their models, ``[d]``."""
        found = []
        for number, group in enumerate(self.groups):
            members, kept = [Member(name) for name in group], SnapshotWriter()
            found.append(run_rounds(cohort, model, members, round_plan, watch, kept))
            self.write(number, ClusterHistory(tuple(kept.snapshots), found[-1]))
        return mean_model(found)

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
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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
