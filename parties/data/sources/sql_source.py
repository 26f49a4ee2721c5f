"""SQL source: rows of a query, streamed from one read-only snapshot of the database.

The message of a database driver may contain a value, an address or a password. Therefore error
messages contain only the class of the driver's error.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import UUID

import numpy as np
from pydantic import field_validator, model_validator

from configs.table import PathText
from parties.common.errors import DataError
from parties.common.libraries import install_command
from parties.data.sources.arrays import Array
from parties.data.sources.cells import NOT_FINITE, number_marks, parse_numbers
from parties.data.sources.collect import Chunk, ColumnRoles, TableSettings, collect_records
from parties.data.sources.files import regular_file_path
from parties.data.sources.records import Records
from parties.data.sources.source import ReadOptions

if TYPE_CHECKING:  # a large import, for parties with a database only
    from sqlalchemy import URL, Connection, CursorResult, Engine

_CELLS = 1 << 18  # cells of one chunk
_CONNECT_TIMEOUT = 10  # seconds
_TEST = "the result of test_query"

_TEXT: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    bool: lambda value: "true" if value else "false",
    date: date.isoformat,
    UUID: str,
    type(None): lambda _: "",
}
_TIMES = _TEXT | {datetime: datetime.isoformat, float: repr, Decimal: str}
_NUMBERS = {int, float, bool, Decimal, type(None)}
_TYPES = (
    "numeric columns are numbers or booleans; IDs, labels and categorical columns are text, whole "
    "numbers, booleans, dates or UUIDs; remove other columns from the query, or cast them in it"
)


class SqlData(TableSettings):
    """Rows of a database, read in one read-only transaction."""

    kind: Literal["sql"]
    # URL without a password: postgresql://user@host/db or sqlite:///file.
    url: str | None = None
    url_file: PathText | None = None  # file of mode 600 with the URL, in the data folder
    query: str | None = None  # SQL query
    table: str | None = None  # table instead of a query, as schema.table or table
    test_query: str | None = None  # SQL query for the official test rows

    @field_validator("url")
    @classmethod
    def _no_secret(cls, url: str | None) -> str | None:
        if url is not None and _holds_secret(url):
            raise ValueError(
                "the key 'url' contains a password or is not a valid URL; passwords are not "
                "allowed in the party settings: write the URL into a file that only this account "
                'can read, and set url_file = "database.url"'
            )
        return url

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.id == "row":
            raise ValueError(
                "the line number cannot be the ID, because rows of a database have no order: set "
                "id = {columns = [...]}"
            )
        if (self.url is None) == (self.url_file is None):
            raise ValueError("expected exactly one of the keys 'url_file' and 'url'")
        if (self.query is None) == (self.table is None):
            raise ValueError("expected exactly one of the keys 'query' and 'table'")
        return self

    def read(self, options: ReadOptions) -> Records:
        """Read the rows of the query, and the rows of the test query if there is one.

        Raises:
            DataError: the database cannot be reached or rejects a query, or the rows do not match
                the party settings.
            ResourceError: the rows exceed a limit in the party settings.
            StorageError: the temporary folder has no space for large columns.
        """
        with (
            _engine(self, options.folder) as engine,
            _hide_driver_messages("the database"),
            _snapshot(engine) as connection,
        ):
            query = self.query or _select_all(engine, str(self.table))
            queries = {"the result of query" if self.query else f"table {self.table}": query}
            if self.test_query is not None:
                queries[_TEST] = self.test_query
            sheets = (_sheet(connection, name, query, self) for name, query in queries.items())
            return collect_records(self, sheets, options)


def read_first_rows(
    data: SqlData, folder: Path, cells: int
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
    """Read the first rows of a table, about ``cells`` cells.

    Returns:
        The names of the columns, the rows, and the number of all rows of the table.

    Raises:
        DataError: the database cannot be reached, or has no such table.
    """
    name = f"table {data.table}"
    with (
        _engine(data, folder) as engine,
        _hide_driver_messages(name),
        _snapshot(engine) as connection,
    ):
        query = _select_all(engine, str(data.table))
        counted = f"SELECT COUNT(*) FROM ({query}) AS counted"  # noqa: S608  a quoted name
        total = int(connection.exec_driver_sql(counted).scalar_one())
        with connection.exec_driver_sql(query) as result:
            columns = tuple(result.keys())
            rows = result.fetchmany(max(1, cells // max(1, len(columns))))
        return columns, [tuple(row) for row in rows], total


def _holds_secret(url: str) -> bool:
    """Whether a database URL contains a password; True also for an invalid URL."""
    try:
        parts = urlsplit(url)
        words = [word.lower() for word, _ in parse_qsl(parts.query, keep_blank_values=True)]
        return parts.password is not None or any("password" in word for word in words)
    except ValueError:
        return True


@contextmanager
def _engine(data: SqlData, folder: Path) -> Iterator["Engine"]:
    from sqlalchemy import NullPool, create_engine

    url = _url(data, folder)
    options: dict[str, Any] = {"poolclass": NullPool, "hide_parameters": True}
    if url.drivername == "sqlite":
        path = regular_file_path(folder, Path(url.database or ""), data.origin)
        uri = f"file:{quote(str(path))}?mode=ro"
        yield create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(uri, uri=True, isolation_level=None),
            **options,
        )
        return
    try:
        engine = create_engine(url, connect_args={"connect_timeout": _CONNECT_TIMEOUT}, **options)
    except ImportError:
        raise DataError(
            "the driver of PostgreSQL is not installed", f"run: {install_command('postgres')}"
        ) from None
    yield engine


def _url(data: SqlData, folder: Path) -> "URL":
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    text = data.url if data.url_file is None else _secret(folder / data.url_file)
    try:
        url = make_url(text or "")
    except (ArgumentError, ValueError):
        raise DataError("the URL of the database cannot be read", _FORMS) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("postgresql+psycopg", "sqlite"):
        raise DataError(
            "the URL of the database names a kind of database that vfl cannot read", _FORMS
        )
    return url


_FORMS = "write the URL as sqlite:///people.db or postgresql://user@host/database"


def _secret(path: Path) -> str:
    """Return the text of a file that only its owner can read."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(
                f"{path} is not a regular file", "set the key 'url_file' to a file with one URL"
            )
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise DataError(
                f"other users have access to {path}, which may contain a password",
                f"run chmod 600 {path}",
            )
        return path.read_text().strip()
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text", "the file must contain one URL") from None
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}", "check the key 'url_file'"
        ) from None


