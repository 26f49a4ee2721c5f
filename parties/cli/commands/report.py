"""``vfl report``: writes the pages of a run again, or of two runs, from the metrics files alone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from parties.cli.console import Console
from parties.cli.options import DebugOption, Format, FormatOption
from parties.report import METRICS

_LARGEST = 256 << 20  # bytes of a metrics file
_HINT = f"give the folder of a run, or the {METRICS} of the active party or the server"


_PAIR = "comparison.html"


class Reader(StrEnum):
    """For whom a page of a run is written."""

    SCIENTIST = "scientist"
    OFFICER = "officer"


def report_command(  # one parameter an option
    *,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help=f"Folder of the run (runs/FEDERATION), or the file {METRICS} of the run.",
        ),
    ],
    other: Annotated[
        Path | None,
        typer.Argument(metavar="[OTHER]", help="Second run, to compare with the first one."),
    ] = None,
    reader: Annotated[
        Reader, typer.Option("--for", help="Page whose path is printed; both are written.")
    ] = Reader.SCIENTIST,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Page of the comparison of two runs.")
    ] = Path(_PAIR),
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the pages of a finished run again, and print its tables; or compare two runs.

    The command reads the run's metrics file, and writes the pages for the scientist and for the
    officer into the same folder. With a second run, it writes one page with the settings that
    differ and the figures of both runs.

    Exit codes: 2 usage, 4 the file is not a metrics file of vfl, 7 storage.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    if other is None:
        console.run(lambda: _report(run, reader, console, json_lines=output is Format.JSON))
    else:
        console.run(lambda: _compare((run, other), out, console))


def _report(run: Path, reader: Reader, console: Console, *, json_lines: bool) -> None:
    from parties.report.pages.write import write_pages
    from parties.report.terminal import report_tables

    path = _metrics_file(run)
    metrics = read_metrics(path)
    with _located_errors(path):
        tables = report_tables(metrics, console.terminal.width)
        scientist, officer = write_pages(path.parent, metrics)
    report = officer if reader is Reader.OFFICER else scientist
    if not json_lines:
        console.terminal.print(tables)
    console.print(f"report:  {report}", event="result", report=str(report), metrics=str(path))


def _compare(runs: tuple[Path, Path], out: Path, console: Console) -> None:
    from parties.common.atomic_file import write_atomically
    from parties.report.pages.run_pair import run_pair_page

    paths = [_metrics_file(each) for each in runs]
    first, second = (read_metrics(each) for each in paths)
    with _located_errors(paths[0]):
        page = run_pair_page(first, second, (str(runs[0]), str(runs[1])))
    write_atomically(out, page.encode())
    console.print(f"comparison: {out}", event="result", comparison=str(out))


def _metrics_file(run: Path) -> Path:
    return run / METRICS if run.is_dir() else run


@contextmanager
def _located_errors(path: Path) -> Iterator[None]:
    """Turn errors about values of a record into an error that names its file."""
    from parties.common.errors import DataError

    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: values that the report needs are missing or illegal", _HINT
        ) from error


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
