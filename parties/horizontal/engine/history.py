"""Training history for FedEraser and FedRecovery: rounds stored in the server's folder.

A stored round is one safetensors file with the model before the round and the update of every
client. The history contains information about every client, so the server deletes it at the end of
the run.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Protocol

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from parties.common.atomic_file import make_folder, write_atomically
from parties.horizontal.engine.cohort import MeanUpdate, Member, Trainer, WeightedMean
from parties.horizontal.engine.rounds import ChosenRound
from parties.horizontal.local.local_task import LocalUpdate

START_MODEL = "/model"  # a name that no client can have
HISTORY = "history"  # folder of the stored rounds in the server's folder


class History(Protocol):
    """Interface to the training rounds that the server has stored."""

    def __len__(self) -> int:
        """Return the number of stored rounds."""

    def read(self, place: int) -> tuple[Tensor, dict[Member, LocalUpdate]]:
        """Return the model before a stored round, ``[d]``, and the update of each client.

        ``place`` counts the stored rounds from 0.
        """

    def rounds(self) -> Iterator[tuple[Tensor, dict[Member, LocalUpdate]]]:
        """Yield the model before each stored round, ``[d]``, and the update of each client."""


class RoundStore:
    """Rounds on disk: those whose number is a multiple of ``every``; none if ``every`` is 0."""

    def __init__(self, folder: Path, every: int) -> None:
        self._folder, self._every = folder, every

    def __len__(self) -> int:
        return len(self._files())

    def rounds(self) -> Iterator[tuple[Tensor, dict[Member, LocalUpdate]]]:
        """Yield the model before each stored round, ``[d]``, and the update of each client."""
        yield from map(_read, self._files())

    def read(self, place: int) -> tuple[Tensor, dict[Member, LocalUpdate]]:
        """Return the model before stored round ``place``, ``[d]``, and each client's update."""
        return _read(self._files()[place])

    def mean_update(self, trainer: Trainer, chosen: ChosenRound) -> MeanUpdate:
        """Return the mean update of a round; store it if its number is a multiple of ``every``."""
        number, members, slots = chosen.number, chosen.members, chosen.slots
        if not self._every or number % self._every:
            return chosen.mean_update(trainer)
        if number == 0:
            self.clear()
        total, kept = WeightedMean(), {START_MODEL: slots["model"]}
        for member, update in trainer.updates(members, chosen.task, slots):
            total.add(member, update)
            kept[member.client] = torch.cat([update.delta.new_tensor([update.rows]), update.delta])
        make_folder(self._folder)
        write_atomically(self._folder / f"{number:06}.safetensors", save(kept))
        return total.result(members, trainer.quorum)

    def forget(self, clients: Sequence[str]) -> None:
        """Delete the stored updates of clients that have deleted rows."""
        for path in self._files():
            tensors = load_file(path)
            kept = {name: each for name, each in tensors.items() if name not in clients}
            if len(kept) < len(tensors):
                write_atomically(path, save(kept))

    def clear(self) -> None:
        """Delete all stored rounds."""
        rmtree(self._folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.safetensors"))


def _read(path: Path) -> tuple[Tensor, dict[Member, LocalUpdate]]:
    """The model before the round in a file, ``[d]``, and the update of each client."""
    tensors = load_file(path)
    began = tensors.pop(START_MODEL)
    found = {
        Member(name): LocalUpdate(stored[1:], int(stored[0]), 0.0, 0)
        for name, stored in tensors.items()
    }
    return began, found
