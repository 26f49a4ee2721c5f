"""``vfl report``: writes the report of a run again; its only input is the metrics file."""

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from parties.cli.console import Console
from parties.cli.options import DebugOption, Format, FormatOption
from parties.report import METRICS, REPORT

_LARGEST = 256 << 20  # bytes of a metrics file
_HINT = f"give the folder of a run, or the {METRICS} of the active party or the server"


def report_command(
    *,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help=f"Folder of the run (runs/FEDERATION), or the file {METRICS} of the run.",
        ),
    ],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the report of a finished run again, and print its tables.

    The command reads the run's metrics file, and writes the report into the same folder.

    Exit codes: 2 usage, 4 the file is not a metrics file of vfl, 7 storage.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    console.run(lambda: _report(run, console, json_lines=output is Format.JSON))


def _report(run: Path, console: Console, *, json_lines: bool) -> None:
    from parties.common.atomic_file import write_atomically
    from parties.common.errors import DataError
    from parties.report.page import report_page
    from parties.report.terminal import report_tables

    path = run / METRICS if run.is_dir() else run
    metrics = read_metrics(path)
    try:
        text, tables = report_page(metrics), report_tables(metrics, console.terminal.width)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: values that the report needs are missing or illegal", _HINT
        ) from error
    report = path.with_name(REPORT)
    write_atomically(report, text.encode())
    if not json_lines:
        console.terminal.print(tables)
    console.print(f"report:  {report}", event="result", report=str(report), metrics=str(path))


def read_metrics(path: Path) -> Any:
    """Return the metrics of a run.

    Raises:
        DataError: the file is missing, is too large, or is not a metrics file of this version of
            vfl.
    """
    from parties.common.errors import DataError
    from parties.report.record import read_record

    try:
        if path.stat().st_size > _LARGEST:
            raise DataError(
                f"{path} is not the metrics file of a run: it has more than {_LARGEST >> 20} MiB",
                _HINT,
            )
        metrics = json.loads(path.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", _HINT) from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON", _HINT) from None
    try:
        read_record(metrics, str(path))
    except DataError as error:
        error.hint = error.hint or _HINT
        raise
    return metrics


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
