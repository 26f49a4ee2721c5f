"""``vfl models``: the kept model of one party: its versions, an audit, going back, and erasing."""

from pathlib import Path
from typing import Annotated

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
    MasterKeyOption,
    OutOption,
    PartyOption,
    SetOption,
)

models_app = typer.Typer(
    cls=CheckedGroup,
    no_args_is_help=True,
    help="List and check the versions of a kept model, go back to one, erase some, or move it.\n\n"
    "Each command works on the files of one party. Run `rollback` and `remove` at every party, "
    "because a model consists of the parts of all parties.",
)


@models_app.command("list", epilog="Example: vfl models list people.toml --party shop")
def models_list_command(
    *,
    config: ConfigArgument,
    party: PartyOption,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """List the versions of the kept model: what made each, when, its size, and its state.

    The last line compares the size of all files with the size of the saved
    model.
    """
    from parties.cli.model_actions import list_models
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, None, master_key, changes or [])
    console.run(lambda: list_models(place, console))


@models_app.command("audit", epilog="Example: vfl models audit people.toml --party shop")
def models_audit_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    party: PartyOption,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Search for the IDs in this file, too: a CSV file with or without a header, or "
            "one ID per line."
        ),
    ] = None,
    data: DataOption = None,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Search all files of the party for IDs, feature values and embeddings of forgotten rows.

    The command searches for the IDs of this party's requests, for the IDs in
    the party's data that were forgotten, and for those in --ids. Feature
    values and embeddings are searched for rows that the data still has. The
    versions of the model are decrypted; a file that cannot be read is listed.

    Exit codes: 0 nothing was found, 9 something was found, or an erased
    version is still there.
    """
    from parties.cli.model_actions import audit_models
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [], data)
    console.run(lambda: audit_models(place, ids, console))


@models_app.command("rollback", epilog="Example: vfl models rollback people.toml 3 --party shop")
def models_rollback_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    number: Annotated[int, typer.Argument(min=1, help="Number of the version.")],
    party: PartyOption,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Go back to an earlier version that knows no forgotten row; newer versions are erased.

    Stop `vfl serve`, and run this command at every party. `vfl serve` then
    writes the files for `vfl predict` again.
    """
    from parties.cli.model_actions import roll_back_models
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [])
    console.run(lambda: roll_back_models(place, number, console))


@models_app.command("remove", epilog="Example: vfl models remove people.toml 1 --party shop")
def models_remove_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    number: Annotated[
        int | None, typer.Argument(min=1, help="Number of the version to erase.")
    ] = None,
    party: PartyOption,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Erase all versions, and the saved model of `vfl predict`; no later request is "
            "then possible.",
        ),
    ] = False,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Erase an earlier version of the kept model, or all versions: keys first, then files."""
    from parties.cli.model_actions import remove_models
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [])
    console.run(lambda: remove_models(place, number, console, every=every))


TransferKeyOption = Annotated[
    Path,
    typer.Option("--transfer-key", help="File of the key that encrypts this export alone."),
]


@models_app.command(
    "export",
    epilog="Example: vfl models export people.toml shop.vfl --party shop --transfer-key shop.key",
)
def models_export_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(help="The new file.")],
    party: PartyOption,
    transfer_key: TransferKeyOption,
    certificates: CertificatesOption = None,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the newest version, the requests and the receipts to one encrypted file.

    The file is a backup, or the way to another machine. The command writes a
    new key to --transfer-key: without it nobody can read the file. Earlier
    versions of the model stay behind, because they may know forgotten rows.
    Stop `vfl serve` first. The agreement, the settings and the certificates
    are not in the file.
    """
    from parties.cli.model_actions import export_model
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, certificates, master_key, changes or [])
    console.run(lambda: export_model(place, file, transfer_key, console))


@models_app.command(
    "import",
    epilog="Example: vfl models import people.toml shop.vfl --party shop --transfer-key shop.key",
)
def models_import_command(  # noqa: PLR0913  a command has the options that it has
    *,
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(help="A file of vfl models export.")],
    party: PartyOption,
    transfer_key: TransferKeyOption,
    out: OutOption = Path("runs"),
    master_key: MasterKeyOption,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Write the folder of the party from an exported file, all of it or nothing.

    The party must have no folder yet, because a folder may know requests that
    the file does not. With --master-key the keys are wrapped with it, whatever
    the exporting machine used. Run one party on one machine: after a move,
    remove the old folder.
    """
    from parties.cli.model_actions import import_model
    from parties.cli.requests.place import Place

    console = Console(party, json_lines=output is Format.JSON, debug=debug)
    place = Place(config, party, out, None, master_key, changes or [])
    console.run(lambda: import_model(place, file, transfer_key, console))
