"""``vfl unlearn``: requests to forget rows of a kept model, at one party and without a network.

A process that serves the same party may run at the same time; it sends the new events to the other
parties.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.arguments import CheckedGroup
from parties.cli.console import Console
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    HubOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)
from parties.cli.party_run import PartyRun, run_party
from unlearning.receipts.__main__ import verify_command

if TYPE_CHECKING:
    from parties.cli.requests.place import Place
    from parties.requests.local_desk import LocalDesk

unlearn_app = typer.Typer(
    cls=CheckedGroup,
    no_args_is_help=True,
    help="Request that a kept model forgets rows, decide about requests, and follow them.\n\n"
    "Each command works on the files of one party. `vfl serve` exchanges requests with the other "
    "parties and carries them out.",
)


class ListEncoding(StrEnum):
    """Encoding of a list of IDs."""

    UTF8 = "utf-8"
    CP1252 = "cp1252"


class NotifyResult(StrEnum):
    """Result of notifying a recipient of the data."""

    OPEN = "open"
    NOTIFIED = "notified"
    FAILED = "failed"
    NOT_A_RECIPIENT = "not-a-recipient"


class RequesterOf(StrEnum):
    """Who asked for the deletion."""

    SUBJECT = "subject"
    REPRESENTATIVE = "representative"
    CONTROLLER = "controller"
    COURT = "court"


RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="ID of the request.")]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", help="Sign with the private key of the person who acts (vfl keys new)."),
]
ReasonOption = Annotated[str, typer.Option(help="Reason, which all parties see.")]


IdsOption = Annotated[
    Path | None,
    typer.Option(
        help="Forget the rows with the IDs in this file: a CSV file with or without a header, "
        "or one ID per line."
    ),
]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", help="Forget the row with this ID; give the option for each ID."),
]
LabelOption = Annotated[str | None, typer.Option(help="Forget the rows of this class.")]
EverythingOption = Annotated[
    bool, typer.Option("--everything", help="At a client of a server: forget all its rows.")
]
RowsOption = Annotated[
    Path | None,
    typer.Option(
        help="At a client whose rows have no IDs: forget the rows with the numbers in this file, "
        "one per line."
    ),
]
TextsOption = Annotated[
    Path | None,
    typer.Option(
        help="At a client of the LLM mode: forget the texts in this file, one per line, by number "
        "or content hash (vfl language hashes)."
    ),
]
FractionOption = Annotated[
    float,
    typer.Option(min=1e-9, max=1, help="With --label or --everything: fraction of the rows."),
]
SeedOption = Annotated[
    int, typer.Option(min=0, help="With --label or --everything: seed for sampling the fraction.")
]
EncodingOption = Annotated[ListEncoding, typer.Option(help="Encoding of the file with the IDs.")]
GroundOption = Annotated[
    str,
    typer.Option(
        help="Why: gdpr-17-1-a to gdpr-17-1-f (the points of Article 17(1)), gdpr-16 (inaccurate "
        "data), contract, other-law or not-stated."
    ),
]
ReceivedOption = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"], help="Day on which the request was received. Default: today."
    ),
]
IdentityCheckOption = Annotated[
    str,
    typer.Option(
        help="How and by whom the identity of the requester was checked, as METHOD/NAME, "
        "without the name of the requester."
    ),
]
RequesterOption = Annotated[
    str, typer.Option(help="Office that makes the request, which all parties see; no data subject.")
]
ListIdsOption = Annotated[
    bool, typer.Option("--list-ids", help="Print each ID of the list, and what was found.")
]
RequestedByOption = Annotated[
    RequesterOf, typer.Option("--for", help="Who asked for the deletion.")
]

RecipientOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Name of a recipient to whom this party had disclosed the data; give the option for "
        "each recipient with the same result. No other party receives the name."
    ),
]
NotifyResultOption = Annotated[
    NotifyResult | None,
    typer.Option(
        help="With --recipient: open (still to be notified), notified, failed (with --reason), or "
        "not-a-recipient (removes the name)."
    ),
]
NotifiedOnOption = Annotated[
    datetime | None,
    typer.Option("--on", formats=["%Y-%m-%d"], help="Day of the notification. Default: today."),
]
FailureOption = Annotated[
    str,
    typer.Option(
        help="With --result failed: why the notification is impossible, or a disproportionate "
        "effort."
    ),
]
InformedOption = Annotated[
    bool, typer.Option("--requester", help="The person who asked was informed on this day.")
]


@dataclass(frozen=True, slots=True)
class _Run:
    """The options that say whose requests a command uses, and how its output looks."""

    config: Path
    party: str
    out: Path
    certificates: Path | None
    master_key: Path | None
    changes: list[str]
    output: Format
    debug: bool
    data: Path | None = None

    @property
    def console(self) -> Console:
        return Console(self.party, json_lines=self.output is Format.JSON, debug=self.debug)

    @property
    def place(self) -> "Place":
        from parties.cli.requests.place import Place

        return Place(
            self.config,
            self.party,
            self.out,
            self.certificates,
            self.master_key,
            self.changes,
            self.data,
        )

    def with_desk(self, action: "Callable[[LocalDesk, Console], None]") -> None:
        """Call ``action`` with the requests of the party; print its errors."""
        console = self.console
        console.run(lambda: self._act(action, console))

    def _act(self, action: "Callable[[LocalDesk, Console], None]", console: Console) -> None:
        from parties.cli.requests.place import local_desk

        with local_desk(self.place) as local:
            action(local, console)


@unlearn_app.command(
    "request",
    epilog="Example: vfl unlearn request people.toml --party shop --ids leavers.csv "
    "--ground gdpr-17-1-b",
)
def unlearn_request_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    ids: IdsOption = None,
    identity: IdOption = None,
    label: LabelOption = None,
    everything: EverythingOption = False,
    rows: RowsOption = None,
    texts: TextsOption = None,
    fraction: FractionOption = 1.0,
    seed: SeedOption = 0,
    encoding: EncodingOption = ListEncoding.UTF8,
    ground: GroundOption = "not-stated",
    received: ReceivedOption = None,
    identity_check: IdentityCheckOption = "",
    requester: RequesterOption = "",
    requested_by: RequestedByOption = RequesterOf.CONTROLLER,
    list_ids: ListIdsOption = False,
    key: KeyOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Request that the kept model forgets rows, and print the ID of the request.

    Unknown IDs are counted. Other parties receive row numbers, no ID. The same list is one request.
    In a run with a server, a client requests that all its rows, those of a class, or those of a
    list are forgotten; the other parties receive the number of rows of a list, no row. The server
    requests a class at all clients.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.requests.asking import Asked, make_request

    asked = Asked(
        ids=ids, identities=tuple(identity or ()), label=label, everything=everything,
        fraction=_decimal(fraction), seed=seed, encoding=encoding.value, ground=ground,
        received=received, identity_check=identity_check, requester=requester,
        requested_by=requested_by.value, key=key, lists_ids=list_ids, rows=rows, texts=texts,
    )  # fmt: skip
    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug, data)
    run.console.run(lambda: make_request(run.place, asked, run.console))


@unlearn_app.command(
    "correct",
    epilog="Example: vfl unlearn correct people.toml --party bank --labels corrected.csv",
)
def unlearn_correct_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    labels: Annotated[
        Path,
        typer.Option(
            help="CSV file with an ID and its right label on each line. The header names the "
            "columns as the party's data does; without a header, the label is the last column."
        ),
    ],
    encoding: EncodingOption = ListEncoding.UTF8,
    ground: GroundOption = "gdpr-16",
    received: ReceivedOption = None,
    identity_check: IdentityCheckOption = "",
    requester: RequesterOption = "",
    requested_by: RequestedByOption = RequesterOf.CONTROLLER,
    list_ids: ListIdsOption = False,
    key: KeyOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Request that the kept model unlearns wrong labels and learns the right ones.

    Only the active party has labels. The rows stay in the model; until the request is carried out,
    no prediction uses them. The other parties receive row numbers, and neither IDs nor labels.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.requests.asking import Asked, make_correction

    asked = Asked(
        ids=None, identities=(), label=None, fraction="1", seed=0, encoding=encoding.value,
        ground=ground, received=received, identity_check=identity_check, requester=requester,
        requested_by=requested_by.value, key=key, lists_ids=list_ids,
    )  # fmt: skip
    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug, data)
    run.console.run(lambda: make_correction(run.place, labels, asked, run.console))


@unlearn_app.command("list", epilog="Example: vfl unlearn list people.toml --party shop")
def unlearn_list_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """List all requests with their states and due dates."""
    from parties.cli.requests.showing import list_requests

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(list_requests)


@unlearn_app.command("show", epilog="Example: vfl unlearn show people.toml 01K... --party shop")
def unlearn_show_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    ids: Annotated[
        bool, typer.Option("--ids", help="Also print the IDs (personal data) and their classes.")
    ] = False,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Print what is known about one request."""
    from parties.cli.requests.showing import show_request

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: show_request(local, request, console, with_ids=ids))


