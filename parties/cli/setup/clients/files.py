"""The files of ``vfl init`` in the horizontal mode, and what a person must know of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.horizontal import HorizontalAgreement
from parties.cli.setup.clients.comparison import FieldComparison
from parties.cli.setup.files import InitFiles
from parties.cli.setup.table import (
    OpenedTable,
    column_source,
    column_uses,
    ignored_columns,
)
from parties.data.detection.columns import TableProposal
from parties.data.holding import Holding, read_with_options
from parties.data.party_settings import RowPartySettings
from parties.data.sources.csv_source import toml_text
from parties.data.sources.source import ReadOptions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FederatedFiles(InitFiles):
    """The files of one ``vfl init`` of the horizontal mode, checked but not written.

    Attributes:
        agreement: the agreement; with an assumed client if only one has joined.
        proposal: the use of the client's columns; None at the server.
        rows: number of rows of the client; 0 at the server.
        compared: the fields of an existing agreement beside the client's rows.
        rare: number of texts of a new agreement that too few rows have.
    """

    agreement: HorizontalAgreement
    proposal: TableProposal | None = None
    rows: int = 0
    compared: Sequence[FieldComparison] = ()
    rare: int = 0


def client_data(table: OpenedTable, proposal: TableProposal) -> list[str]:
    """Return the lines of the table [data] of a client's settings."""
    ids = ", ".join(map(toml_text, proposal.ids))
    named = f"id = {{ columns = [{ids}] }}    # names the rows in a list of rows to forget"
    return [
        *column_source(table),
        named if ids else 'id = "row"    # the name of the file and the number of the line',
        "# Ranges and vocabularies of the columns are in the agreement.",
        *column_uses(table, proposal),
        *ignored_columns(proposal),
    ]


def read_client_rows(settings: RowPartySettings, folder: Path, classes: Sequence[str]) -> Holding:
    """Read all rows of a client, which need not have all classes.

    Raises:
        DataError: a row cannot be used.
    """
    options = ReadOptions(folder, classes)
    return read_with_options(settings.data, options, active=True, several_classes=False)
