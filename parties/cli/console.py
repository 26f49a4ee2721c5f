"""What the command line says: progress, results and failures, to people or to programs."""

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

from rich.console import Console

from configs.errors import ConfigError
from parties.cli.options import refuse_telltales
from parties.common.errors import Failed, Stopped, exit_code
from parties.common.printable import printable, printable_event
from parties.common.progress import Event, Listener
from parties.common.signals import stoppable
from protocol.errors import Aborted

UNEXPECTED = 1


class Teller:
    """One command's voice: text on a terminal, or one JSON object a line."""

    def __init__(self, command: str, *, json_lines: bool, debug: bool) -> None:
        self._command, self._json, self._debug = printable(command, 80), json_lines, debug
        self.console = Console(stderr=json_lines)
        self._errors = Console(stderr=True, soft_wrap=True, highlight=False)

    def guard(self, work: Callable[[], None]) -> None:
        """Do the work; end the process with the right code when it fails."""
        try:
            refuse_telltales(debug=self._debug)
            with stoppable():
                work()
        except Stopped as stopped:
            self.say(f"{self._command}: stopped; {stopped.hint}", event="stopped")
        except KeyboardInterrupt:
            self._fail(["interrupted"], "", 130)
        except Exception as error:  # noqa: BLE001  the one place where every failure ends
            if self._debug:
                for line in _trace(error):
                    self._errors.print(line, markup=False)
            self._fail(*_explained(error), echo=isinstance(error, Aborted))

    @contextmanager
    def view(self, roles: dict[str, str]) -> Iterator[Listener]:
        """Show progress while the body runs."""
        from parties.cli.progress_view import View

        if self._json:
            yield self._line
            return
        with View(self.console, roles) as view:
            yield lambda event: view.show(printable_event(event))

    def warn(self, text: str) -> None:
        """Something that a person should look at."""
        if self._json:
            self._line({"event": "warning", "party": self._command, "text": text})
        else:
            self._errors.print(f"{self._command}: warning: {printable(text)}", markup=False)

    def result(self, metrics: dict[str, Any], folder: Path) -> None:
        """Say what came out, and where it lies."""
        if self._json:
            self._line({"event": "result", "party": self._command, "folder": str(folder)})
            return
        from parties.common.json_files import finite
        from parties.report import METRICS, REPORT
        from parties.report.any_run import table_of

        self.console.print(table_of(finite(metrics), self.console.width))
        self.console.print(f"report:  {folder / REPORT}\nmetrics: {folder / METRICS}")

    def say(self, text: str, **fields: Any) -> None:
        """One line, or one object."""
        if self._json:
            self._line(fields)
        else:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self, event: Event) -> None:
        sys.stdout.write(json.dumps(printable_event(event)) + "\n")
        sys.stdout.flush()

    def _fail(
        self, problems: Sequence[str], hint: str, code: int, *, echo: bool = False
    ) -> NoReturn:
        lines = [printable(problem) for problem in problems]
        if self._json:
            # Not through _line: every problem is a line of its own.
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
    """Make every way to the terminal safe: what its alphabet lacks, threads, libraries' logs."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    threading.excepthook = _thread_failed
    handler = logging.StreamHandler()
    handler.setFormatter(Reserved())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class Reserved(logging.Formatter):
    """A library's log record by its kind and place; its words may quote what is ours."""

    def format(self, record: logging.LogRecord) -> str:
        """One line without the record's words and without its exception's."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        where = f"{record.filename}:{record.lineno}"
        return printable(f"{record.name}: {record.levelname.lower()} at {where} {kind}".rstrip())


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    """What nobody expected in a thread: the trace without a library's words."""
    if args.exc_value is not None:
        sys.stderr.write("".join(f"{line}\n" for line in _trace(args.exc_value)))


def _explained(error: Exception) -> tuple[Sequence[str], str, int]:
    """Problems, hint and exit code; of what nobody expected no data, only kind and place."""
    code = exit_code(error)
    if code is not None:
        return _problems(error), str(getattr(error, "hint", "")), code
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return [f"unexpected {type(error).__name__} at {where}"], "--debug shows more", UNEXPECTED


def _problems(error: Exception) -> Sequence[str]:
    if isinstance(error, ConfigError):
        return error.problems
    # A party of a simulation has made its lines printable already.
    return str(error).splitlines() if isinstance(error, Failed) else [str(error)]


def _trace(error: BaseException) -> Iterator[str]:
    """Where an error arose, cause by cause: our own with its words, a library's without.

    A library may quote a value, an ID or a password; its kind and place are enough to find it.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _trace(cause)
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    known = isinstance(error, Exception) and exit_code(error) is not None
    words = printable(str(error)) if known else f"{len(str(error))} characters, not shown"
    yield f"{type(error).__name__}: {words}"
