"""Commands that exchange requests: as files, or in one session with the other parties."""

from pathlib import Path
from typing import Annotated

import typer

from parties.cli.commands.unlearn.options import KeyOption, UnlearnRun
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
    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.with_desk(lambda local, console: export(local, files, key, console))


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

    run = UnlearnRun(config, party, out, certificates, master_key, changes or [], output, debug)
    run.console.run(lambda: import_journal(run.place, journal, key, run.console))


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
