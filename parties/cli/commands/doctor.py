"""``vfl doctor``: what would keep a party from running here, and what to do about it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.console import Teller
from parties.cli.options import (
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    OutOption,
    SetOption,
)

if TYPE_CHECKING:
    from rich.table import Table

    from parties.doctor.check import Examined, Finding, HorizontalExamined, LanguageExamined

_STYLES = {"ok": "green", "warning": "yellow", "fail": "bold red", "unknown": "dim"}


@dataclass(frozen=True, slots=True)
class _Visit:
    """The options of ``vfl doctor``."""

    config: Path
    seat: str
    hub: str | None
    data: Path | None
    data_full: bool
    certificates: Path | None
    out: Path
    changes: list[str]


def doctor(  # noqa: PLR0913  a command has the options that it has
    *,
    config: Annotated[Path, typer.Argument(help="The agreement: one TOML file that all share.")],
    seat: Annotated[str, typer.Option(help="Our name in the agreement.")],
    hub: Annotated[
        str | None, typer.Option(help="host:port to dial, or to listen on if we are the hub.")
    ] = None,
    data: DataOption = None,
    data_full: Annotated[
        bool, typer.Option("--data-full", help="Read all rows as a run does.")
    ] = False,
    certificates: Annotated[
        Path | None, typer.Option(help="Folder with ca.pem, SEAT.pem and SEAT.key.")
    ] = None,
    out: OutOption = Path("runs"),
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Check all that one party needs before a run: files, keys, clock, network, machine.

    Give it the options that the run will have. At a passive party the hub should be up: start the
    active party first, it waits for the others. Nothing is changed anywhere.

    Exit codes: 0 when nothing fails, else that of the first failure: 3 config, 4 data,
    5 identity, 6 peer, 7 storage, 8 policy.
    """
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)
    visit = _Visit(config, seat, hub, data, data_full, certificates, out, changes or [])
    told.guard(lambda: _doctor(visit, told, json_lines=output is Format.JSON))


def _doctor(visit: _Visit, told: Teller, *, json_lines: bool) -> None:
    from parties.doctor.examination import first_code

    waiting = "looking; a hub that does not answer takes 5 s"
    if json_lines:
        found = []
        for each in _findings(visit):
            told.say("", **_fields(each))
            found.append(each)
    else:
        with told.console.status(waiting):
            found = list(_findings(visit))
        told.console.print(_table(found))
    code = first_code(found)
    states = [each.state.value for each in found]
    fails, warnings = states.count("fail"), states.count("warning")
    told.say(
        f"{fails} failed, {warnings} to look at, {states.count('ok')} ok",
        event="result", failed=fails, warnings=warnings, exit=code,
    )  # fmt: skip
    if code:
        raise SystemExit(code)


def _findings(visit: _Visit) -> Iterator["Finding"]:
    from configs.errors import ConfigError
    from parties.doctor.check import fail

    try:
        examined = _examined(visit)
    except ConfigError as error:  # without a config there is nothing to look at
        yield fail("config", error)
        return
    from parties.doctor.check import Examined, HorizontalExamined

    if isinstance(examined, Examined):
        from parties.doctor.examination import examine

        yield from examine(examined, whole_data=visit.data_full)
    elif isinstance(examined, HorizontalExamined):
        from parties.doctor.horizontal import examine_horizontal

        yield from examine_horizontal(examined, whole_data=visit.data_full)
    else:
        from parties.doctor.language import examine_language

        yield from examine_language(examined, whole_data=visit.data_full)


def _examined(visit: _Visit) -> "Examined | HorizontalExamined | LanguageExamined":
    from configs.any_file import read_any
    from configs.federated_file import HorizontalConfig, LanguageConfig
    from parties.doctor.check import Examined, HorizontalExamined, LanguageExamined

    config = read_any(visit.config, visit.changes)
    seat = config.seat(visit.seat)
    beside = config.path.parent
    folder = visit.data or beside / (seat.folder or Path())
    certificates = visit.certificates or beside / seat.certificates
    address = visit.hub or seat.hub or seat.listen
    if isinstance(config, HorizontalConfig):
        return HorizontalExamined(
            config=config, name=visit.seat, seat=seat, folder=folder,
            certificates=certificates, out=visit.out, address=address,
        )  # fmt: skip
    if isinstance(config, LanguageConfig):
        return LanguageExamined(
            config=config, name=visit.seat, seat=seat, folder=folder,
            certificates=certificates, out=visit.out, address=address,
        )  # fmt: skip
    return Examined(
        config=config, name=visit.seat, seat=config.seat(visit.seat), folder=folder,
        certificates=certificates, out=visit.out, address=address,
    )  # fmt: skip


def _fields(finding: "Finding") -> dict[str, object]:
    return {
        "event": "finding",
        "subject": finding.subject,
        "state": finding.state.value,
        "said": finding.said,
        "hint": finding.hint,
        "exit": finding.code,
    }


def _table(findings: Iterable["Finding"]) -> "Table":
    """Texts are Text throughout, so that no path or name can be markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    grid.add_column("what", no_wrap=True)
    grid.add_column("", no_wrap=True)
    grid.add_column("found", overflow="fold")
    for each in findings:
        said = Text(each.said)
        if each.hint:
            said.append(f"\n→ {each.hint}", style="italic")
        state = Text(each.state.value, style=_STYLES[each.state.value])
        grid.add_row(Text(each.subject), state, said)
    return grid
