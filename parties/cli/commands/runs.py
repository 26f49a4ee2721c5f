"""``vfl runs``: lists the shipped runs, which ``vfl simulate`` finds by name."""

from parties.cli.console import Console
from parties.cli.options import DebugOption, Format, FormatOption

_SHORTEST = 40  # characters of a summary on a narrow terminal


def runs_command(*, output: FormatOption = Format.TEXT, debug: DebugOption = False) -> None:
    """List the shipped runs: name, whether the run needs files (--data DIR), and content."""
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    console.run(lambda: _list(console))


def _list(console: Console) -> None:
    from textwrap import shorten

    from configs.shipped import shipped_runs

    found = shipped_runs()
    width = max(len(each.name) for each in found)
    for each in found:
        data = "--data DIR" if each.needs_data else ""
        before = f"{each.name:{width}}  {data:10}  "
        text = before + each.summary
        if console.terminal.is_terminal:
            room = max(console.terminal.width - len(before), _SHORTEST)
            text = before + shorten(each.summary, room, placeholder=" …")
        console.print(
            text,
            event="run", name=each.name, path=str(each.path), summary=each.summary,
            needs_data=each.needs_data,
        )  # fmt: skip
