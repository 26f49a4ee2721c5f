"""A party's folder in one encrypted file: a backup, or the way to another machine.

    FILE   one line of JSON (format, federation, party, time, newest version), then all files that
           the party needs, compressed and encrypted under a transfer key of its own

The file contains the newest version of the model with its key, the journal of requests, the
receipts, and the other files of the folder. Earlier versions stay behind, because they may know
forgotten rows. An import replaces nothing: it writes a folder that does not exist yet.
"""

import io
import json
import os
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from configs.agreement import VerticalAgreement
from parties.common.atomic_file import make_folder, sync_folder, write_atomically
from parties.common.errors import IntegrityError, StorageError
from parties.requests.database import RequestDatabase
from parties.requests.journal import JOURNAL
from parties.session.store.model_store import FOLDER as MODELS
from parties.session.store.model_store import model_store
from parties.session.store.sealing import KEY_BYTES, KEYS, KeyFile, seal, unseal
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.resume import CHECKPOINTS

FORMAT: Final = 1
LONGEST_HEADER: Final = 4096  # bytes
_MODEL_KEY: Final = re.compile(r"model \d+")
_LEFT_OUT: Final = {MODELS, CHECKPOINTS, PSI}  # folders whose files are chosen, or made again


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """The readable first line of an exported file."""

    federation: str
    party: str
    made_at: str  # time in UTC, ISO 8601, seconds
    version: int  # number of the newest version of the model
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Transferred:
    """What an export or an import has carried over."""

    facts: ExportFacts
    files: int
    events: int  # of the journal of requests


def export_party(
    state: Path,
    facts: ExportFacts,
    agreement: VerticalAgreement,
    keys: KeyFile,
    target: Path,
    transfer_key: Path,
) -> Transferred:
    """Write what the party in the folder ``state`` needs to ``target``, encrypted.

    The caller holds the lock of the folder, and has opened its journal once. ``facts`` are
    completed with the newest version. A new key is written to ``transfer_key`` for every export:
    who deletes the key deletes the export.

    Raises:
        StorageError: a file exists already or cannot be written, or no model is kept.
        IntegrityError: the key file, the newest version or the journal is damaged.
    """
    for path in (target, transfer_key):
        _refuse_place(path, state)
    if target.resolve() == transfer_key.resolve():
        raise StorageError(
            f"{target} is named for the export and for its key", "name two different files"
        )
    store = model_store(state, facts.party, agreement, keys)
    store.require()
    newest = store.newest_version()
    if newest is None:
        raise StorageError(f"{state} keeps no version of the model", "train first")
    files, events = _exported_files(state, keys, *store.sealed_file(newest.number))
    whole = replace(facts, version=newest.number)
    header = json.dumps(asdict(whole), sort_keys=True).encode() + b"\n"
    key = os.urandom(KEY_BYTES)
    write_atomically(transfer_key, key.hex().encode() + b"\n")
    try:
        write_atomically(target, header + seal(key, _zipped(files), header))
    except BaseException:
        transfer_key.unlink(missing_ok=True)
        raise
    return Transferred(whole, len(files), events)


def _exported_files(
    state: Path, keys: KeyFile, model: Path, key_name: str
) -> tuple[dict[str, bytes], int]:
    """The content of all files of an export by name, and the number of events of the journal."""
    files = {f"{MODELS}/{model.name}": model.read_bytes()}
    files |= {name: (state / name).read_bytes() for name in _other_files(state)}
    files[JOURNAL], events = _journal(state / JOURNAL)
    chosen = {
        name: key.hex()
        for name, key in keys.all().items()
        if name == key_name or not _MODEL_KEY.fullmatch(name)
    }
    files[KEYS] = json.dumps(chosen).encode()
    return files, events


