"""Checkpoints: the one place where a party's state outlives its process.

    checkpoints/000007.json          manifest: whose, of which run, plain values, digests of files
    checkpoints/<sha256>.safetensors  tensors, named by their content, so that what did not change
                                      since the last checkpoint is not written again

A manifest is written last; a checkpoint without a whole manifest and all its files does not exist.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from configs.schema import differences
from parties.common.atomic_file import write
from parties.common.errors import IntegrityError, StorageError
from parties.common.json_codec import Tensors
from parties.session.checkpoint_offer import NOTHING, Held

FORMAT = 1
START = 1  # the number before the first of who has learned, or purged, by its first checkpoint
KEPT = 2  # checkpoints: all parties hold the newest but one while the newest is being written


@dataclass(frozen=True, slots=True)
class Content:
    """What a checkpoint holds: values as JSON has them, and groups of tensors."""

    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensors] = field(default_factory=dict)


class Checkpoints:
    """The checkpoints of one party in one folder.

    Args:
        folder: made when the first is written.
        party: whose they are.
        agreement: canonical, without pins, which may be renewed while a run rests.
        data: digest of the party's own data.
    """

    def __init__(self, folder: Path, *, party: str, agreement: str, data: str) -> None:
        self.folder, self.party, self.agreement, self.data = folder, party, agreement, data
        self._sound: set[str] = set()  # digests of files that are what their names say

    def held(self) -> Held:
        """What can be gone on from; damaged checkpoints are passed over.

        Raises:
            StorageError: those that lie here are of another agreement.
            IntegrityError: of another party, other data or another version, or all are damaged.
        """
        found: dict[int, dict[str, Any]] = {}
        manifests = sorted(self.folder.glob("[0-9]*.json"))
        for path in manifests:
            manifest = _manifest(path)
            if manifest is not None and self._whole(manifest):
                found[manifest["number"]] = manifest
        if manifests and not found:
            raise IntegrityError(
                f"every checkpoint in {self.folder} is damaged",
                "restore the folder from a backup, or begin anew with --begin fresh",
            )
        if not found:
            return NOTHING
        newest = found[max(found)]
        if not self._ours(newest):
            return NOTHING
        same = [number for number, each in found.items() if each["run"] == newest["run"]]
        return Held(bytes.fromhex(newest["run"]), tuple(sorted(same)))

    def require(self) -> None:
        """Insist on something to go on from.

        Raises:
            StorageError: there is nothing, or it is of another agreement.
        """
        if not self.held().numbers:
            raise StorageError(
                f"there is no checkpoint in {self.folder} to go on from",
                "leave --begin resume out to begin anew",
            )

    def write(self, number: int, run: bytes, content: Content) -> None:
        """Write a checkpoint whole; those that are not needed any more go.

        Raises:
            StorageError: the file system refuses; the checkpoints before stay.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"cannot use {self.folder}: {error.strerror}") from error
        files = {name: self._store(save(_dense(group))) for name, group in content.tensors.items()}
        manifest = {
            "format": FORMAT,
            "number": number,
            "run": run.hex(),
            "party": self.party,
            "agreement": self.agreement,
            "data": self.data,
            "values": content.values,
            "files": files,
        }
        text = json.dumps(manifest, sort_keys=True)
        sealed = {"sha256": sha256(text.encode()).hexdigest(), "manifest": text}
        write(self._path(number), json.dumps(sealed).encode())
        self.settle(number - KEPT + 1)

    def read(self, number: int) -> Content:
        """The content of a checkpoint that ``held`` named."""
        manifest = _manifest(self._path(number))
        if manifest is None:
            raise IntegrityError(f"checkpoint {number} of {self.party} is damaged")
        files = {name: self._blob(digest) for name, digest in manifest["files"].items()}
        try:
            tensors = {name: load(path.read_bytes()) for name, path in files.items()}
        except (OSError, SafetensorError) as error:
            raise IntegrityError(f"checkpoint {number} of {self.party} is damaged") from error
        return Content(manifest["values"], tensors)

    def settle(self, oldest: int, newest: float = float("inf")) -> None:
        """Remove every checkpoint outside ``oldest`` to ``newest``, and what only they needed."""
        needed: set[str] = set()
        for path in self.folder.glob(".*.tmp"):  # of a process that was killed while it wrote
            path.unlink()
        for path in self.folder.glob("[0-9]*.json"):
            if not oldest <= int(path.stem) <= newest:
                path.unlink()
            elif manifest := _manifest(path):
                needed |= set(manifest["files"].values())
        for path in self.folder.glob("*.safetensors"):
            if path.stem not in needed:
                path.unlink()
                self._sound.discard(path.stem)

    def clear(self) -> None:
        """Remove all."""
        self.settle(1, 0)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _store(self, content: bytes) -> str:
        digest = sha256(content).hexdigest()
        if not self._is_sound(digest):
            write(self._blob(digest), content)
            self._sound.add(digest)
        return digest

    def _whole(self, manifest: Mapping[str, Any]) -> bool:
        return all(self._is_sound(digest) for digest in manifest["files"].values())

    def _is_sound(self, digest: str) -> bool:
        if digest not in self._sound:
            try:
                content = self._blob(digest).read_bytes()
            except OSError:
                return False
            if not compare_digest(sha256(content).hexdigest(), digest):
                return False
            self._sound.add(digest)
        return True

    def _ours(self, manifest: Mapping[str, Any]) -> bool:
        """Whether one can go on from it; nothing was learned yet before the second checkpoint."""
        anew = "begin anew with --begin fresh, which removes them"
        if manifest["format"] != FORMAT:
            raise IntegrityError(
                f"the checkpoints in {self.folder} have format {manifest['format']}, not {FORMAT}",
                f"go on with the version of vfl that wrote them, or {anew}",
            )
        if manifest["party"] != self.party:
            raise IntegrityError(
                f"the checkpoints in {self.folder} are of {manifest['party']}, not {self.party}",
                "name another folder with --out",
            )
        found = differences(self.agreement, manifest["agreement"])
        same = not found and manifest["data"] == self.data
        if manifest["number"] == 1 or same:
            return same
        if found:
            listed = "; ".join(f"{key} was {old!r:.60}, is {new!r:.60}" for key, new, old in found)
            raise StorageError(
                f"an unfinished run in {self.folder} began with another agreement: {listed}",
                f"go on with the agreement that it began with, or {anew}",
            )
        raise IntegrityError(
            f"the data of {self.party} is not what the unfinished run in {self.folder} read",
            f"restore it, or {anew}",
        )

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.json"

    def _blob(self, digest: str) -> Path:
        return self.folder / f"{digest}.safetensors"


def _dense(group: Tensors) -> Tensors:
    """Tensors as the file has them; a party's own module or device may hold them otherwise."""
    return {name: tensor.cpu().contiguous() for name, tensor in group.items()}


def _manifest(path: Path) -> dict[str, Any] | None:
    """The manifest at ``path``; None when it is damaged, or not the one of its number."""
    try:
        sealed = json.loads(path.read_bytes())
        text: str = sealed["manifest"]
        whole = compare_digest(sha256(text.encode()).hexdigest(), sealed["sha256"])
        manifest: dict[str, Any] = json.loads(text)
        named = manifest["number"] == int(path.stem)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if whole and named else None