@contextmanager
def _snapshot(engine: "Engine") -> Iterator["Connection"]:
    """Open a read-only transaction on one state of the database."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")
            yield connection
        else:
            yield connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )


def _select_all(engine: "Engine", table: str) -> str:
    name = ".".join(engine.dialect.identifier_preparer.quote(part) for part in table.split("."))
    return f"SELECT * FROM {name}"  # noqa: S608  quoted, and from the party's settings


@contextmanager
def _sheet(connection: "Connection", name: str, query: str, data: SqlData) -> Iterator["_SqlSheet"]:
    with _hide_driver_messages(name):
        options = {"stream_results": True, "max_row_buffer": 1000, "no_parameters": True}
        result = connection.execution_options(**options).exec_driver_sql(query)
        if not result.returns_rows:
            raise DataError(f"{name} does not return a table", "write the query as one SELECT")
        with result:
            yield _SqlSheet(name, result, frozenset({"", *data.missing}))


@contextmanager
def _hide_driver_messages(name: str) -> Iterator[None]:
    """Replace an error of the driver by a ``DataError`` with the name of the error only."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, sqlite3.Warning) as error:
        raise DataError(f"{name}: database error: {_error_name(error)}", _advice(error)) from None


def _error_name(error: Exception) -> str:
    from sqlalchemy.exc import DBAPIError, NoSuchModuleError

    if isinstance(error, NoSuchModuleError):
        return "the driver is not installed"
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    return type(cause).__name__ + (f" (SQLSTATE {state})" if state else "")


