"""The kept model of a party: sealed checkpoints, some of which are versions of the model.

    models/000007.sealed   one line of JSON (number, run, party, format, architecture, version),
                           then the sealed state of the party

A *version* is the state after a training or after a request. A request that is carried out starts
from the newest version, and its checkpoints follow in the same folder. After a request, all earlier
files are erased: their keys are destroyed first, then the files.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from safetensors import SafetensorError
from safetensors.torch import load, save

from parties.common.atomic_file import write_atomically
from parties.common.errors import IntegrityError, StorageError
from parties.session.checkpoint import RETAINED, CheckpointContent, Checkpoints
from parties.session.handshake import NO_CHECKPOINTS, CheckpointOffer
from parties.session.store.sealing import KeyFile, seal, unseal
from protocol.dataclass_codec import NOT_SENT

FOLDER, SUFFIX = "models", ".sealed"
FORMAT = 1
LONGEST_FACTS = 1 << 20  # bytes
_BETWEEN = "\n"  # between the name of a group of tensors and the name of a tensor
RESTORE = "restore the folder and the key file from the same backup, or train again"


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What made a version of the model."""

    made_by: Literal["training", "requests"]
    made_at: str  # time in UTC, ISO 8601, seconds
    parent: int | None = None  # number of the version before; None for a training
    requests: tuple[str, ...] = ()  # the requests that were carried out
    method: str | None = None  # the unlearning method; None for a training
    # What this party alone knows of the version, as JSON: digests of its part of the model before
    # and after, what it deleted, and the results that the active party reports.
    own: Annotated[dict[str, Any], NOT_SENT] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the store, without its sealed content."""

    number: int
    run: bytes  # the training run, 16 bytes
    size: int  # bytes
    version: VersionFacts | None  # None: a checkpoint of a request that is being carried out
    readable: bool  # whether the key still exists


class ModelStore:
    """The sealed checkpoints and versions of one party; it is used as its ``Checkpoints``.

    Attributes:
        sealed: whether the files are encrypted.

    Args:
        state: the party's folder.
        party: name of the party.
        architecture: keys of the agreement that stay the same while the model is kept, as JSON.
        keys: the party's keys.
    """

    sealed = True

    def __init__(
        self, state: Path, party: str, architecture: Mapping[str, Any], keys: KeyFile
    ) -> None:
        self.folder, self.party, self._keys = state / FOLDER, party, keys
        self._architecture = json.dumps(architecture, sort_keys=True)

    # --- reading ---------------------------------------------------------------------------------

    def files(self) -> list[StoredFile]:
        """Return all files of the store, oldest first; a damaged file is left out."""
        names = set(self._keys.names())
        return [
            StoredFile(
                facts["number"],
                bytes.fromhex(facts["run"]),
                size,
                _version(facts["version"]),
                _key_name(facts["number"]) in names,
            )
            for size, facts in self._facts()
        ]

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
        paths = self._paths()
        whole = {}
        for _, facts in self._facts():
            if self._unsealed(facts["number"]) is not None:
                whole[facts["number"]] = facts
        if paths and not whole:
            raise IntegrityError(f"no file in {self.folder} can be read", RESTORE)
        if not whole:
            return NO_CHECKPOINTS
        newest = whole[max(whole)]
        self._check(newest)
        same_run = [number for number, each in whole.items() if each["run"] == newest["run"]]
        run = bytes.fromhex(newest["run"])
        return CheckpointOffer(run, tuple(sorted(same_run)), self.next_number() - 1)

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
        content = self._unsealed(number)
        if content is None:
            raise IntegrityError(f"version {number} of {self.party} cannot be read", RESTORE)
        return content

    def facts(self, number: int) -> VersionFacts | None:
        """Return what made the version ``number``; None for a checkpoint between versions."""
        found = [each for each in self.files() if each.number == number]
        return found[0].version if found else None

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
        facts = {
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
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"cannot use the folder {self.folder}: {error.strerror}") from error
        self._remove_unfinished()
        write_atomically(self._path(number), line + seal(key, _pack(content), line))
        self.prune(number - RETAINED + 1)

    def prune(self, oldest: int, newest: float = float("inf"), *, versions: bool = False) -> None:
        """Erase checkpoints numbered below ``oldest``, and all files numbered above ``newest``.

        Versions below ``oldest`` stay, unless ``versions`` is true.
        """
        gone = [
            each.number
            for each in self.files()
            if each.number > newest or (each.number < oldest and (versions or each.version is None))
        ]
        self._erase(gone)

    def clear(self) -> None:
        """Keep everything: a session that ends leaves the model as it is."""

    def erase(self, number: int) -> None:
        """Erase the file ``number``: its key first."""
        self._erase([number])

    def next_number(self) -> int:
        """Return a number that is larger than that of every file."""
        return 1 + max((int(path.stem) for path in self._paths()), default=0)

    def _erase(self, numbers: list[int]) -> None:
        self._remove_unfinished()
        self._keys.destroy(*map(_key_name, numbers))
        for number in numbers:
            self._path(number).unlink(missing_ok=True)

    # --- files -----------------------------------------------------------------------------------

    def _remove_unfinished(self) -> None:
        """Remove files of a process that was killed while it wrote.

        Only the process that writes does so: a command that reads the store at the same time would
        remove the file that the other one is writing.
        """
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"[0-9]*{SUFFIX}"))

    def _facts(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Size in bytes and first line of each undamaged file; another process may erase files."""
        for path in self._paths():
            try:
                with path.open("rb") as file:
                    facts = json.loads(file.readline(LONGEST_FACTS))
                    size = os.fstat(file.fileno()).st_size
                if facts["number"] == int(path.stem) and bytes.fromhex(facts["run"]):
                    _version(facts["version"])
                    yield size, facts
            except (OSError, ValueError, KeyError, TypeError):
                continue

    def _unsealed(self, number: int) -> CheckpointContent | None:
        key = self._keys.get(_key_name(number))
        try:
            whole = self._path(number).read_bytes()
        except OSError:
            return None
        line, newline, sealed = whole.partition(b"\n")
        content = None if key is None else unseal(key, sealed, line + newline)
        return None if content is None else _unpack(content)

    def _check(self, facts: Mapping[str, Any]) -> None:
        if facts["format"] != FORMAT:
            raise IntegrityError(
                f"the model in {self.folder} has format {facts['format']}; expected {FORMAT}",
                "use the version of vfl that wrote it",
            )
        if facts["party"] != self.party:
            raise IntegrityError(
                f"{self.folder} contains the model of the party {facts['party']}; expected that of "
                f"{self.party}",
                "name another folder with --out",
            )
        ours, theirs = json.loads(self._architecture), json.loads(facts["architecture"])
        differing = [key for key in ours if ours[key] != theirs.get(key)]
        if differing:
            raise StorageError(
                f"the model in {self.folder} was trained with another agreement: "
                f"{', '.join(differing)} differ",
                "use the agreement of the training, or train again",
            )

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}{SUFFIX}"


CheckpointStore: TypeAlias = Checkpoints | ModelStore  # where a session finds its checkpoints


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
