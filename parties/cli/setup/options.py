"""The options of ``vfl init``, checked."""

from dataclasses import dataclass
from pathlib import Path

from parties.cli.setup.table import TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """What the command line of ``vfl init`` states, with defaults filled in.

    Attributes:
        file: the table: a path, or the URL of a database.
        table: what is stated about the table.
        label: the column with the labels; None: the best candidate is proposed.
        federation: name of the federation.
        party: name of this party.
        partner: name of the other party; empty: the partner adds its entry with ``--join``.
        hub: address on which the active party listens, or to which a partner connects.
        out: folder of the files.
        yes: whether proposals are accepted without a question.
        force: whether files that exist are overwritten.
        declared_rows: number of rows that the other parties see; None: the true number.
        server: name of the server, in the horizontal mode.
        clients: names of other clients, in the horizontal mode; others add themselves.
    """

    file: str
    table: TableOptions
    label: str | None = None
    federation: str = ""
    party: str = ""
    partner: str = ""
    hub: str | None = None
    out: Path = Path()
    yes: bool = False
    force: bool = False
    declared_rows: int | None = None
    server: str = ""
    clients: tuple[str, ...] = ()