def import_party(
    source: Path,
    transfer_key: bytes,
    state: Path,
    agreement: VerticalAgreement,
    master: bytes | None,
) -> Transferred:
    """Write the folder ``state`` of a party from an exported file: all of it, or nothing.

    Raises:
        StorageError: the folder exists already, or cannot be written; or the model was trained
            with another agreement.
        IntegrityError: the file is damaged, belongs to another party, or has another key.
    """
    _refuse_existing(
        state,
        "an import replaces nothing, because this folder may know later requests: move it away, "
        "or name another folder with --out",
    )
    facts, header, sealed = _header(source)
    _refuse_other_party(source, facts, agreement.federation, state.name)
    content = unseal(transfer_key, sealed, header)
    if content is None:
        raise IntegrityError(
            f"{source} is damaged, or the transfer key is that of another export",
            "give the key file that the export wrote",
        )
    beside = state.with_name(f".{state.name}.importing")
    try:
        shutil.rmtree(beside, ignore_errors=True)  # of an import that was interrupted
        files = _unzipped(content)
        keys = {name: bytes.fromhex(key) for name, key in json.loads(files.pop(KEYS)).items()}
        for name, each in files.items():
            make_folder((beside / name).parent)
            write_atomically(beside / name, each)
        events = _check(beside, facts, agreement, KeyFile(beside, master), keys)
        beside.rename(state)
        sync_folder(state.parent)
    except OSError as error:
        raise StorageError(
            f"cannot write the folder {state}: {error.strerror}", "check that the disk is not full"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Transferred(facts, 1 + len(files), events)


def _check(
    folder: Path,
    facts: ExportFacts,
    agreement: VerticalAgreement,
    keys: KeyFile,
    known: Mapping[str, bytes],
) -> int:
    """Store the keys, and open the model and the journal; return the number of events."""
    keys.add(known)
    store = model_store(folder, facts.party, agreement, keys)
    store.require()
    store.read(facts.version)
    with closing(RequestDatabase(folder / JOURNAL)) as database:
        events: int = database.query("SELECT count(*) FROM events")[0][0]
    return events


def _refuse_other_party(source: Path, facts: ExportFacts, federation: str, party: str) -> None:
    if (facts.federation, facts.party) != (federation, party):
        raise IntegrityError(
            f"{source} is of the party {facts.party} of {facts.federation}; expected "
            f"{party} of {federation}",
            "name the file of this party",
        )


def _refuse_place(path: Path, state: Path) -> None:
    """Refuse a place for an exported file that is taken, or that the next export would read."""
    _refuse_existing(path, "give the name of a new file")
    if path.resolve().is_relative_to(state.resolve()):
        raise StorageError(
            f"{path} lies inside the folder {state} of the party", "name a file in another folder"
        )


def _refuse_existing(path: Path, hint: str) -> None:
    if path.is_symlink() or path.exists():
        raise StorageError(f"{path} exists already", hint)


def _header(source: Path) -> tuple[ExportFacts, bytes, bytes]:
    """The facts of an exported file, their line, and the encrypted rest."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise StorageError(
            f"cannot read {source}: {error.strerror}", "name a file of vfl models export"
        ) from error
    line, newline, rest = content.partition(b"\n")
    try:
        if len(line) > LONGEST_HEADER:
            raise ValueError("the first line is too long")
        facts = json.loads(line)
        if facts["format"] != FORMAT:
            raise IntegrityError(
                f"{source} has format {facts['format']}; expected {FORMAT}",
                "use the version of vfl that wrote it",
            )
        return ExportFacts(**facts), line + newline, rest
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"{source} was not written by vfl models export", "name an exported file"
        ) from error


def _other_files(state: Path) -> Iterator[str]:
    """The files of the folder that are carried over as they are, relative to it."""
    for path in sorted(state.rglob("*")):
        name = path.relative_to(state)
        hidden = any(part.startswith(".") for part in name.parts)
        database = name.parts[0].startswith(JOURNAL)
        if hidden or database or str(name) == KEYS or name.parts[0] in _LEFT_OUT:
            continue
        if path.is_file() and not path.is_symlink():
            yield name.as_posix()


def _journal(path: Path) -> tuple[bytes, int]:
    """The journal as one file, with what other processes have committed, and its events."""
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(":memory:")) as copy:
            source.backup(copy)
            events: int = copy.execute("SELECT count(*) FROM events").fetchone()[0]
            return copy.serialize(), events
    except sqlite3.Error as error:
        raise IntegrityError(f"the journal {path} is damaged: {error}") from error


def _zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _unzipped(content: bytes) -> dict[str, bytes]:
    """The files of an archive whose encryption was verified; names stay inside the folder."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        for name in names:
            parts = PurePosixPath(name).parts
            if not parts or parts[0] == "/" or any(part.startswith(".") for part in parts):
                raise IntegrityError(f"the export contains the file {name!r}, which is not allowed")
        return {name: archive.read(name) for name in names}
