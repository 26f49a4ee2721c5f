"""SQLite file of a party's requests: durable transactions, named errors, sums of private tables.

A commit returns after the data is on the disk (WAL, ``synchronous=FULL``). Each private table has a
sum over its rows, so that a lost or changed row is found when the file is opened.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Final

from parties.common.atomic_file import make_folder
from parties.common.errors import IntegrityError, StorageError

FORMAT: Final = 2  # version of the tables
WAIT_SECONDS: Final = 30.0  # for another process that writes
PRIVATE_TABLES: Final = {  # columns of each private table
    "subjects": ("request", "sealed"),
    "notifications": ("request", "sealed"),
    "submissions": ("digest", "request"),
    "forgotten": ("tag", "request", "date"),
}
_SCHEMA: Final = """
CREATE TABLE events (origin TEXT, seq INTEGER, digest TEXT NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (origin, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE heads (origin TEXT PRIMARY KEY, seq INTEGER NOT NULL, digest TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE subjects (request TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE notifications (request TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE submissions (digest TEXT, request TEXT, PRIMARY KEY (digest, request))
    STRICT, WITHOUT ROWID;
CREATE TABLE forgotten (tag BLOB PRIMARY KEY, request TEXT NOT NULL, date TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE sums (name TEXT PRIMARY KEY, count INTEGER NOT NULL, sum BLOB NOT NULL)
    STRICT, WITHOUT ROWID;
"""
_RESTORE = "restore the file from a backup, then connect to the other parties: their copies of "
_RESTORE += "the journal complete it"
_STORAGE = ("FULL", "IOERR", "READONLY", "CANTOPEN", "PERM", "NOMEM", "AUTH", "TOOBIG")


class RequestDatabase:
    """The SQLite file ``path``; several processes may open it at the same time.

    Raises:
        StorageError: the file cannot be used.
        IntegrityError: the file is damaged, or another version of vfl wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock, self._depth = RLock(), 0
        with self.errors():
            self._create_file()
            self._connection = sqlite3.connect(
                path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self.errors():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self.errors():
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the ``with`` block as one transaction; an inner transaction is part of the outer one.

        Raises:
            StorageError: the disk is full or cannot be written; nothing has changed.
            IntegrityError: the file is damaged; nothing has changed.
        """
        with self._lock, self.errors():
            if self._depth:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                return
            self._connection.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query or the result of a change.

        Raises:
            StorageError: the file cannot be used.
            IntegrityError: the file is damaged.
        """
        with self._lock, self.errors():
            return self._connection.execute(sql, values).fetchall()

    def insert(self, table: str, row: Sequence[Any]) -> bool:
        """Insert a row into a private table; return False if its key is present already."""
        with self.transaction():
            places = ", ".join("?" * len(row))
            with self._lock, self.errors():
                done = self._connection.execute(
                    f"INSERT OR IGNORE INTO {table} VALUES ({places})",  # noqa: S608  our names
                    row,
                ).rowcount
            if done:
                self._add_to_sum(table, 1, row_digest(row))
            return bool(done)

    def rows(
        self, table: str, where: str = "", values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Return rows of a private table, in the order of their keys."""
        columns = ", ".join(PRIVATE_TABLES[table])
        condition = f" WHERE {where}" if where else ""
        return self.query(f"SELECT {columns} FROM {table}{condition}", values)  # noqa: S608

    def delete(self, table: str, where: str, values: Sequence[Any]) -> int:
        """Delete rows of a private table; return their number."""
        with self.transaction():
            found = self.rows(table, where, values)
            self.query(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608  our names
            for row in found:
                self._add_to_sum(table, -1, row_digest(row))
            return len(found)

    def damaged(self, what: str) -> IntegrityError:
        """Return an error that names the file and what is damaged."""
        return IntegrityError(f"{self.path} is damaged: {what}", _RESTORE)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate errors of SQLite and of the file system inside the ``with`` block.

        Raises:
            StorageError: the file cannot be used.
            IntegrityError: the file is damaged.
        """
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT").removeprefix("SQLITE_")
            if name.startswith(("BUSY", "LOCKED")):
                raise StorageError(
                    f"{self.path} was locked by another process for {WAIT_SECONDS:.0f} s",
                    "run the command again after the other process has finished",
                ) from error
            if name.startswith(_STORAGE):
                raise StorageError(
                    f"cannot use {self.path}: {name}, nothing was changed",
                    "check that the disk is not full and that this account may write the file",
                ) from error
            raise self.damaged(name) from error
        except OSError as error:
            raise StorageError(
                f"cannot use {self.path}: {error.strerror}",
                "check the folder, and that this account may write into it",
            ) from error

    def _create_file(self) -> None:
        make_folder(self.path.parent)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))

    def _prepare(self) -> None:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        with self.transaction():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            tables = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if version == 0 and tables == 0:
                for statement in _SCHEMA.strip().split(";\n"):
                    self._connection.execute(statement.removesuffix(";"))
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
                version = FORMAT
        if version != FORMAT:
            raise IntegrityError(
                f"{self.path} has format {version}; expected format {FORMAT}",
                "another version of vfl wrote the file, or the file is damaged",
            )
        found = self._connection.execute("PRAGMA integrity_check").fetchall()
        if found != [("ok",)]:
            raise self.damaged("its structure is not valid")
        for table in PRIVATE_TABLES:
            self._check_sum(table)

    def _add_to_sum(self, table: str, count: int, digest: bytes) -> None:
        before, total = self._sum(table)
        self.query(
            "INSERT OR REPLACE INTO sums VALUES (?, ?, ?)",
            (table, before + count, _exclusive_or(total, digest)),
        )

    def _sum(self, table: str) -> tuple[int, bytes]:
        found = self.query("SELECT count, sum FROM sums WHERE name = ?", (table,))
        return found[0] if found else (0, bytes(32))

    def _check_sum(self, table: str) -> None:
        total, rows = bytes(32), self.rows(table)
        for row in rows:
            total = _exclusive_or(total, row_digest(row))
        if (len(rows), total) != self._sum(table):
            raise self.damaged(f"rows of the table {table} were lost or changed")


def row_digest(row: Sequence[Any]) -> bytes:
    """Return the SHA-256 digest of a row of texts and bytes."""
    parts = [part.encode() if isinstance(part, str) else bytes(part) for part in row]
    return sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _exclusive_or(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
