"""The kept model of a party: sealed checkpoints, some of which are versions of the model.

    models/000007.sealed   one line of JSON (number, run, party, format, architecture, version),
                           then the sealed state of the party

A *version* is the state after a training or after a request. A request that is carried out starts
from the newest version, and its checkpoints follow in the same folder. After a request, all earlier
files are erased: their keys are destroyed first, then the files.
"""

import json
import re
import zlib
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from safetensors import SafetensorError
from safetensors.torch import load, save

from parties.common.atomic_file import make_folder, sync_folder, write_atomically
from parties.common.errors import IntegrityError, StorageError
from parties.session.checkpoint import RETAINED, CheckpointContent
from parties.session.handshake import NO_CHECKPOINTS, CheckpointOffer
from parties.session.store.sealing import KeyFile, seal, unseal
from protocol.dataclass_codec import NOT_SENT

FOLDER, SUFFIX = "models", ".sealed"
FORMAT = 1
_NAME = re.compile(r"\d{6,12}" + re.escape(SUFFIX))
_BETWEEN = "\n"  # between the name of a group of tensors and the name of a tensor
RESTORE = "restore the folder and the key file from the same backup, or train again"


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What made a version of the model."""

    made_by: Literal["training", "requests"]
    made_at: str  # time in UTC, ISO 8601, seconds
    # Number of the version before; None for a training that began with new weights.
    parent: int | None = None
    requests: tuple[str, ...] = ()  # the requests that were carried out
    method: str | None = None  # the unlearning method; None for a training
    # What this party alone knows of the version, as JSON: digests of its part of the model before
    # and after, what it deleted, and the results that the active party reports.
    own: Annotated[dict[str, Any], NOT_SENT] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the store, without its sealed content."""

    number: int
    size: int  # bytes
    run: bytes = b""  # the training run, 16 bytes; empty if the file cannot be read
    # What made the version; None: a checkpoint of a request that is being carried out, or a file
    # that cannot be read.
    version: VersionFacts | None = None
    fault: str = ""  # why the file cannot be read; empty if it can

    @property
    def readable(self) -> bool:
        """Whether the file is intact and its key exists."""
        return not self.fault


@dataclass(frozen=True, slots=True)
class _Checked:
    """A file that was decrypted once, as long as neither the file nor its key changes."""

    stat: tuple[int, ...]  # of the file
    key: bytes  # SHA-256 of the key
    facts: dict[str, Any]


