"""Options that several commands share, and what they may be."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from protocol.errors import IdentityError


class Role(StrEnum):
    """What a party is."""

    ACTIVE = "active"
    PASSIVE = "passive"
    SERVER = "server"
    CLIENT = "client"


class Begin(StrEnum):
    """How a run begins where an unfinished one left checkpoints."""

    AUTO = "auto"
    FRESH = "fresh"
    RESUME = "resume"


class Format(StrEnum):
    """How results and progress are said."""

    TEXT = "text"
    JSON = "json"


OutOption = Annotated[Path, typer.Option("--out", readable=False, help="Folder of the runs.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="VFL_DATA",
        readable=False,
        help="Folder in which relative data paths begin.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a setting: training.epochs=5, or seats.NAME.… of a seat in the file."
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="For people, or for programs.")]
BeginOption = Annotated[
    Begin,
    typer.Option(
        "--begin",
        help="Go on from checkpoints if there are any, throw them away, or insist on them.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error arose.")]


def refuse_telltales(*, debug: bool) -> None:
    """Refuse variables by which libraries write down keys, or what crosses the wire.

    Keys in a file end every promise, so that one is refused always; gRPC's traces hold content,
    and whoever says --debug may want them.

    Raises:
        IdentityError: names the variable.
    """
    found = ["SSLKEYLOGFILE"] if os.environ.get("SSLKEYLOGFILE") else []
    if not debug:
        found += ["GRPC_TRACE"] if os.environ.get("GRPC_TRACE") else []
        quiet = os.environ.get("GRPC_VERBOSITY", "NONE").upper() in ("", "NONE", "ERROR")
        found += [] if quiet else ["GRPC_VERBOSITY"]
    if found:
        raise IdentityError(
            f"{found[0]} is set: it makes a library write down what TLS protects",
            f"unset {found[0]}" + ("" if "SSL" in found[0] else ", or say --debug"),
        )
