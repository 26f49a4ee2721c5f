"""What the command line says: progress, results and failures, to people or to programs."""

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from parties.errors import exit_code
from parties.watch import Event, Listener
from protocol.errors import Aborted

UNEXPECTED = 1


class Teller:
    """One command's voice: text on a terminal, or one JSON object a line."""

    def __init__(self, command: str, *, json_lines: bool, debug: bool) -> None:
        self._command, self._json, self._debug = command, json_lines, debug
        self.console = Console(stderr=json_lines)
        self._errors = Console(stderr=True, soft_wrap=True, highlight=False)

    def guard(self, work: Callable[[], None]) -> None:
        """Do the work; end the process with the right code when it fails."""
        try:
            work()
        except KeyboardInterrupt:
            self._fail("interrupted", "", 130)
        except Exception as error:  # noqa: BLE001  the one place where every failure ends
            if self._debug:
                traceback.print_exc()
            self._fail(*_explained(error), echo=isinstance(error, Aborted))

    @contextmanager
    def view(self, roles: dict[str, str]) -> Iterator[Listener]:
        """Show progress while the body runs."""
        from parties.view import View

        if self._json:
            yield self._line
            return
        with View(self.console, roles) as view:
            yield view.show

    def result(self, metrics: dict[str, Any], folder: Path) -> None:
        """Say what came out, and where it lies."""
        if self._json:
            self._line({"event": "result", "party": self._command, "folder": str(folder)})
            return
        from parties.report import METRICS, REPORT
        from parties.report.terminal import table

        self.console.print(table(metrics, self.console.width))
        self.console.print(f"report:  {folder / REPORT}\nmetrics: {folder / METRICS}")

    def say(self, text: str, **fields: Any) -> None:
        """One line, or one object."""
        if self._json:
            self._line(fields)
        else:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self, event: Event) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def _fail(self, message: str, hint: str, code: int, *, echo: bool = False) -> NoReturn:
        if self._json:
            fields = {"party": self._command, "message": message, "hint": hint, "exit": code}
            self._line({"event": "error", "echo": echo, **fields})
        else:
            self._errors.print(f"[bold]{self._command}: error:[/] ", end="")
            self._errors.print(message, markup=False)
            if hint:
                self._errors.print(f"{self._command}: hint: {hint}", markup=False)
        raise SystemExit(code)


def _explained(error: Exception) -> tuple[str, str, int]:
    """Message, hint and exit code; of what nobody expected no data, only kind and place."""
    code = exit_code(error)
    if code is not None:
        return str(error), str(getattr(error, "hint", "")), code
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"unexpected {type(error).__name__} at {where}", "--debug shows more", UNEXPECTED
