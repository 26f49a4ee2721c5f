"""The privacy ledger: how often each row was released, and by which mechanism.

    privacy/key     32 secret bytes of this party: the ledger identifies rows by keyed tags
    privacy/ledger  one tag per row, and for each mechanism the number of releases of the row

A release is recorded before anything is sent. The ledger is not part of a checkpoint and is kept
across all runs in the folder, because a crash, a fresh start or an unlearning request does not undo
a release.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hmac import digest as hmac
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import IntegrityError
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import Index
from parties.vertical.privacy.sealed import read_sealed, write_sealed
from protocol import vfl_pb2

TAG = 16  # bytes
FOLDER = "privacy"
LEDGER_FILES = ("ledger", "key")  # in the folder, beside the caches of released values
_LOST = "restore the folder from a backup, because it has the only record of the privacy spending"
Tags = Sequence[bytes]
# Kinds that count together: a release with unbounded noise makes an ε of the same row infinite.
TOGETHER = {"once": ("once", "visit"), "visit": ("visit",), "response": ("response",)}


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A release mechanism: the way in which a row is released."""

    # ``once`` (noise once, with an ε and a δ), ``response`` (randomised response, with an ε and δ =
    # 0) or ``visit`` (fresh noise at each release, without a guarantee).
    kind: str
    peer: str = ""  # name of the receiver; empty if all receivers get the same values
    sigma: float = 0.0  # standard deviation of the noise; 0 for randomised response
    clip: float | None = None  # largest norm of a row; None without clipping
    epsilon: float = 0.0  # ε of one randomised response

    @property
    def square(self) -> float:
        """(clip / sigma)² for one release; infinite for a release without an (ε, δ) guarantee."""
        if self.kind == "response":
            return 0.0
        bounded = self.kind == "once" and self.clip is not None
        return (self.clip / self.sigma) ** 2 if bounded and self.clip else math.inf


@dataclass(frozen=True, slots=True)
class PrivacySpending:
    """The largest privacy spending of any row in a set of rows."""

    releases: int = 0  # largest number of releases of one row
    # Largest sum of (C/σ)² over the releases of one row; infinite if one of them has no (ε, δ)
    # guarantee.
    square: float = 0.0
    epsilon: float = 0.0  # largest sum of ε over the randomised responses of a row


def spending_from_message(message: vfl_pb2.PrivacySpent) -> PrivacySpending:
    """Read the privacy spending from the message of a party."""
    return PrivacySpending(
        message.releases, message.square if message.HasField("square") else math.inf
    )


