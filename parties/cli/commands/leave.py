"""``vfl leave``: a passive party leaves, erases its part of the model, and states so."""

from pathlib import Path
from typing import Annotated

import typer

from parties.cli.console import Console
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


def leave_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    statement: Annotated[
        Path, typer.Option(help="File for the signed statement, which the other parties receive.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking.")] = False,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Erase this party's part of the model, keys first, and sign a statement of what was erased.

    Run this command at the passive party that leaves, with the agreement that still names it. All
    versions, checkpoints and released embeddings are erased. The journal, the receipts and the
    signing key stay. Without --yes nothing is erased, and the error lists what would be.

    Exit codes: 2 usage, 3 config, 5 identity, 7 storage, 8 policy, 9 integrity.
    """
    from parties.cli.model_actions import leave_federation
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [])
    console.run(lambda: leave_federation(place, statement, console, confirmed=yes))
