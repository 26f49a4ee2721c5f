"""``vfl init --role client``: proposes a horizontal agreement and the first client's settings."""

from configs.config_file import validate_table
from parties.cli.setup.active import AGREEMENT, Confirm, proposed_label
from parties.cli.setup.clients.agreement import (
    checked_horizontal_agreement,
    federated_agreement_text,
)
from parties.cli.setup.clients.files import FederatedFiles, client_data, read_client_rows
from parties.cli.setup.clients.proposal import column_values, proposed_column
from parties.cli.setup.files import settings_text
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import open_table, parsed
from parties.common.errors import DataError, UsageProblem
from parties.data.detection.columns import ColumnUse
from parties.horizontal.registry import SCHEMA


def start_clients(options: InitOptions, confirm: Confirm | None) -> FederatedFiles:
    """Return the agreement and the settings of the first client, checked but not written.

    Args:
        options: the options of the command.
        confirm: asks a person a question; None: nobody can answer.

    Raises:
        UsageProblem: the label is neither stated nor confirmed, or is a number.
        DataError: the table cannot be used.
        ConfigError: a name is not legal.
    """
    table = open_table(options.file, options.table, need_ids=False)
    label = options.label or proposed_label(table, options, confirm)
    proposal = table.proposal(label)
    if not proposal.classes:
        raise UsageProblem(
            f"the label {label!r} is a number, and the horizontal mode predicts classes",
            "name a column with 2 to 20 classes: --label COLUMN",
        )
    if not proposal.features:
        raise DataError(
            f"{table.sample.file} has no numeric and no categorical column",
            "choose another table",
        )
    path = options.out / AGREEMENT
    beside = options.out / f"{options.party}.party.toml"
    own = settings_text(options, "hub", client_data(table, proposal), "the server")
    settings = validate_table(SCHEMA.spoke, parsed(own), beside, "")
    holding = read_client_rows(settings, options.out, proposal.classes)  # type: ignore[arg-type]
    uses = (ColumnUse.NUMERIC, ColumnUse.CATEGORICAL)
    order = [each.name for each in proposal.columns if each.use in uses]
    values = column_values(holding, order)
    columns = [proposed_column(each) for each in values]
    text = federated_agreement_text(options, columns, proposal.classes, len(holding))
    return FederatedFiles(
        options=options,
        path=path,
        agreement=checked_horizontal_agreement(text, path),
        texts={path: text, beside: own},
        proposal=proposal,
        rows=len(holding),
        rare=sum(len(each.rare()) for each in values),
        told=[f"all parties see the classes: {', '.join(map(repr, proposal.classes))}"],
    )
