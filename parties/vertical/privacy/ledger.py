"""The privacy ledger: how often each row was released, and how; written before anything is sent.

    privacy/key     32 bytes that only this party has: rows stand in the ledger under tags
    privacy/ledger  a tag per row, and for every mechanism how often it released the row

It is no part of a checkpoint and outlives every run in this folder: what was sent cannot be taken
back, neither by a crash, nor by beginning anew, nor by forgetting the row.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hmac import digest as hmac
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from parties.common.atomic_file import write
from parties.common.errors import IntegrityError
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import Index
from parties.vertical.privacy.sealed import read_sealed, write_sealed
from protocol import vfl_pb2

TAG = 16  # bytes
FOLDER = "privacy"
_LOST = "restore the folder from a backup: without it nobody knows what these rows have spent"
Tags = Sequence[bytes]
# The releases that count together with one of each kind: noise without a bound spoils an ε.
TOGETHER = {"once": ("once", "visit"), "visit": ("visit",), "response": ("response",)}


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One way to release a row.

    Attributes:
        kind: ``once`` has an (ε, δ), ``response`` an ε; ``visit`` has neither.
        peer: who gets it, where peers get different things.
        sigma: standard deviation of the noise; 0 for randomised response.
        clip: largest norm of a row; None where there is none.
        epsilon: of randomised response.
    """

    kind: str
    peer: str = ""
    sigma: float = 0.0
    clip: float | None = None
    epsilon: float = 0.0

    @property
    def square(self) -> float:
        """(C/σ)² of one release; infinite where nothing bounds it."""
        if self.kind == "response":
            return 0.0
        bounded = self.kind == "once" and self.clip is not None
        return (self.clip / self.sigma) ** 2 if bounded and self.clip else math.inf


@dataclass(frozen=True, slots=True)
class Spent:
    """What the row released most has spent.

    Attributes:
        releases: how often a row was released.
        square: the sum of (C/σ)² over them; infinite where one of them is bounded by nothing.
        epsilon: the sum over randomised responses.
    """

    releases: int = 0
    square: float = 0.0
    epsilon: float = 0.0


def spent_of(said: vfl_pb2.Spent) -> Spent:
    """What a party says that it has spent."""
    return Spent(said.releases, said.square if said.HasField("square") else math.inf)


class PrivacyLedger:
    """The releases of one party, in the folder ``privacy`` of its own folder."""

    def __init__(self, state: Path, entropy: Callable[[int], bytes]) -> None:
        self._path, self._key_path = state / FOLDER / "ledger", state / FOLDER / "key"
        self._entropy = entropy
        self._place: dict[bytes, int] = {}
        self._counts: dict[str, NDArray[np.int32]] = {}
        found = read_sealed(self._path, _LOST)
        self._key = self._read_key(known=found is not None)
        if found is not None:
            self._load(found)

    def tags(self, ids: Sequence[bytes]) -> list[bytes]:
        """The names of rows here: who lacks our key cannot tell whose they are."""
        return [hmac(self._key, b"row" + identifier, "sha256")[:TAG] for identifier in ids]

    def prints(self, rows: Sequence[bytes]) -> list[bytes]:
        """Digests of what rows hold, by which a changed row is noticed."""
        return [hmac(self._key, b"value" + content, "sha256")[:TAG] for content in rows]

    def charge(
        self, tags: Tags, how: Mechanism, times: Index, allow: Callable[[Spent], None]
    ) -> None:
        """Write down that rows are released ``times`` more often; ``allow`` may refuse it.

        Raises:
            Whatever ``allow`` raises, which is shown what would then be spent; nothing is written.
        """
        before = len(self._place)
        for tag in tags:
            self._place.setdefault(tag, len(self._place))
        grown = {name: self._grown(counts) for name, counts in self._counts.items()}
        name = json.dumps(asdict(how), sort_keys=True)
        counts = grown.setdefault(name, np.zeros(len(self._place), np.int32))
        counts[self._places(tags)] += times.astype(np.int32)
        try:
            allow(self._sum(grown, self._places(tags), how.kind))
        except BaseException:
            for tag in list(self._place)[before:]:
                del self._place[tag]
            raise
        write_sealed(self._path, self._tensors(grown))
        self._counts = grown

    def spent(self, tags: Tags, kind: str) -> Spent:
        """What the row of these that was released most in ways of this kind has spent."""
        known = [tag for tag in tags if tag in self._place]
        return self._sum(self._counts, self._places(known), kind)

    def _sum(self, counts: dict[str, NDArray[np.int32]], places: Index, kind: str) -> Spent:
        releases, square, epsilon = (np.zeros(len(places) + 1) for _ in range(3))
        for name, each in counts.items():
            how, times = Mechanism(**json.loads(name)), each[places]
            if how.kind not in TOGETHER[kind]:
                continue
            releases[1:] += times
            epsilon[1:] += times * how.epsilon
            square[1:][times > 0] += times[times > 0] * how.square
        return Spent(int(releases.max()), float(square.max()), float(epsilon.max()))

    def _places(self, tags: Tags) -> Index:
        return np.array([self._place[tag] for tag in tags], np.int64)

    def _grown(self, counts: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.pad(counts, (0, len(self._place) - len(counts)))

    def _tensors(self, counts: dict[str, NDArray[np.int32]]) -> Tensors:
        tags = np.frombuffer(b"".join(self._place), np.uint8).reshape(-1, TAG)
        found = {f"count {name}": torch.from_numpy(each) for name, each in counts.items()}
        return {"tags": torch.from_numpy(tags.copy()), **found}

    def _load(self, found: Tensors) -> None:
        whole = found.pop("tags").numpy().tobytes()
        tags = [whole[start : start + TAG] for start in range(0, len(whole), TAG)]
        self._place = {tag: place for place, tag in enumerate(tags)}
        self._counts = {name.removeprefix("count "): each.numpy() for name, each in found.items()}

    def _read_key(self, *, known: bool) -> bytes:
        if self._key_path.exists():
            key = self._key_path.read_bytes()
            if len(key) == 32:
                return key
            raise IntegrityError(f"{self._key_path} is damaged", _LOST)
        if known:
            raise IntegrityError(
                f"{self._key_path} is gone, and the ledger beside it is not", _LOST
            )
        self._key_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = self._entropy(32)
        write(self._key_path, key)
        return key
