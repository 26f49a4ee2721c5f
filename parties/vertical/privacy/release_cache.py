"""The release cache: released values, so that a repeated request gets the same bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from parties.common.atomic_file import sync_folder
from parties.common.shared_randomness import Index
from parties.vertical.privacy.ledger import FOLDER, TAG
from parties.vertical.privacy.sealed import read_sealed, write_sealed

_LOST = "remove the file; its rows are then released again, and the ledger charges these releases"


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """Rows of a party, each with a keyed tag of its ID and a keyed digest of its content."""

    tags: Sequence[bytes]  # keyed tags of the row IDs
    digests: Sequence[bytes]  # keyed digests of the rows' contents


class ReleaseCache:
    """Released values of rows, [rows, width], in the file ``name`` of the party's privacy folder.

    Values that were released with other ``settings`` are not used.
    """

    def __init__(self, state: Path, name: str, settings: bytes) -> None:
        self._path = state / FOLDER / name
        self._settings = sha256(settings).digest()
        self._entries: dict[bytes, tuple[bytes, Tensor]] = {}  # tag -> print, values
        content = read_sealed(self._path, _LOST)
        if content is not None and content["settings"].numpy().tobytes() == self._settings:
            tags, prints = (_cut(content[part]) for part in ("tags", "prints"))
            values = zip(prints, content["values"], strict=True)
            self._entries = dict(zip(tags, values, strict=True))

    def release_once(
        self,
        rows: TaggedRows,
        charge: Callable[[Index], None],
        release: Callable[[Index], Tensor],
    ) -> Tensor:
        """The released values of ``rows``, [rows, width].

        A row is new if it was never released, or if its content has changed since the last release.
        New rows are first charged to the ledger and then released.

        Args:
            rows: the rows.
            charge: function that records the new rows in the ledger; it gets their positions,
                [new_rows].
            release: function that gets the same positions and returns the values to release,
                [new_rows, width].
        """
        entries = enumerate(zip(rows.tags, rows.digests, strict=True))
        new = np.array(
            [index for index, (tag, digest) in entries if self._changed(tag, digest)], np.int64
        )
        if len(new):
            charge(new)
            for index, value in zip(new.tolist(), release(new), strict=True):
                self._entries[rows.tags[index]] = (rows.digests[index], value)
            self._write()
        return torch.stack([self._entries[tag][1] for tag in rows.tags])

    def forget(self, tags: Sequence[bytes]) -> None:
        """Delete released values of the rows ``tags``; the ledger still counts the releases."""
        for tag in tags:
            self._entries.pop(tag, None)
        self._write()

    def contains(self, tags: Sequence[bytes]) -> bool:
        """Whether the cache contains released values of at least one of the rows ``tags``."""
        return any(tag in self._entries for tag in tags)

    def _changed(self, tag: bytes, digest: bytes) -> bool:
        return tag not in self._entries or self._entries[tag][0] != digest

    def _write(self) -> None:
        if not self._entries:
            if self._path.exists():
                self._path.unlink()
                sync_folder(self._path.parent)
            return
        prints, values = zip(*self._entries.values(), strict=True)
        settings = torch.frombuffer(bytearray(self._settings), dtype=torch.uint8)
        tensors = {"settings": settings, "values": torch.stack(values)}
        tensors |= {"tags": _joined(list(self._entries)), "prints": _joined(prints)}
        write_sealed(self._path, tensors)


def _joined(parts: Sequence[bytes]) -> Tensor:
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).reshape(-1, TAG)


def _cut(whole: Tensor) -> list[bytes]:
    content = whole.numpy().tobytes()
    return [content[start : start + TAG] for start in range(0, len(content), TAG)]
