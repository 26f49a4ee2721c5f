"""What all benches of papers can be asked for on the command line."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Out: TypeAlias = Annotated[
    Path, typer.Option("--out", help="Folder of finished runs, which are not repeated.")
]
Docs: TypeAlias = Annotated[
    Path | None,
    typer.Option("--docs", help="Folder of the pages: docs, or with --quick that of --out."),
]
Listed: TypeAlias = Annotated[Path, typer.Option("--experiments", help="The list of experiments.")]
TablesOption: TypeAlias = Annotated[
    str, typer.Option("--tables", help="Only these, like III,IV,8: numbers of tables and figures.")
]
Only: TypeAlias = Annotated[
    list[str] | None, typer.Option("--only", help="An experiment by its name; may be repeated.")
]
Seeds: TypeAlias = Annotated[
    int | None,
    typer.Option("--seeds", min=1, help="At most so many seeds of each experiment, from 0."),
]
AtOnce: TypeAlias = Annotated[
    int | None, typer.Option("--workers", min=1, help="Runs at a time; as many as there are cores.")
]
Gpu: TypeAlias = Annotated[
    bool, typer.Option("--gpu", help="Also the experiments that need a GPU.")
]
Quick: TypeAlias = Annotated[
    bool, typer.Option("--quick", help="One seed and short trainings: does all of it run?")
]
OnlyList: TypeAlias = Annotated[bool, typer.Option("--list", help="Show the runs and make none.")]


def words(text: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())