class ModelStore:
    """The sealed checkpoints and versions of one party; it is used as its checkpoints.

    Attributes:
        sealed: whether the files are encrypted.

    Args:
        state: the party's folder.
        party: name of the party.
        architecture: keys of the agreement that stay the same while the model is kept, as JSON.
        keys: the party's keys.
    """

    sealed: bool = True

    def __init__(
        self, state: Path, party: str, architecture: Mapping[str, Any], keys: KeyFile
    ) -> None:
        self.folder, self.party, self._keys = state / FOLDER, party, keys
        self._architecture = json.dumps(architecture, sort_keys=True)
        self._checked: dict[int, _Checked] = {}

    # --- reading ---------------------------------------------------------------------------------

    def files(self) -> list[StoredFile]:
        """Return all files of the store, oldest first, also those that cannot be read.

        A file is decrypted once; later calls compare its size and its times with those of then.

        Raises:
            StorageError: the folder or the key file cannot be read.
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        keys, destroyed = self._keys.all(), self._keys.destroyed
        return [self._stored_file(path, keys, destroyed) for path in self._paths()]

    def contents(self) -> list[tuple[int, str]]:
        """Return the number of each file, and whether it is a model or a checkpoint."""
        return [(each.number, "model" if each.version else "checkpoint") for each in self.files()]

    def newest_version(self) -> StoredFile | None:
        """Return the newest version that can be read; None if no model is kept."""
        found = [each for each in self.files() if each.version and each.readable]
        return found[-1] if found else None

    def offer(self) -> CheckpointOffer:
        """Return the undamaged checkpoints from which this party can resume.

        Raises:
            StorageError: the model was trained with another architecture.
            IntegrityError: every file is damaged, or belongs to another party or version of vfl.
        """
        stored = self.files()
        whole = [each for each in stored if each.readable]
        if stored and not whole:
            listed = "; ".join(f"{self._path(each.number).name}: {each.fault}" for each in stored)
            raise IntegrityError(f"no file in {self.folder} can be read: {listed:.400}", RESTORE)
        if not whole:
            return NO_CHECKPOINTS
        newest = whole[-1]
        self._check_architecture(self._checked[newest.number].facts["architecture"])
        same_run = tuple(each.number for each in whole if each.run == newest.run)
        return CheckpointOffer(newest.run, same_run, stored[-1].number)

    def require(self) -> None:
        """Check that a model is kept.

        Raises:
            StorageError: no model is kept.
        """
        if not self.offer().numbers:
            raise StorageError(
                f"no model is kept in {self.folder}",
                "train first; with requests.keep = 'nothing' no later request can be carried out",
            )

    def read(self, number: int) -> CheckpointContent:
        """Return the content of a file that ``offer`` lists.

        Raises:
            IntegrityError: the file is damaged, or its key is gone.
        """
        key = self._keys.get(_key_name(number))
        opened = None if key is None else self._opened(number, key)
        content = None if opened is None else _unpack(opened[1])
        if content is None:
            self._checked.pop(number, None)  # the next offer leaves the file out
            raise IntegrityError(f"version {number} of {self.party} cannot be read", RESTORE)
        return content

    def sealed_file(self, number: int) -> tuple[Path, str]:
        """Return the path of the file ``number``, and the name of its key."""
        return self._path(number), _key_name(number)

    def facts(self, number: int) -> VersionFacts | None:
        """Return what made the version ``number``; None for a checkpoint between versions."""
        return next((each.version for each in self.files() if each.number == number), None)

    def architecture(self, number: int) -> dict[str, Any]:
        """Return the keys of the agreement with which the file ``number`` was written, as JSON.

        Raises:
            IntegrityError: the file cannot be read.
        """
        if not any(each.number == number and each.readable for each in self.files()):
            raise IntegrityError(f"version {number} of {self.party} cannot be read", RESTORE)
        found: dict[str, Any] = json.loads(self._checked[number].facts["architecture"])
        return found

    # --- writing ---------------------------------------------------------------------------------

    def write(
        self,
        number: int,
        run: bytes,
        content: CheckpointContent,
        version: VersionFacts | None = None,
    ) -> None:
        """Write a checkpoint or a version; checkpoints that are no longer needed are erased.

        Raises:
            StorageError: the file cannot be written; the earlier files stay.
        """
        facts: dict[str, Any] = {
            "format": FORMAT,
            "number": number,
            "run": run.hex(),
            "party": self.party,
            "architecture": self._architecture,
            "version": None if version is None else asdict(version),
        }
        line = json.dumps(facts, sort_keys=True).encode() + b"\n"
        key = self._keys.create(_key_name(number))
        try:
            make_folder(self.folder)
        except OSError as error:
            raise StorageError(f"cannot use the folder {self.folder}: {error.strerror}") from error
        write_atomically(self._path(number), line + seal(key, _pack(content), line))
        stat, digest = _stat(self._path(number)), sha256(key).digest()
        self._checked[number] = _Checked(stat, digest, json.loads(line))
        self.prune(number - RETAINED + 1)

    def prune(
        self,
        oldest: int,
        newest: float = float("inf"),
        *,
        versions: bool = False,
        keep: Container[int] = (),
    ) -> None:
        """Erase checkpoints numbered below ``oldest``, and all files numbered above ``newest``.

        Versions below ``oldest``, and files that cannot be read, stay unless ``versions`` is true.
        Files numbered ``keep`` stay in any case.
        """
        gone = [
            each.number
            for each in self.files()
            if each.number not in keep
            and (
                each.number > newest
                or (each.number < oldest and (versions or (each.readable and not each.version)))
            )
        ]
        self._erase(gone)

    def clear(self) -> None:
        """Keep everything: a session that ends leaves the model as it is."""

    def erase(self, number: int) -> None:
        """Erase the file ``number``: its key first."""
        self._erase([number])

    def recover(self) -> list[str]:
        """Finish what an earlier process began; only one process at a time may call this.

        Returns:
            A sentence for each file that was removed because its key had been destroyed before the
            process ended, and for each file that cannot be read.

        Raises:
            StorageError: a file cannot be removed.
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        for path in self.folder.glob(".*.tmp"):  # of a process that was killed while it wrote
            path.unlink(missing_ok=True)
        destroyed = self._keys.destroyed
        left = [
            each.number
            for each in self.files()
            if not each.readable and _key_name(each.number) in destroyed
        ]
        self._erase(left)
        return [
            f"removed {self._path(number).name}: its key was destroyed, but not yet the file"
            for number in left
        ] + [
            f"{self._path(each.number).name} cannot be read: {each.fault}"
            for each in self.files()
            if not each.readable
        ]

    def next_number(self) -> int:
        """Return a number that is larger than that of every file."""
        return 1 + max((int(path.stem) for path in self._paths()), default=0)

    def _erase(self, numbers: list[int]) -> None:
        """Destroy the keys of files, then remove the files."""
        if not numbers:
            return
        kept = {_key_name(int(path.stem)) for path in self._paths()}
        erased = [name for name in self._keys.destroyed if name not in kept]
        self._keys.destroy(*map(_key_name, numbers), erased=erased)
        try:
            for number in numbers:
                self._path(number).unlink(missing_ok=True)
                self._checked.pop(number, None)
            sync_folder(self.folder)
        except OSError as error:
            raise StorageError(
                f"cannot remove a file in {self.folder}: {error.strerror}",
                "its key is destroyed; the next start removes the file",
            ) from error

    # --- files -----------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        try:
            found = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
            found = [path for path in found if path == self._path(int(path.stem))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"cannot read the folder {self.folder}: {error.strerror}") from error
        return sorted(found, key=lambda path: int(path.stem))

    def _stored_file(
        self, path: Path, keys: Mapping[str, bytes], destroyed: frozenset[str]
    ) -> StoredFile:
        number = int(path.stem)
        name, size = _key_name(number), _stat(path)[0]
        if name not in keys:
            why = "was destroyed" if name in destroyed else "is not in the key file"
            return StoredFile(number, size, fault=f"its key {why}")
        facts = self._facts(path, number, keys[name])
        if facts is None:
            return StoredFile(number, size, fault="it is damaged, or its key belongs to another")
        if facts["format"] != FORMAT:
            fault = f"it has format {facts['format']}; expected {FORMAT}"
            return StoredFile(number, size, fault=fault)
        if facts["party"] != self.party:
            fault = f"it is the model of the party {facts['party']}; expected that of {self.party}"
            return StoredFile(number, size, fault=fault)
        run, version = bytes.fromhex(facts["run"]), _version(facts["version"])
        return StoredFile(number, size, run, version)

    def _facts(self, path: Path, number: int, key: bytes) -> dict[str, Any] | None:
        """The first line of an intact file; None if it is damaged or sealed with another key."""
        stat, digest = _stat(path), sha256(key).digest()
        known = self._checked.get(number)
        if known is None or (known.stat, known.key) != (stat, digest):
            self._checked.pop(number, None)
            opened = self._opened(number, key)
            if opened is None:
                return None
            known = self._checked[number] = _Checked(stat, digest, opened[0])
        return known.facts

    def _opened(self, number: int, key: bytes) -> tuple[dict[str, Any], bytes] | None:
        """The first line and the content of a file; None if they are not what was sealed."""
        try:
            line, newline, sealed = self._path(number).read_bytes().partition(b"\n")
        except OSError:
            return None
        content = unseal(key, sealed, line + newline)
        if content is None:
            return None
        facts: dict[str, Any] = json.loads(line)
        return (facts, content) if facts["number"] == number else None

    def _check_architecture(self, stored: str) -> None:
        ours, theirs = json.loads(self._architecture), json.loads(stored)
        differing = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
        if differing:
            raise StorageError(
                f"the model in {self.folder} was trained with another agreement: "
                f"{', '.join(differing)} differ",
                "use the agreement of the training, or train again",
            )

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}{SUFFIX}"


