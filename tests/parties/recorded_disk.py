"""The files of a process at each moment of its life, and what a loss of power leaves of them.

``strace`` records every call that changes a file. A disk replays the calls and keeps, for each file
and each folder, what the last ``fsync`` made durable, and what was changed since.

The model is that of POSIX, stricter than most file systems: ``fsync`` of a file makes its content
durable but not its name, ``fsync`` of a folder makes its names durable, and without it any part of
what was changed may be lost, in any order. A write is torn at 512 bytes, a name never.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import TypeAlias

CALLS = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,write,pwrite64,writev,pwritev,pwritev2,ftruncate,"
    "truncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,"
    "mkdirat,link,linkat,symlink,symlinkat,copy_file_range,sendfile"
)
SECTOR = 512  # bytes that a disk writes as a whole
NO_DATA = ("-shm",)  # ends of names of files that SQLite makes anew after a crash
Files: TypeAlias = dict[str, bytes | None]  # content by path; None is a folder

_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(\S*).*?(?:<(\d+\.\d+)>)?$")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_FD = re.compile(r"(AT_FDCWD|\d+)(?:<([^>]*)>(\(deleted\))?)?")


@dataclass(frozen=True, slots=True)
class Call:
    """One call that changed or synchronised something, at the time at which it returned."""

    time: float
    name: str
    arguments: tuple[str, ...]
    result: int

    def writes(self, text: bytes, path: Path) -> bool:
        """Whether the call writes ``text``, as a part, to the file ``path``."""
        where = "".join(f"\\x{each:02x}" for each in str(path.resolve()).encode())
        return (
            self.name == "write"
            and f"<{where}>" in self.arguments[0]
            and text in _bytes(self.arguments[1])
        )


def record_own_calls(log: Path) -> None:
    """Let ``strace`` record this process and all its later threads, from now on."""
    messages = log.with_suffix(".strace")
    with messages.open("wb") as output:
        tracer = subprocess.Popen(
            ["strace", "-f", "-ttt", "-T", "-y", "-xx", "-s", "100000000", "-o", str(log),
             "-e", f"trace={CALLS}", "-p", str(os.getpid())],
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    deadline = monotonic() + 30
    while b"attached" not in messages.read_bytes():
        ended = tracer.poll() is not None or monotonic() > deadline
        assert not ended, messages.read_text()
        sleep(0.01)


def wait_for_record(log: Path) -> None:
    """Wait until ``strace`` has written the end of a process.

    Raises:
        AssertionError: the record does not end.
    """
    deadline = monotonic() + 60
    while "+++ exited" not in log.read_text()[-200:]:
        assert monotonic() < deadline, f"{log} does not end"
        sleep(0.05)


def may_trace(folder: Path) -> bool:
    """Whether ``strace`` exists and may record a process."""
    try:
        done = subprocess.run(
            ["strace", "-o", str(folder / "strace.log"), "true"],
            capture_output=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return False
    return done.returncode == 0


def read_calls(log: Path) -> list[Call]:
    """Read the record of ``strace``: calls that succeeded, in the order in which they returned."""
    waiting, found = dict[str, tuple[float, str]](), list[Call]()
    for line in log.read_text().splitlines():
        process, time, text = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        began = float(time)
        if text.endswith("<unfinished ...>"):
            waiting[process] = began, text.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := _RESUMED.match(text):
            began, start = waiting.pop(process)
            text = start + resumed[1]
        if call := _CALL.fullmatch(text):
            name, arguments, result, _, duration = call.groups()
            if result != "?" and int(result) >= 0:
                values = tuple(_arguments(arguments))
                found.append(Call(began + float(duration or 0), name, values, int(result)))
    return sorted(found, key=lambda call: call.time)


def _arguments(text: str) -> Iterator[str]:
    """Split the arguments of a call; strings are hexadecimal, so they contain no comma."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        if letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def _bytes(text: str) -> bytes:
    """The bytes of a string or of a path as strace prints them, ``"\\x61"`` or ``\\x61``."""
    assert not text.endswith("..."), "strace has cut a string"
    return bytes.fromhex(text.strip('"').replace("\\x", ""))


