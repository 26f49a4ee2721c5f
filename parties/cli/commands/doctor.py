"""``vfl doctor``: checks a party's files, keys, clock, network and machine before a run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties.cli.console import Console
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    HubOption,
    OutOption,
    PartyOption,
    SetOption,
)

if TYPE_CHECKING:
    from rich.table import Table

    from parties.doctor.check import (
        ExaminedHorizontalParty,
        ExaminedLanguageParty,
        ExaminedVerticalParty,
        Finding,
    )

_STYLES = {"ok": "green", "warning": "yellow", "fail": "bold red", "unknown": "dim"}


@dataclass(frozen=True, slots=True)
class _DoctorOptions:
    """The options of ``vfl doctor``."""

    config: Path
    party: str
    hub: str | None
    data: Path | None
    data_full: bool
    certificates: Path | None
    out: Path
    changes: list[str]


def doctor_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    hub: HubOption = None,
    data: DataOption = None,
    data_full: Annotated[
        bool,
        typer.Option(
            "--data-full", help="Read all data, as a run does, not only the beginning of each file."
        ),
    ] = False,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Check a party's files, keys, clock, network and machine before a run.

    Give the same options as for the run. The command changes no file. It
    also prints the ε that the party has spent, beside the budget.
    Before you check a passive party or a client, start the hub (the active
    party or the server), because the command also checks the connection to
    the hub.

    Exit codes: 0 if no check fails, else the code of the first failure: 3
    config, 4 data, 5 identity, 6 peer, 7 storage, 8 policy, 9 integrity.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    options = _DoctorOptions(config, party, hub, data, data_full, certificates, out, changes or [])
    console.run(lambda: _doctor(options, console, json_lines=output is Format.JSON))


def _doctor(options: _DoctorOptions, console: Console, *, json_lines: bool) -> None:
    from parties.doctor.examination import first_exit_code

    waiting = "checking; a hub that does not answer takes 5 s"
    if json_lines:
        found = []
        for each in _findings(options):
            console.print("", **_fields(each))
            found.append(each)
    else:
        with console.terminal.status(waiting):
            found = list(_findings(options))
        console.terminal.print(_table(found))
    code = first_exit_code(found)
    states = [each.state.value for each in found]
    fails, warnings = states.count("fail"), states.count("warning")
    console.print(
        f"{fails} failed, {warnings} warnings, {states.count('ok')} ok",
        event="result", failed=fails, warnings=warnings, exit=code,
    )  # fmt: skip
    if code:
        raise SystemExit(code)


def _findings(options: _DoctorOptions) -> Iterator["Finding"]:
    from configs.errors import ConfigError
    from parties.doctor.check import fail

    try:
        party = _party(options)
    except ConfigError as error:  # without a config no other check is possible
        yield fail("config", error)
        return
    from parties.doctor.check import ExaminedHorizontalParty, ExaminedVerticalParty

    if isinstance(party, ExaminedVerticalParty):
        from parties.doctor.examination import examine_vertical

        yield from examine_vertical(party, whole_data=options.data_full)
    elif isinstance(party, ExaminedHorizontalParty):
        from parties.doctor.horizontal import examine_horizontal

        yield from examine_horizontal(party, whole_data=options.data_full)
    else:
        from parties.doctor.language import examine_language

        yield from examine_language(party, whole_data=options.data_full)


def _party(
    options: _DoctorOptions,
) -> "ExaminedVerticalParty | ExaminedHorizontalParty | ExaminedLanguageParty":
    from configs.horizontal import HorizontalAgreement
    from configs.language import LanguageAgreement
    from parties.cli.modes import read_runnable
    from parties.doctor.check import (
        ExaminedHorizontalParty,
        ExaminedLanguageParty,
        ExaminedVerticalParty,
    )
    from parties.session.setup import data_folder

    config = read_runnable(options.config, options.changes, options.party)
    settings = config.settings(options.party)
    common: dict[str, Any] = {
        "name": options.party,
        "settings": settings,
        "folder": data_folder(config.path, settings, options.data),
        "certificates": options.certificates or config.path.parent / settings.certificates,
        "out": options.out,
        "address": options.hub or settings.hub or settings.listen,
    }
    if isinstance(config.agreement, HorizontalAgreement):
        return ExaminedHorizontalParty(config=config, **common)
    if isinstance(config.agreement, LanguageAgreement):
        return ExaminedLanguageParty(config=config, **common)
    return ExaminedVerticalParty(config=config, **common)


def _fields(finding: "Finding") -> dict[str, object]:
    return {
        "event": "finding",
        "check": finding.check,
        "state": finding.state.value,
        "message": finding.message,
        "hint": finding.hint,
        "exit": finding.code,
    }


def _table(findings: Iterable["Finding"]) -> "Table":
    """Return a table of findings; cells are ``Text``, so that rich parses no path as markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    grid.add_column("check", no_wrap=True)
    grid.add_column("", no_wrap=True)
    grid.add_column("result", overflow="fold")
    for each in findings:
        message = Text(each.message)
        if each.hint:
            message.append(f"\n→ {each.hint}", style="italic")
        state = Text(each.state.value, style=_STYLES[each.state.value])
        grid.add_row(Text(each.check), state, message)
    return grid