def _advice(error: Exception) -> str:
    from sqlalchemy.exc import DBAPIError

    if isinstance(error, DBAPIError) and error.statement is None:
        return "check with psql that the server runs and that the account may log in and read"
    return "try the query in psql or sqlite3; the query must only read"


class _SqlSheet:
    """The result of one query; its rows are counted from 0."""

    unit = "row"

    def __init__(self, name: str, result: "CursorResult[Any]", missing: frozenset[str]) -> None:
        self.file, self._result, self._missing = name, result, missing
        self._marks = number_marks(missing)
        self._nan_is_absent = "nan" in {mark.lower() for mark in missing}
        self.columns = tuple(result.keys())

    def chunks(self, roles: ColumnRoles) -> Iterator[Chunk]:
        """Return the rows of the result in chunks. Raises ``DataError`` for a database error."""
        at = {column: position for position, column in enumerate(self.columns)}
        texts = [(use, column) for use, column in roles.listed() if use != "numeric"]
        start = 0
        with _hide_driver_messages(self.file):
            for rows in self._result.partitions(max(1, _CELLS // len(self.columns))):
                cells = list(zip(*rows, strict=True))
                numeric = [self._numeric(column, cells[at[column]]) for column in roles.numeric]
                yield Chunk(
                    numbers=np.arange(start, start + len(rows)),
                    texts={
                        column: self._texts(use, column, cells[at[column]]) for use, column in texts
                    },
                    numeric=np.stack(numeric, axis=1) if numeric else np.empty((len(rows), 0)),
                )
                start += len(rows)

    def _texts(self, use: str, column: str, cells: Sequence[Any]) -> list[str]:
        """Return the exact text of every cell, "" for NULL; integers are not converted to float."""
        kinds = set(map(type, cells))
        if use == "time" and kinds <= _TIMES.keys():
            return [_TIMES[type(cell)](cell) for cell in cells]
        if kinds == {str}:
            return list(cells)
        if kinds <= _TEXT.keys() | {Decimal}:
            try:
                return [_TEXT.get(type(cell), _whole_number)(cell) for cell in cells]
            except ValueError:
                pass
        raise self._type_error(column, kinds - _TEXT.keys())

    def _numeric(self, column: str, cells: Sequence[Any]) -> Array:
        kinds = set(map(type, cells))
        if kinds <= {str, type(None)}:
            return parse_numbers(
                ["" if cell is None else cell.strip() for cell in cells], self._missing
            )
        if str in kinds and kinds <= _NUMBERS | {str}:  # SQLite stores texts in any column
            values = self._numeric(
                column, [None if isinstance(cell, str) else cell for cell in cells]
            )
            at = [row for row, cell in enumerate(cells) if isinstance(cell, str)]
            values[at] = parse_numbers([cells[row].strip() for row in at], self._missing)
            return values
        if not kinds <= _NUMBERS:
            raise self._type_error(column, kinds - _NUMBERS)
        convert = float if kinds <= {float, int} else _float
        try:
            values = np.fromiter(map(convert, cells), np.float64, len(cells))
        except OverflowError:
            values = np.fromiter(map(_float, cells), np.float64, len(cells))
        values[~np.isfinite(values) & ~(np.isnan(values) & self._nan_is_absent)] = NOT_FINITE
        values[np.isin(values, self._marks)] = np.nan
        if type(None) in kinds:
            values[[cell is None for cell in cells]] = np.nan
        return values

    def _type_error(self, column: str, kinds: set[type]) -> DataError:
        named = " and ".join(sorted(kind.__name__ for kind in kinds))
        return DataError(f"column {column!r} of {self.file} holds {named}", _TYPES)


def _whole_number(cell: Decimal) -> str:
    """Return an integer as text. Raises ``ValueError`` for a fraction: 1.0 and 1.00 differ."""
    if not cell.is_finite() or cell.as_tuple().exponent:
        raise ValueError("expected a whole number; the number has decimal places or is not finite")
    return format(cell, "f")


def _float(cell: Any) -> float:
    """Return the nearest float; ``NOT_FINITE`` if the number is too large."""
    try:
        return 0.0 if cell is None else float(cell)
    except OverflowError:
        return NOT_FINITE
