"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from parties import __version__
from parties.session.setup import Begin
from protocol.errors import IdentityError


class Role(StrEnum):
    """Role of a party."""

    ACTIVE = "active"
    PASSIVE = "passive"
    SERVER = "server"
    CLIENT = "client"


class Format(StrEnum):
    """Format of a command's output."""

    TEXT = "text"
    JSON = "json"


ConfigArgument = Annotated[
    Path, typer.Argument(help="TOML file with the agreement, the same at all parties.")
]
PartyOption = Annotated[
    str, typer.Option("--party", help="Run as the party with this name in the agreement.")
]
HubOption = Annotated[
    str | None,
    typer.Option(
        "--hub",
        help="Host:port where the hub (active party or server) listens and other parties connect.",
    ),
]
CERTIFICATES_HELP = "Read ca.pem, PARTY.pem and PARTY.key from this folder."
CertificatesOption = Annotated[
    Path | None, typer.Option("--certificates", readable=False, help=CERTIFICATES_HELP)
]
OutOption = Annotated[
    Path, typer.Option("--out", readable=False, help="Write the results of runs into this folder.")
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="VFL_DATA",
        readable=False,
        help="Resolve relative paths of data files against this folder.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a setting, such as training.epochs=5; for one party: settings.NAME.threads=4.",
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="Print text for people or JSON lines for programs.")
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Spread the work over the Ray cluster at this address, or 'local': over the cores of "
        "this machine. All nodes need this version of vfl; data are read here and sent to them.",
    ),
]
BeginOption = Annotated[
    Begin,
    typer.Option(
        "--begin",
        help="auto: resume if there are checkpoints; fresh: delete checkpoints and start again; "
        "resume: fail if there are no checkpoints.",
    ),
]


RoleOption = Annotated[
    Role,
    typer.Option(help="Run in this role, which must be the party's role in the agreement."),
]
ConfigOption = Annotated[
    Path,
    typer.Option(
        readable=False, help="Read the agreement from this TOML file, the same at all parties."
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="VERSION",
        help="Go on from this version of the kept model (newest, or a number that vfl models list "
        "shows) with the present rows and parties, in place of new weights.",
    ),
]
TrackOption = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Write the figures of every epoch, round and step, and of the result, for "
        "tensorboard:FOLDER, mlflow or mlflow:ADDRESS. Repeatable.",
    ),
]
ServeOption = Annotated[
    bool,
    typer.Option("--serve", help="Stay with the kept model: predict and carry out requests."),
]
HttpOption = Annotated[
    str | None,
    typer.Option("--http", help="Answer predictions over HTTP at this host:port (active party)."),
]


def _credential() -> Path | None:
    """The master key among the credentials that systemd gives to a service."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    found = Path(folder) / "vfl-master-key" if folder else None
    return found if found is not None and found.exists() else None


MasterKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--master-key",
        envvar="VFL_MASTER_KEY_FILE",
        default_factory=_credential,
        show_default="the systemd credential vfl-master-key, if there is one",
        help="Wrap the keys of sealed files with the key in this file (64 hexadecimal digits).",
    ),
]


def _print_version(value: bool) -> None:
    if value:
        from protocol.envelope import PROTOCOL_VERSION

        typer.echo(f"vfl {__version__}, protocol {PROTOCOL_VERSION}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version",
        is_eager=True,
        callback=_print_version,
        help="Print the versions of vfl and of its protocol, and exit.",
    ),
]
SupervisedOption = Annotated[
    bool,
    typer.Option(
        "--supervised",
        hidden=True,  # vfl simulate alone starts parties like this
        help="Wait for other parties without time limits, and stop when standard input ends.",
    ),
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show where in the code an error occurred.")
]


def refuse_leaking_variables(*, debug: bool) -> None:
    """Raise an error if an environment variable makes a library log TLS keys or messages.

    Anyone who reads a file of TLS keys can decrypt all messages, so SSLKEYLOGFILE is always
    refused. The traces of gRPC quote messages; with ``debug``, these traces are allowed.

    Raises:
        IdentityError: one of these variables is set; the error names the variable.
    """
    found = ["SSLKEYLOGFILE"] if os.environ.get("SSLKEYLOGFILE") else []
    if not debug:
        found += ["GRPC_TRACE"] if os.environ.get("GRPC_TRACE") else []
        quiet = os.environ.get("GRPC_VERBOSITY", "NONE").upper() in ("", "NONE", "ERROR")
        found += [] if quiet else ["GRPC_VERBOSITY"]
    if found:
        raise IdentityError(
            f"the environment variable {found[0]} is set, so a library would log TLS keys or "
            "messages",
            f"unset {found[0]}" + ("" if "SSL" in found[0] else ", or give --debug"),
        )
