"""The table that ``vfl init`` reads: a CSV file, a Parquet file, or a table of a database."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from configs.table import Name
from parties.common.errors import DataError, UsageProblem
from parties.data.detection.columns import (
    ColumnUse,
    TableProposal,
    check_ids,
    check_known,
    propose_columns,
    propose_ids,
)
from parties.data.detection.csv_form import CsvForm, detect_csv
from parties.data.detection.table_sample import (
    TableSample,
    sample_csv,
    sample_parquet,
    sample_sql,
)
from parties.data.sources.csv_source import DELIMITERS, toml_text
from parties.data.sources.source import IdColumns
from parties.data.sources.sql_source import SqlData

_PARQUET = (".parquet", ".pq")
_NAMES = {"tab": "\t", "\\t": "\t"}  # a tab as people can type it


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What the command line states about a table; None: it is detected.

    Attributes:
        table: name of a table in the database.
        ids: columns that together form the ID.
        delimiter: delimiter of a CSV file.
        encoding: encoding of a CSV file.
        decimal: decimal separator of a CSV file.
        ignored: columns that are not used.
    """

    table: str | None = None
    ids: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpenedTable:
    """A table with its sampled rows, before the label is chosen.

    Attributes:
        kind: kind of the data source: csv, parquet or sql.
        keys: lines of the settings that say where and how the table is written.
        sample: the first rows.
        form: how a CSV file is written; the default for other kinds.
        ids: columns that together form the ID; empty: the row number is the ID.
        ignored: columns that are not used.
    """

    kind: str
    keys: tuple[str, ...]
    sample: TableSample
    form: CsvForm
    ids: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    def proposal(self, label: str | None, classes: tuple[str, ...] = ()) -> TableProposal:
        """Return the proposed use of the columns; ``classes`` are the agreed ones, if any.

        Raises:
            DataError: the label is unknown, has missing values, or is no number and has not 2 to 20
                classes; or a column that is left out is the label or of the ID.
        """
        check_known(self.sample, [label] if label else [], "--label")
        check_known(self.sample, self.ignored, "--ignore")
        for name in self.ignored:
            if name in self.ids or name == label:
                use, option = ("ID", "--id") if name in self.ids else ("label", "--label")
                raise DataError(
                    f"--ignore: column {name!r} is the {use}, which is needed",
                    f"omit this --ignore, or name another column with {option} COLUMN",
                )
        found = propose_columns(self.sample, self.form.decimal, self.ids, label, classes)
        columns = tuple(
            replace(each, use=ColumnUse.IGNORED, reason="left out by --ignore")
            if each.name in self.ignored
            else each
            for each in found.columns
        )
        return replace(found, columns=columns)


def open_table(given: str, options: TableOptions, *, need_ids: bool = True) -> OpenedTable:
    """Read the first rows of ``given``, a file or the URL of a database.

    ``need_ids`` says whether a column must identify the rows, as in the vertical mode.

    Raises:
        UsageProblem: an option does not suit the kind of table.
        DataError: the table cannot be read, or its form or its IDs are not certain.
    """
    _refuse_unsuitable_options(given, options)
    if "://" in given:
        opened = _database(given, options)
    else:
        path = Path(given).absolute()
        if not path.is_file():
            raise DataError(f"there is no file {path}", "name a CSV file, a Parquet file or a URL")
        opened = _parquet(path) if path.suffix.lower() in _PARQUET else _csv(path, options)
    kind, keys, sample, form = opened
    ids = options.ids or propose_ids(sample, required=need_ids)
    if ids:
        check_ids(sample, ids)
    return OpenedTable(kind, keys, sample, form, ids, options.ignored)


def data_table(table: OpenedTable, proposal: TableProposal) -> list[str]:
    """Return the lines of the table [data] of the party settings, with the reason of each use."""
    ids = ", ".join(map(toml_text, proposal.ids))
    lines = [
        *column_source(table),
        f"id = {{ columns = [{ids}] }}    # must be the same texts at all parties",
        *column_uses(table, proposal),
    ]
    if proposal.of_use(ColumnUse.NUMERIC):
        lines.append("ranks = true    # the model also sees each number's rank in its column")
    return [*lines, *ignored_columns(proposal)]


def column_source(table: OpenedTable) -> list[str]:
    """Return the first lines of the table [data]: where the rows are and how they are written."""
    sample = table.sample
    read = "all" if sample.sampled == sample.rows else f"the first {sample.sampled}"
    return [
        f"# {sample.rows} rows; the use of the columns was detected from {read} rows.",
        "[data]",
        f'kind = "{table.kind}"',
        *table.keys,
    ]