@unlearn_app.command(
    "approve", epilog="Example: vfl unlearn approve people.toml 01K... --party shop"
)
def unlearn_approve_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    key: KeyOption = None,
    reason: ReasonOption = "",
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Approve a request for this party. The first decision of a party stands."""
    from parties.cli.requests.deciding import decide
    from parties.requests.events import EventKind

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    kind = EventKind.APPROVED
    run.with_desk(lambda local, console: decide(local, kind, request, reason, key, console))


@unlearn_app.command(
    "reject",
    epilog="Example: vfl unlearn reject people.toml 01K... --party shop --reason 'legal hold'",
)
def unlearn_reject_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    reason: Annotated[str, typer.Option(help="Reason, which all parties see.")],
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Reject a request for this party, which ends the request at all parties."""
    from parties.cli.requests.deciding import decide
    from parties.requests.events import EventKind

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    kind = EventKind.REJECTED
    run.with_desk(lambda local, console: decide(local, kind, request, reason, key, console))


@unlearn_app.command(
    "withdraw", epilog="Example: vfl unlearn withdraw people.toml 01K... --party shop"
)
def unlearn_withdraw_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    key: KeyOption = None,
    reason: ReasonOption = "",
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Withdraw a request of this party before it is carried out."""
    from parties.cli.requests.deciding import withdraw

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: withdraw(local, request, reason, key, console))


@unlearn_app.command(
    "extend",
    epilog="Example: vfl unlearn extend people.toml 01K... --party shop --until 2027-01-15 "
    "--notice 2026-11-20 --reason 'many requests'",
)
def unlearn_extend_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    until: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="New due date (YYYY-MM-DD).")
    ],
    notice: Annotated[
        datetime,
        typer.Option(
            formats=["%Y-%m-%d"], help="Day on which the requester was informed (YYYY-MM-DD)."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Reason, which all parties see.")],
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Move the due date of a request of this party, by at most two months."""
    from parties.cli.requests.deciding import extend

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    dates = until, notice
    run.with_desk(lambda local, console: extend(local, request, dates, reason, key, console))


