"""``vfl init``: writes the agreement and a party's settings from the party's table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parties.cli.console import Console
from parties.cli.options import DebugOption, Format, FormatOption, Role

if TYPE_CHECKING:
    from parties.cli.setup.clients.files import FederatedFiles
    from parties.cli.setup.files import InitFiles, NewFiles
    from parties.cli.setup.options import InitOptions
    from parties.data.detection.columns import TableProposal
    from parties.data.holding import Holding


FileArgument = Annotated[
    str | None,
    typer.Argument(
        help="CSV or Parquet file, or URL of a database (sqlite:///people.db); a server has none."
    ),
]
StartOption = Annotated[
    Role | None,
    typer.Option(
        "--role",
        help="active: this party has the labels; starts an agreement. client: starts one of the "
        "horizontal mode. server: joins one.",
    ),
]
JoinOption = Annotated[
    Path | None,
    typer.Option(
        "--join",
        readable=False,
        help="Join this agreement, as a passive party, as a client or as its server.",
    ),
]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column with the labels.")]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column of IDs; repeat it if several columns form the ID."),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--party",
        help="Name of this party; else, with --join, the name that --partner reserved, or the name "
        "of the file.",
    ),
]
PartnerOption = Annotated[
    str | None,
    typer.Option(
        "--partner",
        help="Reserve this name for the other party; else it adds itself with --join.",
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", help="Name of the server, with --role client; else server."),
]
ClientsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        help="Name of another client, with --role client; repeat it. Others add themselves with "
        "--join.",
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="Column that is not used; repeat it for several columns."),
]
FederationOption = Annotated[
    str | None,
    typer.Option("--federation", help="Name of the federation; else the name of the file."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--hub", help="Host:port where the active party or the server listens and others connect."
    ),
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
YesOption = Annotated[
    bool, typer.Option("--yes", help="Accept the proposed label, or new classes.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite files.")]


def init_command(  # noqa: PLR0913  a command has the options that it has
    *,
    file: FileArgument = None,
    role: StartOption = None,
    join: JoinOption = None,
    label: LabelOption = None,
    ids: IdOption = None,
    party: NameOption = None,
    partner: PartnerOption = None,
    server: ServerOption = None,
    clients: ClientsOption = None,
    ignore: IgnoreOption = None,
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
    The active party starts with --role active. A partner joins with --join.
    In the horizontal mode a client starts with --role client, and proposes
    ranges and vocabularies; each other client compares them with --join, and
    widens them if its rows need it. The server joins with --role server.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)
    columns = {"ids": tuple(ids or ()), "ignored": tuple(ignore or ())}
    form = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
    names = {"party": party or "", "partner": partner or "", "federation": federation or ""}
    others = {"server": server or "", "clients": tuple(clients or ())}
    given = {"label": label, "hub": hub, "declared_rows": declared_rows}
    flags = {"out": out, "yes": yes, "force": force}

    def work() -> None:
        described = {"table": table, **columns, **form}
        values = {"file": file or "", "table": described, **names, **others, **given, **flags}
        _init(_options(values, role, join), role, join, console)

    console.run(work)


def _options(values: dict[str, Any], role: Role | None, join: Path | None) -> "InitOptions":
    """Return the options, with default names where no name is given."""
    from parties.cli.setup.options import InitOptions
    from parties.cli.setup.table import TableOptions, stem_name

    values["table"] = TableOptions(**values["table"])
    name = stem_name(values["file"], "active")
    values["federation"] = values["federation"] or name
    if join is None and role is Role.CLIENT:
        values["server"] = values["server"] or "server"
    values["party"] = values["party"] or ("" if join else name)
    return InitOptions(**values)


def _init(options: "InitOptions", role: Role | None, join: Path | None, console: Console) -> None:
    from parties.cli.setup.active import start_federation
    from parties.cli.setup.joining import join_federation
    from parties.cli.setup.usage import check_init_options, is_horizontal

    horizontal = is_horizontal(role, join)
    check_init_options(options, role, join, horizontal=horizontal)
    if horizontal:
        _init_horizontal(options, role, join, console)
        return
    if join is None:
        new = start_federation(options, _confirm(console))
    else:
        new = join_federation(options, join)
    new.refuse_existing()
    holding = new.read()
    _write(new, console)
    _show_columns(new.proposal, console)
    _show_size(new, holding, console)
    _show_next(new, console)


def _init_horizontal(
    options: "InitOptions", role: Role | None, join: Path | None, console: Console
) -> None:
    from parties.cli.setup.clients.joining import join_as_client, join_as_server
    from parties.cli.setup.clients.next_steps import federated_next_steps
    from parties.cli.setup.clients.start import start_clients

    if join is None:
        new = start_clients(options, _confirm(console))
    else:
        new = (join_as_server if role is Role.SERVER else join_as_client)(options, join)
    new.refuse_existing()
    _write(new, console)
    if new.proposal is not None:
        _show_columns(new.proposal, console)
        _show_comparison(new, console)
        _show_federated_size(new, console)
    for text in federated_next_steps(new):
        console.print(text, event="next", step=text)


def _write(new: "InitFiles", console: Console) -> None:
    new.options.out.mkdir(parents=True, exist_ok=True)
    new.write()
    for path in new.texts:
        console.print(f"wrote {path}", event="wrote", path=str(path))
    for text in new.told:
        console.print(text, event="told", note=text)


def _confirm(console: Console) -> Any:
    import sys

    if not sys.stdin.isatty() or not console.terminal.is_terminal:
        return None
    return lambda question: typer.confirm(question, default=True)


def _show_columns(proposal: "TableProposal", console: Console) -> None:
    from parties.data.detection.columns import ColumnUse

    counts = {use.value: len(proposal.of_use(use)) for use in ColumnUse}
    ids = ", ".join(proposal.ids) or "row number"
    kind = f"{len(proposal.classes)} classes" if proposal.classes else "a number"
    label = f", label {proposal.label} ({kind})"
    console.print(
        f"ID {ids}{label if proposal.label else ''}, {counts['numeric']} numeric, "
        f"{counts['categorical']} categorical, {counts['ignored']} ignored columns",
        event="columns", **counts,
    )  # fmt: skip
    for each in proposal.of_use(ColumnUse.IGNORED):
        console.print(
            f"ignored: {each.name} ({each.reason})",
            event="ignored", column=each.name, reason=each.reason,
        )  # fmt: skip


def _show_comparison(new: "FederatedFiles", console: Console) -> None:
    """Print each field of the agreement beside the client's rows, and every change of it."""
    from parties.cli.setup.clients.proposal import count_text

    if new.rare:
        console.print(
            f"{count_text(new.rare, 'text')} of too few rows left out of the vocabularies",
            event="rare", texts=new.rare,
        )  # fmt: skip
    for each in new.compared:
        change = "covers the rows" if each.covers else f"→ {each.widened}"
        rare = (
            f"; {count_text(each.rare, 'text')} of few rows encoded as zeros" if each.rare else ""
        )
        console.print(
            f"{each.field}: {each.agreed} {change}{rare}",
            event="compared", field=each.field, covers=each.covers, agreed=each.agreed,
            widened=each.widened,
        )  # fmt: skip
    if new.extended:
        changed = sum(not each.covers for each in new.compared)
        widened = f" ({count_text(changed, 'field')} widened)" if changed else ""
        console.print(
            f"{new.path} was changed{widened}: all parties must take this file",
            event="changed", path=str(new.path), fields=changed,
        )  # fmt: skip


def _show_federated_size(new: "FederatedFiles", console: Console) -> None:
    from parties.doctor.machine import MODEL_COPIES, PROCESS_MEMORY
    from parties.horizontal.local.networks import build_whole_network

    plan = new.agreement
    count = sum(each.numel() for each in build_whole_network(plan, "shape").parameters())
    sent = plan.training.rounds * 2 * 4 * count  # the model to the client and back, float32
    memory = PROCESS_MEMORY + MODEL_COPIES * 4 * count
    console.print(
        f"size of a run: {new.rows} rows here, {len(plan.columns)} columns ({plan.shape[0]} "
        f"features), {count} parameters, {plan.training.rounds} rounds, about {sent / 1e6:.1f} MB "
        f"between the server and each client, about {memory / 1e9:.1f} GB of memory",
        event="size", rows=new.rows, columns=len(plan.columns), features=plan.shape[0],
        parameters=count, bytes=sent, memory=memory,
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