@dataclass(eq=False)
class _File:
    """A file: its durable content, its content, and the changes since its last ``fsync``."""

    durable: bytes = b""
    content: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: cut there

    def change(self, at: int, written: bytes | None) -> None:
        self.changes.append((at, written))
        _apply(self.content, at, written)

    def torn(self, random: Random) -> bytes:
        """The durable content with a part of the changes."""
        found = bytearray(self.durable)
        for at, written in self.changes:
            if written is None:
                if random.random() < 0.5:
                    _apply(found, at, None)
                continue
            end = at + len(written)
            start = at
            while start < end:
                stop = min(end, (start // SECTOR + 1) * SECTOR)
                if random.random() < 0.5:
                    _apply(found, start, written[start - at : stop - at])
                start = stop
        return bytes(found)


def _apply(content: bytearray, at: int, written: bytes | None) -> None:
    """Write into ``content``, or set its length."""
    end = at if written is None else at + len(written)
    content.extend(bytes(max(0, (at if written is None else end) - len(content))))
    if written is None:
        del content[at:]
    else:
        content[at:end] = written


@dataclass(eq=False)
class _Folder:
    """A folder: its durable names, and its names."""

    durable: dict[str, "_Node"] = field(default_factory=dict)
    names: dict[str, "_Node"] = field(default_factory=dict)


_Node: TypeAlias = _File | _Folder


class Loss:
    """What a loss of power leaves: by default only what is durable.

    Args:
        names: whether changed names survive.
        data: whether changed content survives.
        random: decides for each name and sector, instead of ``names`` and ``data``.
    """

    def __init__(
        self, *, names: bool = False, data: bool = False, random: Random | None = None
    ) -> None:
        self._names, self._data, self._random = names, data, random

    def content(self, file: _File) -> bytes:
        if self._random is not None:
            return file.torn(self._random)
        return bytes(file.content) if self._data else file.durable

    def names(self, folder: _Folder) -> dict[str, _Node]:
        if self._random is None:
            return folder.names if self._names else folder.durable
        found = {}
        for name in sorted(folder.names.keys() | folder.durable.keys()):
            old, new = folder.durable.get(name), folder.names.get(name)
            node = old if self._random.random() < 0.5 else new
            if node is not None:
                found[name] = node
        return found


NO_LOSS = Loss(names=True, data=True)


class RecordedDisk:
    """One folder of a recorded process, at a moment that only moves forward.

    Args:
        folder: the folder; other files are ignored.
        start: the files before the recording, all of them durable.
        calls: the recorded calls.
        ignored: ``fsync`` of a file whose path contains one of these texts counts for nothing, as
            if the process had not called it.
    """

    def __init__(
        self, folder: Path, start: Files, calls: Iterable[Call], ignored: Sequence[str] = ()
    ) -> None:
        self._ignored = ignored
        self._top, self._root = str(folder.resolve()), _Folder()
        self._calls, self._next = list(calls), 0
        self._open: dict[int, _Node] = {}
        for path, content in start.items():
            self._put(path, content)

    def _put(self, path: str, content: bytes | None) -> None:
        *folders, name = path.split("/")
        where = self._root
        for each in folders:
            where = where.names[each]  # type: ignore[assignment]
        made = _Folder() if content is None else _File(content, bytearray(content))
        where.names[name] = where.durable[name] = made

    def synchronisations(self) -> list[float]:
        """The times at which the calls of ``fsync`` for files of the folder returned."""
        return [
            call.time
            for call in self._calls
            if call.name in ("fsync", "fdatasync") and self._inside(self._fd(call.arguments[0])[1])
        ]

    def advance(self, time: float, *, inclusive: bool) -> None:
        """Replay the calls that returned before ``time``, or at it."""
        while self._next < len(self._calls):
            call = self._calls[self._next]
            if call.time > time or (call.time == time and not inclusive):
                return
            self._next += 1
            self._replay(call)

    def files(self, loss: Loss) -> Files:
        """The files after a loss of power now."""
        found: Files = {}
        self._collect(self._root, "", loss, found)
        return found

    def _collect(self, folder: _Folder, path: str, loss: Loss, found: Files) -> None:
        for name, node in sorted(loss.names(folder).items()):
            if name.endswith(NO_DATA):
                continue
            if isinstance(node, _File):
                found[path + name] = loss.content(node)
            else:
                found[path + name] = None
                self._collect(node, f"{path}{name}/", loss, found)

    # --- calls -----------------------------------------------------------------------------------

    def _replay(self, call: Call) -> None:
        name, given = call.name, call.arguments
        if name in ("open", "openat", "creat"):
            self._replay_open(call)
        elif name == "close":
            self._open.pop(self._fd(given[0])[0], None)
        elif name in ("dup", "dup2", "dup3", "fcntl"):
            self._replay_dup(call)
        elif name in ("fsync", "fdatasync"):
            number, path = self._fd(given[0])
            if not any(each in path for each in self._ignored):
                self._replay_sync(self._open.get(number))
        elif name in ("rename", "renameat", "renameat2"):
            old, new = given[:2], given[2:4]
            if name == "rename":
                old, new = given[:1], given[1:2]
            self._replay_rename(self._path(*old), self._path(*new))
        elif name in ("unlink", "unlinkat", "rmdir"):
            self._replay_unlink(self._path(*given[: 2 if name == "unlinkat" else 1]))
        elif name in ("mkdir", "mkdirat"):
            self._replay_mkdir(self._path(*given[: 2 if name == "mkdirat" else 1]))
        else:
            self._replay_write(call)

    def _replay_open(self, call: Call) -> None:
        fd, given = call.result, call.arguments
        path = self._path(*given[: 2 if call.name == "openat" else 1])
        self._open.pop(fd, None)
        if path is None:
            return
        if path == "":
            self._open[fd] = self._root
            return
        where, name = self._find(path)
        node = where.names.get(name)
        if node is None:
            node = where.names[name] = _File()
        self._open[fd] = node
        if isinstance(node, _File) and "O_TRUNC" in "".join(given[1:]):
            node.change(0, None)

    def _replay_dup(self, call: Call) -> None:
        duplicates = call.name != "fcntl" or call.arguments[1].startswith("F_DUPFD")
        node = self._open.get(self._fd(call.arguments[0])[0])
        if duplicates and node is not None:
            self._open[call.result] = node

    def _replay_sync(self, node: _Node | None) -> None:
        if isinstance(node, _File):
            node.durable, node.changes = bytes(node.content), []
        elif node is not None:
            node.durable = dict(node.names)

    def _replay_rename(self, old: str | None, new: str | None) -> None:
        assert (old is None) is (new is None), f"{old} was moved to {new}"
        if old is not None and new is not None:
            here, name = self._find(old)
            there, other = self._find(new)
            there.names[other] = here.names.pop(name)

    def _replay_unlink(self, path: str | None) -> None:
        if path is not None:
            where, name = self._find(path)
            del where.names[name]

    def _replay_mkdir(self, path: str | None) -> None:
        if path is not None:
            where, name = self._find(path)
            where.names[name] = _Folder()

    def _replay_write(self, call: Call) -> None:
        node = self._open.get(self._fd(call.arguments[0])[0])
        if node is None:
            return
        assert isinstance(node, _File)
        if call.name == "ftruncate":
            node.change(int(call.arguments[1]), None)
        elif call.name == "pwrite64":
            node.change(int(call.arguments[3]), _bytes(call.arguments[1])[: call.result])
        elif call.name == "write":  # Python and SQLite write files from their start to their end
            node.change(len(node.content), _bytes(call.arguments[1])[: call.result])
        else:
            raise AssertionError(f"{call.name} is not expected in the folder of a party")

    # --- paths -----------------------------------------------------------------------------------

    def _fd(self, text: str) -> tuple[int, str]:
        """Number and path of a descriptor, for example ``3</tmp/file>``."""
        found = _FD.match(text)
        assert found, text
        number = -1 if found[1] == "AT_FDCWD" else int(found[1])
        path = found[2] or ""
        return number, _bytes(path).decode() if path.startswith("\\x") else path

    def _path(self, *given: str) -> str | None:
        """The path inside the folder, of a path or of a descriptor and a path; None: elsewhere."""
        path = _bytes(given[-1]).decode()
        if len(given) > 1:
            path = str(Path(self._fd(given[0])[1]) / path)
        path = os.path.normpath(path)
        if path == self._top:
            return ""
        return path[len(self._top) + 1 :] if self._inside(path) else None

    def _inside(self, path: str) -> bool:
        return path == self._top or path.startswith(self._top + "/")

    def _find(self, path: str) -> tuple[_Folder, str]:
        """The folder of a path, and its name in the folder."""
        *folders, name = path.split("/")
        where = self._root
        for each in folders:
            where = where.names[each]  # type: ignore[assignment]
        return where, name


def read_files(folder: Path) -> Files:
    """The files of a folder by path, without those that SQLite makes anew."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith(NO_DATA)
    }


def write_files(folder: Path, files: Files) -> None:
    """Write ``files`` into an absent folder, for this account only."""
    folder.mkdir(parents=True, mode=0o700)
    for path, content in files.items():
        if content is None:
            (folder / path).mkdir(mode=0o700)
        else:
            (folder / path).write_bytes(content)
            (folder / path).chmod(0o600)
