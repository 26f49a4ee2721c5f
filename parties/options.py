"""Options that several commands share, and what they may be."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Role(StrEnum):
    """What a party is."""

    ACTIVE = "active"
    PASSIVE = "passive"
    SERVER = "server"
    CLIENT = "client"


class Format(StrEnum):
    """How results and progress are said."""

    TEXT = "text"
    JSON = "json"


OutOption = Annotated[Path, typer.Option("--out", help="Folder of the runs.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", envvar="VFL_DATA", help="Folder in which relative data paths begin."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting of the agreement: training.epochs=5."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="For people, or for programs.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error arose.")]
