"""Commands that show requests and receipts."""

from pathlib import Path
from typing import Annotated

import typer

from parties.cli.commands.unlearn.options import RequestArgument, UnlearnRun
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DebugOption,
    Format,
    FormatOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(list_requests)


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: show_request(local, request, console, with_ids=ids))


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(print_status)


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: print_receipt(local, request, console))