@unlearn_app.command(
    "notify",
    epilog="Example: vfl unlearn notify people.toml 01K... --party shop "
    "--recipient 'Acme Analytics' --result notified --on 2026-11-24",
)
def unlearn_notify_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    recipient: RecipientOption = None,
    result: NotifyResultOption = None,
    on: NotifiedOnOption = None,
    reason: FailureOption = "",
    requester: InformedOption = False,
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Record who was informed that a request was carried out; without options, list them.

    GDPR Art. 19: each recipient of the data is notified of the erasure, unless this is
    impossible or a disproportionate effort. The other parties receive counts only, as soon
    as nobody is left to inform. The page of the party's receipt is written again.

    Exit codes: 2 usage, 3 config, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.notify_actions import Informed, notify

    informed = Informed(
        recipients=tuple(recipient or ()),
        result=None if result is None else result.value,
        on=on,
        reason=reason,
        requester=requester,
        key=key,
    )
    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: notify(local, request, informed, console))


@unlearn_app.command("status", epilog="Example: vfl unlearn status people.toml --party shop")
def unlearn_status_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Print how many requests are in each state, frozen rows, and reminders.

    Reminders are of due dates, and of recipients and requesters to inform.
    """
    from parties.cli.requests.showing import print_status

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(print_status)


@unlearn_app.command(
    "export", epilog="Example: vfl unlearn export people.toml --party shop --journal journal.jsonl"
)
def unlearn_export_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    journal: Annotated[
        Path | None,
        typer.Option(help="Write all events of all parties to this file, for vfl-verify."),
    ] = None,
    request: Annotated[
        str | None, typer.Option(help="ID of the request of --openings or --subject.")
    ] = None,
    openings: Annotated[
        Path | None,
        typer.Option(help="Write the IDs of a request and their salts (secret) to this file."),
    ] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option(help="ID of one person; repeat it for each further ID column."),
    ] = None,
    proof: Annotated[
        Path | None,
        typer.Option(
            help="Write the proof that the request has the person of --subject to this file, and "
            "print the salt, which vfl-verify needs, too."
        ),
    ] = None,
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the journal, the subjects of a request, or the proof of one, for vfl-verify."""
    from parties.cli.requests.evidence import EvidenceFiles, export

    files = EvidenceFiles(journal, request, openings, proof, tuple(subject or ()))
    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: export(local, files, key, console))


