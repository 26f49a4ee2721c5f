"""Checkpoints: files with a party's state, from which an interrupted run resumes.

    checkpoints/000007.json           manifest: party, run, JSON values, digests of tensor files
    checkpoints/<sha256>.safetensors  tensors; the digest of the content is the file's name, so that
                                      unchanged tensors are not written again

The manifest is written last. A checkpoint is used only if all its files are intact.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import load, save

from configs.config_file import agreement_differences
from parties.common.atomic_file import make_folder, sync_folder, write_atomically
from parties.common.errors import IntegrityError, StorageError
from parties.common.json_codec import Tensors
from parties.session.handshake import NO_CHECKPOINTS, CheckpointOffer

FORMAT = 3
BEFORE_TRAINING = 1  # number of a checkpoint without any training; a horizontal party writes none
RETAINED = 2  # while some parties write checkpoint n, all parties still have checkpoint n - 1


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """The content of a checkpoint: JSON values, and groups of tensors by name."""

    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensors] = field(default_factory=dict)


class CheckpointStore(Protocol):
    """Where a session writes its checkpoints, and from where it resumes."""

    @property
    def sealed(self) -> bool:
        """Whether the files are encrypted."""

    def offer(self) -> CheckpointOffer:
        """Return the undamaged checkpoints from which this party can resume."""

    def read(self, number: int) -> CheckpointContent:
        """Return the content of a checkpoint that ``offer`` lists."""

    def write(self, number: int, run: bytes, content: CheckpointContent) -> None:
        """Write a checkpoint."""

    def prune(self, oldest: int, newest: float = float("inf")) -> None:
        """Remove checkpoints numbered below ``oldest`` or above ``newest``."""

    def clear(self) -> None:
        """Remove what a finished session does not need."""


class Checkpoints:
    """The checkpoints of one party in one folder.

    Attributes:
        sealed: whether the files are encrypted.

    Args:
        folder: folder of the checkpoints; ``write`` creates the folder if it is absent.
        party: name of the party.
        agreement: the agreement as canonical JSON, without the pinned keys, which may change
            between two starts.
        data: digest of the party's own data.
    """

    sealed: bool = False

    def __init__(self, folder: Path, *, party: str, agreement: str, data: str) -> None:
        self.folder, self.party, self.agreement, self.data = folder, party, agreement, data
        self._verified: set[str] = set()  # digests of files whose content has that digest

    def offer(self) -> CheckpointOffer:
        """Return the undamaged checkpoints from which this party can resume.

        Raises:
            StorageError: the checkpoints belong to another agreement.
            IntegrityError: the checkpoints belong to another party or to other data, the
                checkpoints have another format, or every checkpoint is damaged.
        """
        whole: dict[int, dict[str, Any]] = {}
        manifests = sorted(self.folder.glob("[0-9]*.json"))
        for path in manifests:
            manifest = _manifest(path)
            if manifest is not None and self._has_all_files(manifest):
                whole[manifest["number"]] = manifest
        if manifests and not whole:
            raise IntegrityError(
                f"every checkpoint in {self.folder} is damaged",
                "restore the folder from a backup, or start again with --begin fresh",
            )
        if not whole:
            return NO_CHECKPOINTS
        newest = whole[max(whole)]
        if not self._is_usable(newest):
            return NO_CHECKPOINTS
        same_run = [number for number, each in whole.items() if each["run"] == newest["run"]]
        return CheckpointOffer(bytes.fromhex(newest["run"]), tuple(sorted(same_run)))

    def require(self) -> None:
        """Check that there is a checkpoint to resume from.

        Raises:
            StorageError: there is no checkpoint, or the checkpoints belong to another agreement.
            IntegrityError: every checkpoint is damaged, the checkpoints belong to another party or
                to other data, or the checkpoints have another format.
        """
        if not self.offer().numbers:
            raise StorageError(
                f"no checkpoint in {self.folder} to resume from",
                "omit --begin resume to start from the beginning",
            )

    def write(self, number: int, run: bytes, content: CheckpointContent) -> None:
        """Write a checkpoint, then remove the checkpoints that are no longer needed.

        Raises:
            StorageError: a file cannot be written; the earlier checkpoints stay.
        """
        try:
            make_folder(self.folder)
        except OSError as error:
            raise StorageError(f"cannot use the folder {self.folder}: {error.strerror}") from error
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
        write_atomically(self._path(number), json.dumps(sealed).encode())
        self.prune(number - RETAINED + 1)

    def read(self, number: int) -> CheckpointContent:
        """Return the content of a checkpoint that ``offer`` lists.

        Raises:
            IntegrityError: the checkpoint is damaged.
        """
        manifest = _manifest(self._path(number))
        if manifest is None:
            raise IntegrityError(f"checkpoint {number} of {self.party} is damaged")
        files = {name: self._tensor_file(digest) for name, digest in manifest["files"].items()}
        try:
            tensors = {name: load(path.read_bytes()) for name, path in files.items()}
        except (OSError, SafetensorError) as error:
            raise IntegrityError(f"checkpoint {number} of {self.party} is damaged") from error
        return CheckpointContent(manifest["values"], tensors)

    def prune(self, oldest: int, newest: float = float("inf")) -> None:
        """Remove checkpoints numbered below ``oldest`` or above ``newest``, and unused tensors."""
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
                self._verified.discard(path.stem)
        if self.folder.exists():
            sync_folder(self.folder)

    def clear(self) -> None:
        """Remove all checkpoints and their folder."""
        self.prune(1, 0)
        if self.folder.exists():
            shutil.rmtree(self.folder)
            sync_folder(self.folder.parent)

    def _store(self, content: bytes) -> str:
        digest = sha256(content).hexdigest()
        if not self._is_intact(digest):
            write_atomically(self._tensor_file(digest), content)
            self._verified.add(digest)
        return digest

    def _has_all_files(self, manifest: Mapping[str, Any]) -> bool:
        return all(self._is_intact(digest) for digest in manifest["files"].values())

    def _is_intact(self, digest: str) -> bool:
        if digest not in self._verified:
            try:
                content = self._tensor_file(digest).read_bytes()
            except OSError:
                return False
            if not compare_digest(sha256(content).hexdigest(), digest):
                return False
            self._verified.add(digest)
        return True

    def _is_usable(self, manifest: Mapping[str, Any]) -> bool:
        """Whether to resume from a checkpoint; False for one of other data before any training."""
        restart = "start again with --begin fresh, which removes the checkpoints"
        if manifest["format"] != FORMAT:
            raise IntegrityError(
                f"the checkpoints in {self.folder} have format {manifest['format']}, "
                f"expected {FORMAT}",
                f"resume with the version of vfl that wrote them, or {restart}",
            )
        if manifest["party"] != self.party:
            raise IntegrityError(
                f"the checkpoints in {self.folder} belong to the party {manifest['party']}; "
                f"expected checkpoints of {self.party}",
                "name another folder with --out",
            )
        differences = agreement_differences(self.agreement, manifest["agreement"])
        same = not differences and manifest["data"] == self.data
        if manifest["number"] == BEFORE_TRAINING or same:
            return same
        if differences:
            listed = "; ".join(
                f"{key} was {old!r:.60}, is {new!r:.60}" for key, new, old in differences
            )
            raise StorageError(
                f"an unfinished run in {self.folder} was started with another agreement: {listed}",
                f"resume with the agreement of that run, or {restart}",
            )
        raise IntegrityError(
            f"the unfinished run in {self.folder} used other data of {self.party}, or went on from "
            "another version of the model",
            f"restore the data, give --from as for that run{_base_of(manifest)}, or {restart}",
        )

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.json"

    def _tensor_file(self, digest: str) -> Path:
        return self.folder / f"{digest}.safetensors"


def _base_of(manifest: Mapping[str, Any]) -> str:
    """Return the version from which the unfinished run went on, in brackets; empty without one."""
    base = manifest["data"].partition(" from ")[2]
    return f" ({base})" if base else ""


def _dense(group: Tensors) -> Tensors:
    """Return contiguous tensors in main memory, ``[...]`` each; safetensors requires both."""
    return {name: tensor.cpu().contiguous() for name, tensor in group.items()}


def _manifest(path: Path) -> dict[str, Any] | None:
    """Return the manifest at ``path``; None if damaged, or if its number is not the file's."""
    try:
        sealed = json.loads(path.read_bytes())
        text: str = sealed["manifest"]
        intact = compare_digest(sha256(text.encode()).hexdigest(), sealed["sha256"])
        manifest: dict[str, Any] = json.loads(text)
        number_matches = manifest["number"] == int(path.stem)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if intact and number_matches else None
