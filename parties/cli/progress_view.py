"""Progress of a run: a live table of all parties on a terminal, else one line per phase."""

from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from parties.common.progress import Event, Progress

HUB_ROLES = {"active", "server"}
HEADINGS = ("party", "role", "phase", "", "steps/s", "traffic", "remaining")


class ProgressView:
    """Shows a live table on a terminal: a line per party with phase, bar, speed, bytes, time."""

    def __init__(self, console: Console, roles: dict[str, str]) -> None:
        self._console, self._roles = console, roles
        self._progress = {name: Progress(name) for name in roles}
        self._live = Live(self._table(), console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
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
            case "warning" | "note":
                self._console.print(_remark(event))

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


class PhaseLog:
    """Prints a line with the elapsed time at the start of each phase, for output into a file.

    The line also has the duration of the phase before. A simulation prints the phases of the hub,
    which controls all other parties.
    """

    def __init__(self, console: Console, roles: dict[str, str]) -> None:
        self._console = console
        self._shown = {name for name, role in roles.items() if role in HUB_ROLES} or set(roles)
        self._phases: dict[str, tuple[str, float]] = {}  # by party: phase and its start
        self._began = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for party in self._phases:
            self._print(party, "ended")

    def show(self, event: Event) -> None:
        """Print a line for an event that begins a phase, for a note and for a warning."""
        match event["event"]:
            case "progress" if event["party"] in self._shown:
                party, phase = event["party"], event["phase"].partition(", epoch")[0]
                if phase != self._phases.get(party, ("", 0.0))[0]:
                    self._print(party, phase)
                    self._phases[party] = phase, monotonic()
            case "warning" | "note":
                self._console.print(_remark(event), soft_wrap=True)

    def _print(self, party: str, phase: str) -> None:
        now = monotonic()
        before, began = self._phases.get(party, ("", now))
        elapsed = timedelta(seconds=int(now - self._began))
        line = f"{elapsed} {party}: {phase}"
        line += f" ({before} took {now - began:.1f} s)" if before else ""
        self._console.print(Text(line), soft_wrap=True)


def _remark(event: Event) -> Text:
    """Return a note or a warning; as Text, not markup, because a peer may have chosen its words."""
    kind = event["event"]
    return Text(f"{event['party']}: {kind}: {event['text']}", "yellow" if kind == "warning" else "")


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