@unlearn_app.command(
    "import", epilog="Example: vfl unlearn import people.toml journal.jsonl --party shop"
)
def unlearn_import_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    journal: Annotated[
        Path, typer.Argument(metavar="FILE", help="File of `export --journal` or `vfl leave`.")
    ],
    party: PartyOption,
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Read an exported journal after all parties restored backups, or a statement of a party.

    The other parties receive the events from this party. After a restoration, `vfl serve` does the
    requests again that the restored model does not know, before anything else. The statement of a
    party that left (`vfl leave`) becomes part of the receipt of this, or of its page.

    Exit codes: 2 usage, 3 config, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.requests.evidence import import_journal

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.console.run(lambda: import_journal(run.place, journal, key, run.console))


@unlearn_app.command("purge", epilog="Example: vfl unlearn purge people.toml --party shop")
def unlearn_purge_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    request: Annotated[
        str | None,
        typer.Option(
            help="Delete the private record of this request. Default: of all requests that ended "
            "longer ago than requests.retention_days of the party settings."
        ),
    ] = None,
    key: KeyOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Delete the private records (IDs, salts, recipients) of ended requests of this party.

    The signed events stay, because they contain no ID. The subjects cannot be
    proved in receipts afterwards. A request that corrected labels is purged only when the party's
    data has the corrected labels.
    """
    from parties.cli.requests.deciding import purge

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug, data)
    run.with_desk(lambda local, console: purge(run.place, local, request, key, console))


@unlearn_app.command(
    "readmit",
    epilog="Example: vfl unlearn readmit people.toml --party shop --id 4711 --reason contract",
)
def unlearn_readmit_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    identity: Annotated[
        list[str], typer.Option("--id", help="Accept this ID again; give the option for each ID.")
    ],
    reason: Annotated[str, typer.Option(help="Reason, which all parties see.")],
    key: KeyOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Accept forgotten IDs again in a later training, with a new legal ground."""
    from parties.cli.requests.deciding import readmit

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.console.run(lambda: readmit(run.place, identity, reason, key, run.console))


def _decimal(fraction: float) -> str:
    """Return a fraction as the text that events contain: at most nine decimals."""
    return f"{fraction:.9f}".rstrip("0").rstrip(".")


@unlearn_app.command("run", epilog="Example: vfl unlearn run people.toml --party shop")
def unlearn_run_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    hub: HubOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Carry out the requests that are ready, once, and end: for parties that keep no process.

    Run this command at all parties at the same time. The parties exchange their journals, carry
    out what every party has approved, and sign the receipts.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage, 8
    policy, 9 integrity.
    """
    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    where = hub, data, certificates, out, changes or []
    run = PartyRun(None, config, party, *where, serve=True, once=True, master_key=master_key)
    console.run(lambda: run_party(run, console))


@unlearn_app.command(
    "receipt", epilog="Example: vfl unlearn receipt people.toml 01K... --party shop"
)
def unlearn_receipt_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    request: RequestArgument,
    party: PartyOption,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Verify the receipt of a request with the keys that this party knows, and print its files."""
    from parties.cli.requests.evidence import print_receipt

    run = _Run(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: print_receipt(local, request, console))


unlearn_app.command("verify", epilog="Example: vfl unlearn verify receipt.json --keys trust.json")(
    verify_command
)
