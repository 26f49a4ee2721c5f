"""Console output of a command: progress, results and errors, as text or JSON lines."""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console as RichConsole

from configs.errors import ConfigError
from parties.cli.options import refuse_leaking_variables
from parties.common.errors import UNEXPECTED, Failed, Stopped, exit_code
from parties.common.libraries import EXTRA_OF, missing_library
from parties.common.printable import printable, printable_event
from parties.common.progress import Event, ProgressListener
from parties.common.signals import stop_on_sigterm
from protocol.errors import Aborted


class Console:
    """Prints a command's progress, results and errors as text or as JSON lines."""

    def __init__(self, command: str, *, json_lines: bool, debug: bool) -> None:
        self._command, self._json, self._debug = printable(command, 80), json_lines, debug
        self.terminal = RichConsole(stderr=json_lines)
        self._errors = RichConsole(stderr=True, soft_wrap=True, highlight=False)

    def run(self, work: Callable[[], None]) -> None:
        """Run ``work``; if it fails, print the error and exit with the exit code of the error.

        Raises:
            SystemExit: ``work`` failed; the exit code shows the kind of failure.
        """
        try:
            refuse_leaking_variables(debug=self._debug)
            with stop_on_sigterm():
                work()
        except Stopped as stopped:
            self.print(f"{self._command}: stopped; {stopped.hint}", event="stopped")
        except KeyboardInterrupt:
            self._fail(["interrupted"], "", 130)
        except Exception as error:  # noqa: BLE001  every failure of a command ends here
            if self._debug:
                for line in _trace(error):
                    self._errors.print(line, markup=False)
            self._fail(*_explained(error), echo=isinstance(error, Aborted))

    @contextmanager
    def progress(self, roles: dict[str, str]) -> Iterator[ProgressListener]:
        """Show progress of the parties in ``roles`` (name -> role) inside the ``with`` block."""
        from parties.cli.progress_view import PhaseLog, ProgressView

        if self._json:
            yield self._line
            return
        kind = ProgressView if self.terminal.is_terminal else PhaseLog
        with kind(self.terminal, roles) as view:
            yield lambda event: view.show(printable_event(event))

    def warn(self, text: str) -> None:
        """Print a warning."""
        if self._json:
            self._line({"event": "warning", "party": self._command, "text": text})
        else:
            self._errors.print(f"{self._command}: warning: {printable(text)}", markup=False)

    def show_result(self, metrics: dict[str, Any], folder: Path) -> None:
        """Print the tables of a finished run and the paths of the report and the metrics."""
        if self._json:
            self._line({"event": "result", "party": self._command, "folder": str(folder)})
            return
        from parties.report import METRICS, REPORT
        from parties.report.terminal import report_tables

        self.terminal.print(report_tables(metrics, self.terminal.width))
        self.terminal.print(f"report:  {folder / REPORT}\nmetrics: {folder / METRICS}")

    def print(self, text: str, **fields: Any) -> None:
        """Print ``text`` as one line, or ``fields`` as one JSON object."""
        if self._json:
            self._line(fields)
        else:
            self.terminal.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self, event: Event) -> None:
        sys.stdout.write(json.dumps(printable_event(event)) + "\n")
        sys.stdout.flush()

    def _fail(
        self, problems: Sequence[str], hint: str, code: int, *, echo: bool = False
    ) -> NoReturn:
        lines = [printable(problem) for problem in problems]
        if self._json:
            # Not through _line, which would join the problems into one line.
            fields = {"party": self._command, "message": "\n".join(lines), "hint": printable(hint)}
            event = {"event": "error", "echo": echo, **fields, "exit": code}
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
        else:
            self._errors.print(f"[bold]{self._command}: error:[/] ", end="")
            self._errors.print("\n  ".join(lines), markup=False)
            if hint:
                self._errors.print(f"{self._command}: hint: {printable(hint)}", markup=False)
        raise SystemExit(code)


def prepare_output() -> None:
    """Prepare the output of this process.

    Characters that a stream cannot encode are escaped. Log records are printed without their
    messages. Errors in threads are printed without the messages of libraries.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    threading.excepthook = _thread_failed
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class RedactingFormatter(logging.Formatter):
    """Formats a library's log record; omits the message, because it may quote personal data."""

    def format(self, record: logging.LogRecord) -> str:
        """Return logger, level, file, line and exception class of ``record``, without messages."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        where = f"{record.filename}:{record.lineno}"
        return printable(f"{record.name}: {record.levelname.lower()} at {where} {kind}".rstrip())


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    """Print the trace of an error in a thread, without messages of libraries."""
    if args.exc_value is not None:
        sys.stderr.write("".join(f"{line}\n" for line in _trace(args.exc_value)))


def _explained(error: Exception) -> tuple[Sequence[str], str, int]:
    """Return problems, hint and exit code; an unexpected error shows its class and place alone."""
    library = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    error = missing_library(library) if library in EXTRA_OF else error
    code = exit_code(error)
    if code is not None:
        return _problems(error), str(getattr(error, "hint", "")), code
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return [f"unexpected {type(error).__name__} at {where}"], "--debug shows more", UNEXPECTED


def _problems(error: Exception) -> Sequence[str]:
    if isinstance(error, ConfigError):
        return error.problems
    # The process of a simulated party has made these lines printable already.
    return str(error).splitlines() if isinstance(error, Failed) else [str(error)]


def _trace(error: BaseException) -> Iterator[str]:
    """Yield where an error arose, cause by cause; messages of libraries are left out.

    A library may quote a value, an ID or a password; class and place are enough to find the bug.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _trace(cause)
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    known = isinstance(error, Exception) and exit_code(error) is not None
    words = printable(str(error)) if known else f"{len(str(error))} characters, not shown"
    yield f"{type(error).__name__}: {words}"
