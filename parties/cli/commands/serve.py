"""``vfl serve``: one party stays with its kept model; it predicts, and carries out requests."""

from pathlib import Path

from parties.cli.console import Console
from parties.cli.options import (
    CertificatesOption,
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    HttpOption,
    HubOption,
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)
from parties.cli.party_run import PartyRun, run_party


def serve_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    http: HttpOption = None,
    hub: HubOption = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Stay with the model that a training kept: predict, and carry out requests to forget.

    Run this command at every party after the training, in any order, and leave it running. The
    parties connect again after a restart or a broken connection. Any party raises requests with
    `vfl unlearn request`; they are carried out as soon as every party has approved them.
    SIGTERM ends the command with exit code 0; at the next start it continues where it was.

    Exit codes: 2 usage, 3 config, 4 data, 5 identity, 6 peer, 7 storage, 8
    policy, 9 integrity.
    """
    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    run = PartyRun(
        None,
        config,
        party,
        hub,
        data,
        certificates,
        out,
        changes or [],
        serve=True,
        http=http,
        master_key=master_key,
    )
    console.run(lambda: run_party(run, console))
