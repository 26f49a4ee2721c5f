"""What several commands of ``vfl unlearn`` have: options, and how they find the requests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.console import Console
from parties.cli.options import Format

if TYPE_CHECKING:
    from parties.cli.requests.place import Place
    from parties.requests.local_desk import LocalDesk

RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="ID of the request.")]

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", help="Sign with the private key of the person who acts (vfl keys new)."),
]


@dataclass(frozen=True, slots=True)
class UnlearnRun:
    """The options that say whose requests a command uses, and how its output looks."""

    config: Path
    party: str
    out: Path
    certificates: Path | None
    master_key: Path | None
    changes: list[str]
    output: Format
    debug: bool
    data: Path | None = None

    @property
    def console(self) -> Console:
        """The output of the command."""
        return Console(self.party, json_lines=self.output is Format.JSON, debug=self.debug)

    @property
    def place(self) -> "Place":
        """Where the requests of the party are."""
        from parties.cli.requests.place import Place

        return Place(
            self.config,
            self.party,
            self.out,
            self.certificates,
            self.master_key,
            self.changes,
            self.data,
        )

    def with_desk(self, action: "Callable[[LocalDesk, Console], None]") -> None:
        """Call ``action`` with the requests of the party; print its errors."""
        console = self.console
        console.run(lambda: self._act(action, console))

    def _act(self, action: "Callable[[LocalDesk, Console], None]", console: Console) -> None:
        from parties.cli.requests.place import local_desk

        with local_desk(self.place) as local:
            action(local, console)
