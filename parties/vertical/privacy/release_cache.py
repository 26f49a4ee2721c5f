"""What was released once, kept: a row that is asked for again is answered with the same bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from parties.common.shared_randomness import Index
from parties.vertical.privacy.ledger import FOLDER, TAG
from parties.vertical.privacy.sealed import read_sealed, write_sealed

_LOST = "remove it: its rows are then released anew, and the ledger charges them again"


@dataclass(frozen=True, slots=True)
class Named:
    """Rows by their tags, and digests of what they hold."""

    tags: Sequence[bytes]
    prints: Sequence[bytes]


class Kept:
    """Released rows, [rows, width], in the file ``name`` of the party's folder.

    ``settings`` say how they were released; what was released otherwise is not used.
    """

    def __init__(self, state: Path, name: str, settings: bytes) -> None:
        self._path = state / FOLDER / name
        self._settings = sha256(settings).digest()
        self._known: dict[bytes, tuple[bytes, Tensor]] = {}  # tag -> print, values
        found = read_sealed(self._path, _LOST)
        if found is not None and found["settings"].numpy().tobytes() == self._settings:
            tags, prints = (_cut(found[part]) for part in ("tags", "prints"))
            values = zip(prints, found["values"], strict=True)
            self._known = dict(zip(tags, values, strict=True))

    def once(
        self,
        rows: Named,
        charge: Callable[[Index], None],
        release: Callable[[Index], Tensor],
    ) -> Tensor:
        """What is sent for ``rows``, [rows, width]; only what is new is charged, then released.

        A row is new when it was never released, or holds other values than it did then.
        """
        pairs = enumerate(zip(rows.tags, rows.prints, strict=True))
        new = np.array([at for at, (tag, now) in pairs if self._changed(tag, now)], np.int64)
        if len(new):
            charge(new)
            for at, value in zip(new.tolist(), release(new), strict=True):
                self._known[rows.tags[at]] = (rows.prints[at], value)
            self._write()
        return torch.stack([self._known[tag][1] for tag in rows.tags])

    def forget(self, tags: Sequence[bytes]) -> None:
        """Remove rows; the ledger goes on knowing that they were released."""
        for tag in tags:
            self._known.pop(tag, None)
        self._write()

    def holds(self, tags: Sequence[bytes]) -> bool:
        """Whether any of these rows is kept."""
        return any(tag in self._known for tag in tags)

    def _changed(self, tag: bytes, now: bytes) -> bool:
        return tag not in self._known or self._known[tag][0] != now

    def _write(self) -> None:
        if not self._known:
            self._path.unlink(missing_ok=True)
            return
        prints, values = zip(*self._known.values(), strict=True)
        settings = torch.frombuffer(bytearray(self._settings), dtype=torch.uint8)
        tensors = {"settings": settings, "values": torch.stack(values)}
        tensors |= {"tags": _joined(list(self._known)), "prints": _joined(prints)}
        write_sealed(self._path, tensors)


def _joined(parts: Sequence[bytes]) -> Tensor:
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).reshape(-1, TAG)


def _cut(whole: Tensor) -> list[bytes]:
    content = whole.numpy().tobytes()
    return [content[start : start + TAG] for start in range(0, len(content), TAG)]
