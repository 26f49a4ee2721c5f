"""Checks of the folders that a party writes to: the state, the out and the temporary folder."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from parties.doctor.check import ExaminedParty, Finding, fail_with, ok, warning
from parties.report import METRICS

_TOO_LITTLE, _LITTLE = 100 << 20, 2 << 30  # free bytes below which the check fails, or warns
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "afs", "ceph")


def check_folders(party: ExaminedParty) -> Iterator[Finding]:
    """Check that each folder is writable, local and private, has space, and that locks work."""
    yield from _folder("state folder", party.state)
    if not party.active:
        return
    shared = party.state.parent
    yield from _folder("out folder", shared)
    if path_exists(shared / METRICS):
        yield warning(
            "out folder",
            f"{shared} holds the report of an earlier run, which the next run replaces",
            "move the folder, or give another --out",
        )


def _folder(check: str, folder: Path) -> Iterator[Finding]:
    existing = next(each for each in (folder, *folder.absolute().parents) if path_exists(each))
    try:
        _try_to_write(existing)
    except OSError as error:
        reason = f"{existing} cannot be written to or locked: {error.strerror or error}"
        yield fail_with(check, reason, "choose another --out, or make this account its owner")
        return
    free, kind = shutil.disk_usage(existing).free, _file_system(existing)
    if free < _TOO_LITTLE:
        yield fail_with(check, f"{existing} has {free >> 20} MiB left", "free disk space")
    elif free < _LITTLE:
        yield warning(check, f"{existing} has {free >> 20} MiB left", "2 GiB suffice for any run")
    elif kind in _REMOTE:
        yield warning(
            check, f"{existing} lies on {kind}", "use a local disk, where locks are reliable"
        )
    elif existing == folder and folder.stat().st_mode & 0o007:
        yield warning(check, f"other accounts may enter {folder}", f"chmod o= {folder}")
    else:
        yield ok(check, f"{folder}: writable, locks work, {free / 1e9:.0f} GB free")


def path_exists(path: Path) -> bool:
    """Return whether the path exists and this account has access to the path."""
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
    """Return the type of the file system of a folder, such as ext4; empty except on Linux."""
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


def check_temporary_folder() -> Iterator[Finding]:
    """Check that a program can load libraries from the temporary folder.

    The package rbcl, which computes on the elliptic curve of the private set intersection, unpacks
    a library into this folder.
    """
    check = "temporary folder"
    try:
        folder = Path(tempfile.gettempdir())
        refuses = os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError as error:
        yield fail_with(
            check, f"no temporary folder: {error.strerror}", "set TMPDIR to an existing folder"
        )
        return
    if refuses:
        yield fail_with(
            check,
            f"{folder} is mounted noexec, and rbcl unpacks a library there",
            "set TMPDIR to a folder of this account on a file system with exec",
        )
    else:
        yield ok(check, f"libraries in {folder} can be loaded (rbcl unpacks one)")