class PrivacyLedger:
    """The recorded releases of one party, in the subfolder ``privacy`` of the party's folder."""

    def __init__(self, state: Path, entropy: Callable[[int], bytes]) -> None:
        self._path, self._key_path = (state / FOLDER / each for each in LEDGER_FILES)
        self._entropy = entropy
        self._index: dict[bytes, int] = {}
        self._counts: dict[str, NDArray[np.int32]] = {}
        content = read_sealed(self._path, _LOST)
        self._key = self._read_key(recorded=content is not None)
        if content is not None:
            self._load(content)

    def tags(self, ids: Sequence[bytes]) -> list[bytes]:
        """Keyed tags of rows; without the key, a tag reveals no ID."""
        return [hmac(self._key, b"row" + identifier, "sha256")[:TAG] for identifier in ids]

    def digests(self, rows: Sequence[bytes]) -> list[bytes]:
        """Keyed digests of the contents of rows, which show whether a row changed."""
        return [hmac(self._key, b"value" + content, "sha256")[:TAG] for content in rows]

    def charge(
        self,
        tags: Tags,
        mechanism: Mechanism,
        times: Index,
        allow: Callable[[PrivacySpending], None],
    ) -> None:
        """Record releases of rows; call this method before the rows are released.

        Args:
            tags: the keyed tags of the rows.
            mechanism: how the rows are released.
            times: [rows], how many more times each row is released.
            allow: called with the spending after the releases; to refuse them, it raises an error.

        Raises:
            Exception: ``allow`` refused the releases, so that nothing is recorded.
        """
        before = len(self._index)
        for tag in tags:
            self._index.setdefault(tag, len(self._index))
        updated = {name: self._padded(counts) for name, counts in self._counts.items()}
        name = json.dumps(asdict(mechanism), sort_keys=True)
        counts = updated.setdefault(name, np.zeros(len(self._index), np.int32))
        counts[self._places(tags)] += times.astype(np.int32)
        try:
            allow(self._sum(updated, self._places(tags), mechanism.kind))
        except BaseException:
            for tag in list(self._index)[before:]:
                del self._index[tag]
            raise
        write_sealed(self._path, self._tensors(updated))
        self._counts = updated

    def spent(self, tags: Tags, kind: str) -> PrivacySpending:
        """The largest spending of the rows ``tags``, over all mechanisms that count as ``kind``."""
        return self._sum(self._counts, self._recorded(tags), kind)

    def spent_of_any(self, kind: str) -> PrivacySpending:
        """The largest spending of any row, over all mechanisms that count as ``kind``."""
        return self.spent(list(self._index), kind)

    def released_before(self, tags: Tags, kind: str) -> int:
        """How many of the rows ``tags`` were released by a mechanism that counts as ``kind``."""
        places = self._recorded(tags)
        times = np.zeros(len(places), np.int64)
        for _, counts in _counted(self._counts, kind):
            times += counts[places]
        return int((times > 0).sum())

    def _recorded(self, tags: Tags) -> Index:
        return self._places([tag for tag in tags if tag in self._index])

    def _sum(
        self, counts: dict[str, NDArray[np.int32]], places: Index, kind: str
    ) -> PrivacySpending:
        releases, square, epsilon = (np.zeros(len(places) + 1) for _ in range(3))
        for mechanism, each in _counted(counts, kind):
            times = each[places]
            releases[1:] += times
            epsilon[1:] += times * mechanism.epsilon
            square[1:][times > 0] += times[times > 0] * mechanism.square
        return PrivacySpending(int(releases.max()), float(square.max()), float(epsilon.max()))

    def _places(self, tags: Tags) -> Index:
        return np.array([self._index[tag] for tag in tags], np.int64)

    def _padded(self, counts: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.pad(counts, (0, len(self._index) - len(counts)))

    def _tensors(self, counts: dict[str, NDArray[np.int32]]) -> Tensors:
        tags = np.frombuffer(b"".join(self._index), np.uint8).reshape(-1, TAG)
        content = {f"count {name}": torch.from_numpy(each) for name, each in counts.items()}
        return {"tags": torch.from_numpy(tags.copy()), **content}

    def _load(self, content: Tensors) -> None:
        joined = content.pop("tags").numpy().tobytes()
        tags = [joined[start : start + TAG] for start in range(0, len(joined), TAG)]
        self._index = {tag: place for place, tag in enumerate(tags)}
        self._counts = {name.removeprefix("count "): each.numpy() for name, each in content.items()}

    def _read_key(self, *, recorded: bool) -> bytes:
        if self._key_path.exists():
            key = self._key_path.read_bytes()
            if len(key) == 32:
                return key
            raise IntegrityError(f"{self._key_path} does not have exactly 32 bytes", _LOST)
        if recorded:
            raise IntegrityError(
                f"{self._key_path} is missing, but the ledger that needs this key exists", _LOST
            )
        make_folder(self._key_path.parent)
        key = self._entropy(32)
        write_atomically(self._key_path, key)
        return key


def _counted(
    counts: Mapping[str, NDArray[np.int32]], kind: str
) -> Iterator[tuple[Mechanism, NDArray[np.int32]]]:
    """The mechanisms that count as ``kind``, each with the number of releases of every row."""
    for name, each in counts.items():
        mechanism = Mechanism(**json.loads(name))
        if mechanism.kind in TOGETHER[kind]:
            yield mechanism, each
