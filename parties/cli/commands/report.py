"""``vfl report``: the page of a run once more, from its metrics alone."""

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from parties.cli.console import Teller
from parties.cli.options import DebugOption, Format, FormatOption
from parties.report import METRICS, REPORT

_LARGEST = 256 << 20  # bytes of a metrics file
_PARTS = ("run", "training", "requests", "traffic", "peers")
_HINT = f"name the folder of a run, or the {METRICS} that the active party wrote there"


def report(
    *,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help=f"runs/FEDERATION, or a {METRICS} in any folder.")
    ],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the report of a run again, beside its metrics, and show its tables.

    Exit codes: 2 usage, 4 no metrics of ours, 7 storage.
    """
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)
    told.guard(lambda: _report(run, told, json_lines=output is Format.JSON))


def _report(run: Path, told: Teller, *, json_lines: bool) -> None:
    from parties.common.atomic_file import write
    from parties.common.errors import DataError
    from parties.report.any_run import page_of, table_of

    path = run / METRICS if run.is_dir() else run
    metrics = read_metrics(path)
    try:
        text, shown = page_of(metrics), table_of(metrics, told.console.width)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} lacks what the report shows", _HINT) from error
    made = path.with_name(REPORT)
    write(made, text.encode())
    if not json_lines:
        told.console.print(shown)
    told.say(f"report:  {made}", event="result", report=str(made), metrics=str(path))


def read_metrics(path: Path) -> dict[str, Any]:
    """The metrics of a run.

    Raises:
        DataError: the file is absent, or not one that this version of vfl can show.
    """
    from parties.common.errors import DataError
    from parties.report.any_run import version_of

    try:
        if path.stat().st_size > _LARGEST:
            raise DataError(f"{path} is too large to be metrics of a run", _HINT)
        metrics = json.loads(path.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", _HINT) from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON", _HINT) from None
    if not isinstance(metrics, dict) or not all(part in metrics for part in _PARTS):
        raise DataError(f"{path} holds no metrics of a run", _HINT)
    version, ours = metrics.get("version"), version_of(metrics)
    if version != ours:
        raise DataError(
            f"{path} has version {version!r:.20}; this vfl reads version {ours}",
            "use the vfl that made it, or run again",
        )
    return metrics


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