def column_uses(table: OpenedTable, proposal: TableProposal) -> list[str]:
    """Return the lines with label, marks of missing values and features."""
    lines = []
    if proposal.label:
        lines.append(f"label = {toml_text(proposal.label)}")
    if proposal.missing:
        marks = ", ".join(map(toml_text, proposal.missing))
        lines.append(f"missing = [{marks}]    # mark a missing value, as an empty cell does")
    for use in (ColumnUse.NUMERIC, ColumnUse.CATEGORICAL):
        entries = _entries(proposal, use, table.sample.sampled)
        lines += [f"{use.value} = [", *entries, "]"] if entries else [f"{use.value} = []"]
    return lines


def ignored_columns(proposal: TableProposal) -> list[str]:
    """Return comments with the columns that are not used, and the reasons."""
    ignored = proposal.of_use(ColumnUse.IGNORED)
    found = [f"#   {toml_text(each.name)}: {each.reason}" for each in ignored]
    return ["# Columns that are not used; to use one, list it above:", *found] if found else []


def _entries(proposal: TableProposal, use: ColumnUse, rows: int) -> list[str]:
    lines = []
    for each in proposal.of_use(use):
        missing = f", {each.missing / rows:.1%} missing" if each.missing else ""
        lines.append(f"    {toml_text(each.name)},    # {each.reason}{missing}")
    return lines


def _csv(path: Path, options: TableOptions) -> tuple[str, tuple[str, ...], TableSample, CsvForm]:
    delimiter = _NAMES.get(options.delimiter or "", options.delimiter)
    if delimiter not in (None, *DELIMITERS):
        raise UsageProblem(
            "--delimiter must be one of , ; | and tab", "for example --delimiter tab"
        )
    if options.decimal not in (None, ",", "."):
        raise UsageProblem("--decimal must be , or .", "for example --decimal ,")
    try:
        "".encode(options.encoding or "utf-8")
    except LookupError:
        raise DataError(
            f"there is no encoding {options.encoding}", "for example --encoding cp1252"
        ) from None
    form = detect_csv(
        path,
        delimiter=delimiter,
        encoding=options.encoding,
        decimal=options.decimal,  # type: ignore[arg-type]
    )
    default = CsvForm()
    keys = [f"path = {toml_text(str(path))}"]
    keys += [
        f"{key} = {toml_text(getattr(form, key))}"
        for key in ("delimiter", "encoding", "decimal")
        if getattr(form, key) != getattr(default, key)
    ]
    return "csv", tuple(keys), sample_csv(path, form), form


def _parquet(path: Path) -> tuple[str, tuple[str, ...], TableSample, CsvForm]:
    keys = (f"path = {toml_text(str(path))}",)
    return "parquet", keys, sample_parquet(path), CsvForm()


def _database(url: str, options: TableOptions) -> tuple[str, tuple[str, ...], TableSample, CsvForm]:
    if options.table is None:
        raise UsageProblem(
            "a database needs the name of a table", "give --table NAME or --table SCHEMA.NAME"
        )
    if url.startswith("sqlite:///"):
        url = f"sqlite:///{Path(url.removeprefix('sqlite:///')).absolute()}"
    settings: dict[str, Any] = {"kind": "sql", "url": url, "table": options.table}
    try:
        data = SqlData(id=IdColumns(columns=("id",)), **settings)
    except ValidationError:
        raise DataError(
            "the URL of the database contains a password or is not valid",
            "write it without a password, such as postgresql://user@host/database; the server may "
            "read the password from ~/.pgpass",
        ) from None
    keys = (f"url = {toml_text(url)}", f"table = {toml_text(options.table)}")
    return "sql", keys, sample_sql(data, Path.cwd()), CsvForm()


def _refuse_unsuitable_options(given: str, options: TableOptions) -> None:
    database = "://" in given
    csv = not database and Path(given).suffix.lower() not in _PARQUET
    unsuitable = {"--table": options.table} if not database else {}
    if not csv:
        unsuitable |= {
            "--delimiter": options.delimiter,
            "--encoding": options.encoding,
            "--decimal": options.decimal,
        }
    for option, value in unsuitable.items():
        if value is not None:
            needs = "a database" if option == "--table" else "a CSV file"
            raise UsageProblem(f"{option} needs {needs}", f"remove {option}")


def stem_name(given: str, fallback: str) -> str:
    """Return a legal party name from a file or URL: lower case, digits and hyphens."""
    stem = Path(urlsplit(given).path).stem.lower()
    name = "".join(each if each.isascii() and each.isalnum() else "-" for each in stem)
    name = name.lstrip("-0123456789").rstrip("-")[:31].rstrip("-")
    return name or fallback


def is_legal_name(name: str) -> bool:
    """Return whether a party or a federation can have this name."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        return False
    return True


def parsed(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text that ``vfl init`` wrote."""
    return tomllib.loads(text)
