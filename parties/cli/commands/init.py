"""``vfl init``: writes the agreement and a party's settings from the party's table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties.cli.console import Console
from parties.cli.options import DebugOption, Format, FormatOption, Role

if TYPE_CHECKING:
    from parties.cli.setup.files import NewFiles
    from parties.cli.setup.options import InitOptions
    from parties.data.holding import Holding


FileArgument = Annotated[
    str, typer.Argument(help="CSV or Parquet file, or URL of a database (sqlite:///people.db).")
]
StartOption = Annotated[
    Role | None,
    typer.Option("--role", help="active: this party has the labels; starts an agreement."),
]
JoinOption = Annotated[
    Path | None,
    typer.Option("--join", readable=False, help="Join this agreement as its passive party."),
]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column with the labels.")]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column of IDs; repeat it if several columns form the ID."),
]
NameOption = Annotated[
    str | None, typer.Option("--party", help="Name of this party; else the name of the file.")
]
PartnerOption = Annotated[
    str | None,
    typer.Option("--partner", help="Name of the other party; else it adds itself with --join."),
]
FederationOption = Annotated[
    str | None,
    typer.Option("--federation", help="Name of the federation; else the name of the file."),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--hub", help="Host:port where the active party listens and others connect."),
]
TableOption = Annotated[str | None, typer.Option("--table", help="Table of the database.")]
DelimiterOption = Annotated[
    str | None,
    typer.Option("--delimiter", help="Delimiter of a CSV file (, ; | or tab); else detected."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of a CSV file, such as cp1252; else detected."),
]
DecimalOption = Annotated[
    str | None,
    typer.Option("--decimal", help="Decimal separator of a CSV file (, or .); else detected."),
]
RowsOption = Annotated[
    int | None,
    typer.Option("--declared-rows", min=1, help="Number of rows that others see, at a partner."),
]
FolderOption = Annotated[
    Path,
    typer.Option("--out", help="Write the files into this folder; with --join the agreement's."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Accept the proposed label.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite files.")]


def init_command(  # noqa: PLR0913  a command has the options that it has
    *,
    file: FileArgument,
    role: StartOption = None,
    join: JoinOption = None,
    label: LabelOption = None,
    ids: IdOption = None,
    party: NameOption = None,
    partner: PartnerOption = None,
    federation: FederationOption = None,
    hub: AddressOption = None,
    table: TableOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    decimal: DecimalOption = None,
    declared_rows: RowsOption = None,
    out: FolderOption = Path(),
    yes: YesOption = False,
    force: ForceOption = False,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the agreement and this party's settings from this party's table.

    The command detects separators, encoding, IDs, label and the use of each
    column, reads all rows as a run does, and prints the size of a run and the
    next commands. It overwrites no file without --force.
    The active party starts with --role active. The partner joins with --join.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    form = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
    names = {"party": party or "", "partner": partner or "", "federation": federation or ""}
    given = {"label": label, "hub": hub, "declared_rows": declared_rows}
    flags = {"out": out, "yes": yes, "force": force}

    def work() -> None:
        from parties.cli.setup.table import TableOptions

        described = TableOptions(table=table, ids=tuple(ids or ()), **form)
        values = {"file": file, "table": described, **names, **given, **flags}
        _init(_options(values, join), role, join, console)

    console.run(work)


def _options(values: dict[str, Any], join: Path | None) -> "InitOptions":
    """Return the options with the name of the file where no name is given."""
    from parties.cli.setup.options import InitOptions
    from parties.cli.setup.table import stem_name

    name = stem_name(values["file"], "active")
    values["federation"] = values["federation"] or name
    values["party"] = values["party"] or ("" if join else name)
    return InitOptions(**values)


def _init(options: "InitOptions", role: Role | None, join: Path | None, console: Console) -> None:
    from parties.cli.setup.active import start_federation
    from parties.cli.setup.joining import join_federation

    _refuse_unsuitable(options, role, join)
    if join is None:
        new = start_federation(options, _confirm(console))
    else:
        new = join_federation(options, join)
    new.refuse_existing()
    holding = new.read()
    options.out.mkdir(parents=True, exist_ok=True)
    new.write()
    for path in new.texts:
        console.print(f"wrote {path}", event="wrote", path=str(path))
    _show_columns(new, console)
    _show_size(new, holding, console)
    _show_next(new, console)


def _refuse_unsuitable(options: "InitOptions", role: Role | None, join: Path | None) -> None:
    from parties.cli.arguments import check_hub_address
    from parties.cli.setup.table import is_legal_name
    from parties.common.errors import UsageProblem

    if join is None and role is not Role.ACTIVE:
        raise UsageProblem(
            "vfl init needs --role active or --join AGREEMENT",
            "the party with the labels gives --role active; its partner gives --join with the "
            "agreement that the active party has sent",
        )
    if join is not None and role not in (None, Role.PASSIVE):
        raise UsageProblem(
            f"--join is for the passive party, not for --role {role}", "remove --role"
        )
    only: dict[str, object] = {"--declared-rows": options.declared_rows}
    if join is not None:
        only = {"--label": options.label, "--partner": options.partner}
    for option, value in only.items():
        if value:
            other = "the active party" if join else "a party that joins"
            raise UsageProblem(f"{option} is for {other}", f"remove {option}")
    named = {"--party": options.party, "--partner": options.partner}
    for option, name in {**named, "--federation": options.federation}.items():
        if name and not is_legal_name(name):
            raise UsageProblem(
                f"{option} {name[:40]}: a name has lower-case letters, digits and hyphens",
                "begin with a letter, and write at most 31 characters",
            )
    if options.partner and options.partner == options.party:
        raise UsageProblem("--partner and --party are the same", "give the partner another name")
    if options.hub:
        check_hub_address(options.hub, dials=join is not None)


def _confirm(console: Console) -> Any:
    import sys

    if not sys.stdin.isatty() or not console.terminal.is_terminal:
        return None
    return lambda question: typer.confirm(question, default=True)


def _show_columns(new: "NewFiles", console: Console) -> None:
    from parties.data.detection.columns import ColumnUse

    counts = {use.value: len(new.proposal.of_use(use)) for use in ColumnUse}
    ids = ", ".join(new.proposal.ids)
    kind = f"{len(new.proposal.classes)} classes" if new.proposal.classes else "a number"
    label = f", label {new.proposal.label} ({kind})"
    console.print(
        f"ID {ids}{label if new.proposal.label else ''}, {counts['numeric']} numeric, "
        f"{counts['categorical']} categorical, {counts['ignored']} ignored columns",
        event="columns", **counts,
    )  # fmt: skip
    for each in new.proposal.of_use(ColumnUse.IGNORED):
        console.print(
            f"ignored: {each.name} ({each.reason})",
            event="ignored", column=each.name, reason=each.reason,
        )  # fmt: skip


def _show_size(new: "NewFiles", holding: "Holding", console: Console) -> None:
    import numpy as np

    from parties.cli.setup.sizing import run_size
    from parties.data.preprocess import fit_preprocessing
    from parties.doctor.check import ExaminedVerticalParty
    from parties.doctor.machine import estimate_memory

    party = ExaminedVerticalParty(
        config=new.config, name=new.options.party, settings=new.settings,
        folder=new.path.parent, certificates=Path(), out=Path("runs"), address=None,
    )  # fmt: skip
    own = max(1, fit_preprocessing(holding, np.arange(len(holding))).width)
    size = run_size(new.agreement, len(holding), dict.fromkeys(new.agreement.feature_parties, own))
    memory = estimate_memory(party)
    console.print(
        f"size of a run: {len(holding)} rows, {new.proposal.features} columns ({own} features), "
        f"at most {memory / 1e9:.1f} GB of memory, {size.sent / 1e6:.1f} MB between the parties, "
        f"about {size.seconds / 60:.1f} minutes (bytes from the agreement, if all rows are common; "
        f"time from a step measured here, {size.step * 1e3:.1f} ms, and recorded constants for "
        "messages without network delay)",
        event="size", rows=len(holding), columns=new.proposal.features, features=own,
        memory=memory, bytes=size.sent, steps=size.steps, seconds=size.seconds,
    )  # fmt: skip


def _show_next(new: "NewFiles", console: Console) -> None:
    from parties.cli.setup.next_steps import next_steps

    for text in next_steps(new):
        console.print(text, event="next", step=text)
