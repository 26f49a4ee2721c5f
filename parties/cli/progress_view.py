"""Live progress view: a line per party with phase, bar, speed, bytes and remaining time."""

from contextlib import suppress
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from parties.common.progress import Event, Progress

HEADINGS = ("party", "role", "phase", "", "steps/s", "traffic", "remaining")


class ProgressView:
    """Shows progress of all parties; without a terminal, shows only notes and warnings."""

    def __init__(self, console: Console, roles: dict[str, str]) -> None:
        self._console, self._roles = console, roles
        self._progress = {name: Progress(name) for name in roles}
        self._live = Live(self._table(), console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self._live.stop()

    def show(self, event: Event) -> None:
        """Show one event that a party sent, such as progress or a warning."""
        match event["event"]:
            case "progress":
                fields = {name: event[name] for name in Progress.__slots__}
                self._progress[event["party"]] = Progress(**fields)
                self._live.update(self._table())
            case "warning" | "note" as kind:
                line = f"{event['party']}: {kind}: {event['text']}"
                # Text, not markup: a peer may have chosen words of the event.
                self._console.print(Text(line, "yellow" if kind == "warning" else ""))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1), header_style="dim")
        for heading in HEADINGS:
            table.add_column(heading, justify="right" if heading in HEADINGS[4:] else "left")
        for name, progress in self._progress.items():
            table.add_row(
                name,
                self._roles[name],
                progress.phase,
                _bar(progress),
                progress.pace,
                format_bytes(progress.size),
                "" if progress.remaining is None else f"{progress.remaining:.0f} s",
            )
        return table


def _bar(progress: Progress) -> ProgressBar:
    if progress.total is None:
        return ProgressBar(total=None, pulse=True, width=24)
    return ProgressBar(total=progress.total, completed=progress.done, width=24)


def format_bytes(size: float) -> str:
    """Return a size in bytes as text with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