class _Agreement(Protocol):
    """An agreement of any mode."""

    seed: int

    @property
    def architecture(self) -> dict[str, Any]:
        """Return the keys that stay the same while a model is kept, as JSON."""


def model_store(state: Path, name: str, agreement: _Agreement, keys: KeyFile) -> ModelStore:
    """Return the store in the folder ``state`` of the party ``name``."""
    return ModelStore(state, name, agreement.architecture | {"seed": agreement.seed}, keys)


def _stat(path: Path) -> tuple[int, ...]:
    """Size, inode and times of a file: a write changes at least one of them; zeros if absent."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0, 0)
    return (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _key_name(number: int) -> str:
    return f"model {number}"


def _version(facts: Any) -> VersionFacts | None:
    if facts is None:
        return None
    return VersionFacts(**facts | {"requests": tuple(facts["requests"])})


def _pack(content: CheckpointContent) -> bytes:
    """JSON values and tensors as bytes; the tensors are in the format of safetensors."""
    tensors = {
        f"{group}{_BETWEEN}{name}": tensor.cpu().contiguous()
        for group, part in content.tensors.items()
        for name, tensor in part.items()
    }
    values = {"values": content.values, "groups": list(content.tensors)}
    text = json.dumps(values, sort_keys=True).encode()
    return zlib.compress(len(text).to_bytes(8, "big") + text + save(tensors))


def _unpack(content: bytes) -> CheckpointContent | None:
    try:
        content = zlib.decompress(content)
        size = int.from_bytes(content[:8], "big")
        values = json.loads(content[8 : 8 + size])
        found = load(content[8 + size :])
        tensors: dict[str, Any] = {group: {} for group in values["groups"]}
        for whole, tensor in found.items():
            group, _, name = whole.partition(_BETWEEN)
            tensors[group][name] = tensor
        return CheckpointContent(values["values"], tensors)
    except (ValueError, KeyError, SafetensorError, zlib.error):
        return None
