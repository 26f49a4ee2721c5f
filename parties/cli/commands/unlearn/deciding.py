"""Commands of a person who decides about a request, or records what was done about it."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from parties.cli.commands.unlearn.options import KeyOption, RequestArgument, UnlearnRun
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)


class NotifyResult(StrEnum):
    """Result of notifying a recipient of the data."""

    OPEN = "open"
    NOTIFIED = "notified"
    FAILED = "failed"
    NOT_A_RECIPIENT = "not-a-recipient"


ReasonOption = Annotated[str, typer.Option(help="Reason, which all parties see.")]

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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    kind = EventKind.APPROVED
    run.with_desk(lambda local, console: decide(local, kind, request, reason, key, console))


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    kind = EventKind.REJECTED
    run.with_desk(lambda local, console: decide(local, kind, request, reason, key, console))


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: withdraw(local, request, reason, key, console))


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    dates = until, notice
    run.with_desk(lambda local, console: extend(local, request, dates, reason, key, console))


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
    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: notify(local, request, informed, console))


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

    run = UnlearnRun(
        config, party, out, certificates, master_key, changes or [], output, debug, data
    )
    run.with_desk(lambda local, console: purge(run.place, local, request, key, console))
