"""Where a party writes: its folders and the temporary one."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from parties.doctor.check import Finding, Looked, ok, trouble, warning
from parties.report import METRICS

_SCARCE, _LITTLE = 100 << 20, 2 << 30  # bytes free
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "afs", "ceph")


def check_places(examined: Looked) -> Iterator[Finding]:
    """State and out folder: writable, lockable, local, roomy, closed to others."""
    yield from _folder("state folder", examined.state)
    if not examined.active:
        return
    shared = examined.state.parent
    yield from _folder("out folder", shared)
    if is_there(shared / METRICS):
        yield warning(
            "out folder",
            f"{shared} holds the report of an earlier run, which the next one replaces",
            "move it away, or give another --out",
        )


def _folder(subject: str, folder: Path) -> Iterator[Finding]:
    there = next(each for each in (folder, *folder.absolute().parents) if is_there(each))
    try:
        _try_to_write(there)
    except OSError as error:
        reason = f"{there} cannot be written to or locked: {error.strerror or error}"
        yield trouble(subject, reason, "choose another --out, or give it to this account")
        return
    free, kind = shutil.disk_usage(there).free, _file_system(there)
    if free < _SCARCE:
        yield trouble(subject, f"{there} has {free >> 20} MiB left", "make room")
    elif free < _LITTLE:
        yield warning(subject, f"{there} has {free >> 20} MiB left", "2 GiB let every run end")
    elif kind in _REMOTE:
        yield warning(subject, f"{there} lies on {kind}", "a local disk keeps locks and renames")
    elif there == folder and folder.stat().st_mode & 0o007:
        yield warning(subject, f"every account may look into {folder}", f"chmod o= {folder}")
    else:
        yield ok(subject, f"{folder}: writable, locks work, {free / 1e9:.0f} GB free")


def is_there(path: Path) -> bool:
    """Whether this account sees something there."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _try_to_write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _file_system(folder: Path) -> str:
    """The kind of file system under a folder, as Linux tells it; empty elsewhere."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    full, best = folder.resolve(), ("", "")
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if full.is_relative_to(point) and len(point) >= len(best[0]):
            best = point, after.split()[0]
    return best[1]


def check_temporary() -> Iterator[Finding]:
    """The curve library of the intersection is unpacked into the temporary folder and run there."""
    subject = "temporary folder"
    try:
        folder = Path(tempfile.gettempdir())
        refuses = os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError as error:
        yield trouble(subject, f"no temporary folder: {error.strerror}", "set TMPDIR to one")
        return
    if refuses:
        yield trouble(
            subject,
            f"{folder} is mounted noexec, and rbcl unpacks a library there",
            "set TMPDIR to a folder of this account on a file system with exec",
        )
    else:
        yield ok(subject, f"{folder} may hold libraries (rbcl unpacks one)")
