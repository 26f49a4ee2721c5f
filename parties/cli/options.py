"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
    Path, typer.Argument(help="The agreement: one TOML file, equal at all parties.")
]
PartyOption = Annotated[
    str, typer.Option("--party", help="Run as the party with this name in the agreement.")
]
HubOption = Annotated[
    str | None,
    typer.Option("--hub", help="Dial this host:port, or listen there if this party is the hub."),
]
CERTIFICATES_HELP = "Read ca.pem, PARTY.pem and PARTY.key from this folder."
CertificatesOption = Annotated[Path | None, typer.Option("--certificates", help=CERTIFICATES_HELP)]
OutOption = Annotated[
    Path, typer.Option("--out", readable=False, help="Write runs into this folder.")
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="VFL_DATA",
        readable=False,
        help="Resolve relative data paths in this folder.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a setting: training.epochs=5, or settings.NAME.threads=4 of a party.",
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="Print text for people or JSON lines for programs.")
]
BeginOption = Annotated[
    Begin,
    typer.Option(
        "--begin",
        help="Resume if there are checkpoints (auto), remove them (fresh), require them (resume).",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error arose.")]


def refuse_leaking_variables(*, debug: bool) -> None:
    """Refuse environment variables by which libraries log TLS keys or the content of messages.

    A file of TLS keys breaks all confidentiality, so SSLKEYLOGFILE is always refused. gRPC's traces
    hold content of messages; with ``debug`` they are allowed.

    Raises:
        IdentityError: such a variable is set; the error names it.
    """
    found = ["SSLKEYLOGFILE"] if os.environ.get("SSLKEYLOGFILE") else []
    if not debug:
        found += ["GRPC_TRACE"] if os.environ.get("GRPC_TRACE") else []
        quiet = os.environ.get("GRPC_VERBOSITY", "NONE").upper() in ("", "NONE", "ERROR")
        found += [] if quiet else ["GRPC_VERBOSITY"]
    if found:
        raise IdentityError(
            f"{found[0]} is set: it makes a library log what TLS protects",
            f"unset {found[0]}" + ("" if "SSL" in found[0] else ", or give --debug"),
        )
