"""What the server keeps of the training for FedEraser and FedRecovery: rounds, in files.

A round is one safetensors file: the model that it began with, and what every client learned. It
remembers every client, so it goes with the request that it served.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from parties.common.atomic_file import write
from parties.horizontal.engine.cohort import Cohort, Mean, Member, Summing
from parties.horizontal.local.local_task import Learned, Lesson, Slots

BEGAN = "/model"  # no client's name


class StoredRounds:
    """See ``scene.History``; every so many rounds are kept, none where that is 0."""

    def __init__(self, folder: Path, every: int) -> None:
        self._folder, self._every = folder, every

    def __len__(self) -> int:
        return len(self._files())

    def rounds(self) -> Iterator[tuple[Tensor, dict[Member, Learned]]]:
        """See ``scene.History``."""
        for path in self._files():
            tensors = load_file(path)
            began = tensors.pop(BEGAN)
            found = {
                Member(name): Learned(change[1:], int(change[0]), 0.0, 0)
                for name, change in tensors.items()
            }
            yield began, found

    def mean(
        self, cohort: Cohort, number: int, members: Sequence[Member], lesson: Lesson, slots: Slots
    ) -> Mean:
        """The mean of round ``number``, which is kept if it is its turn."""
        if not self._every or number % self._every:
            return cohort.mean(members, lesson, slots)
        if number == 0:
            self.clear()
        total, kept = Summing(), {BEGAN: slots["model"]}
        for member, learned in cohort.each(members, lesson, slots):
            total.add(member, learned)
            kept[member.client] = torch.cat(
                [learned.change.new_tensor([learned.rows]), learned.change]
            )
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(self._folder / f"{number:06}.safetensors", save(kept))
        return total.mean(members, cohort.quorum)

    def forget(self, clients: Sequence[str]) -> None:
        """Keep nothing more of what some clients said, some of whose rows are gone now."""
        for path in self._files():
            tensors = load_file(path)
            kept = {name: each for name, each in tensors.items() if name not in clients}
            if len(kept) < len(tensors):
                write(path, save(kept))

    def clear(self) -> None:
        """Forget all rounds."""
        rmtree(self._folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.safetensors"))
