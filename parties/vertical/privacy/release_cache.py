"""The release cache: released values, so that a repeated request gets the same bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from parties.common.atomic_file import sync_folder
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import Index
from parties.vertical.privacy.ledger import FOLDER, TAG
from parties.vertical.privacy.sealed import read_sealed, write_sealed

_LOST = "remove the file; its rows are then released again, and the ledger charges these releases"
_FORGOTTEN = "forgotten"  # tensor in the file: 1 for values that are to be erased


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """Rows of a party, each with a keyed tag of its ID and a keyed digest of its content."""

    tags: Sequence[bytes]  # keyed tags of the row IDs
    digests: Sequence[bytes]  # keyed digests of the rows' contents


@dataclass(frozen=True, slots=True)
class _Entry:
    """The released values of one row."""

    digest: bytes  # keyed digest of the content that was released
    values: Tensor  # [width]
    forgotten: bool = False  # whether the values are to be erased


class ReleaseCache:
    """Released values of rows, [rows, width], in the file ``name`` of the party's privacy folder.

    Values that were released with other ``settings`` are not used. Every call reads the file.
    """

    def __init__(self, state: Path, name: str, settings: bytes) -> None:
        self._path = state / FOLDER / name
        self._settings = sha256(settings).digest()

    def release_once(
        self,
        rows: TaggedRows,
        charge: Callable[[Index], None],
        release: Callable[[Index], Tensor],
    ) -> Tensor:
        """The released values of ``rows``, [rows, width].

        A row is new if it was never released, or if its content has changed since the last release.
        New rows are first charged to the ledger and then released. A row that was marked as
        forgotten is not marked any more, because the model still has it.

        Args:
            rows: the rows.
            charge: function that records the new rows in the ledger; it gets their positions,
                [new_rows].
            release: function that gets the same positions and returns the values to release,
                [new_rows, width].
        """
        entries = self._read()
        known = [
            tag in entries and entries[tag].digest == digest
            for tag, digest in zip(rows.tags, rows.digests, strict=True)
        ]
        new = np.flatnonzero(~np.array(known, bool))
        if len(new):
            charge(new)
            for index, values in zip(new.tolist(), release(new), strict=True):
                entries[rows.tags[index]] = _Entry(rows.digests[index], values)
        marked = [tag for tag in rows.tags if entries[tag].forgotten]
        for tag in marked:
            entries[tag] = replace(entries[tag], forgotten=False)
        if len(new) or marked:
            _write(self._path, self._settings, entries)
        return torch.stack([entries[tag].values for tag in rows.tags])

    def forget(self, tags: Sequence[bytes]) -> None:
        """Mark released values of the rows ``tags``, so that ``erase_marked_values`` erases them.

        Until then a start from a file that still has the rows finds the values, and charges nothing
        to the ledger.
        """
        entries = self._read()
        for tag in entries.keys() & set(tags):
            entries[tag] = replace(entries[tag], forgotten=True)
        _write(self._path, self._settings, entries)

    def contains(self, tags: Sequence[bytes]) -> bool:
        """Whether the cache contains released values of at least one of the rows ``tags``."""
        return not self._read().keys().isdisjoint(tags)

    def _read(self) -> dict[bytes, _Entry]:
        content = read_sealed(self._path, _LOST)
        if content is None or content["settings"].numpy().tobytes() != self._settings:
            return {}
        return _entries(content)


def erase_marked_values(state: Path, name: str) -> None:
    """Erase the values in a release cache that are marked as forgotten, whatever their settings.

    The ledger still counts their releases.

    Args:
        state: the party's folder.
        name: the name of the cache's file.

    Raises:
        StorageError: the file cannot be read or written.
        IntegrityError: the file is damaged.
    """
    path = state / FOLDER / name
    content = read_sealed(path, _LOST)
    if content is None or _FORGOTTEN not in content:
        return
    kept = {tag: each for tag, each in _entries(content).items() if not each.forgotten}
    _write(path, content["settings"].numpy().tobytes(), kept)


def _entries(content: Tensors) -> dict[bytes, _Entry]:
    """The entries of a cache's file, by tag."""
    tags, prints = (_cut(content[part]) for part in ("tags", "prints"))
    marks = content.get(_FORGOTTEN, torch.zeros(len(tags), dtype=torch.uint8)).tolist()
    parts = zip(tags, prints, content["values"], marks, strict=True)
    return {tag: _Entry(digest, values, bool(mark)) for tag, digest, values, mark in parts}


def _write(path: Path, settings: bytes, entries: Mapping[bytes, _Entry]) -> None:
    """Write the file of a cache; without entries there is none."""
    if not entries:
        if path.exists():
            path.unlink()
            sync_folder(path.parent)
        return
    tensors = {
        "settings": torch.frombuffer(bytearray(settings), dtype=torch.uint8),
        "values": torch.stack([each.values for each in entries.values()]),
        "tags": _joined(list(entries)),
        "prints": _joined([each.digest for each in entries.values()]),
    }
    marks = [each.forgotten for each in entries.values()]
    if any(marks):
        tensors[_FORGOTTEN] = torch.tensor(marks, dtype=torch.uint8)
    write_sealed(path, tensors)


def _joined(parts: Sequence[bytes]) -> Tensor:
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).reshape(-1, TAG)


def _cut(whole: Tensor) -> list[bytes]:
    content = whole.numpy().tobytes()
    return [content[start : start + TAG] for start in range(0, len(content), TAG)]
