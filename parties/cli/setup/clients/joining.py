"""``vfl init --join`` in the horizontal mode: a client compares the columns; a server has none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from configs.columns import AgreedColumn
from configs.config_file import validate_table
from configs.errors import ConfigError
from configs.horizontal import HorizontalAgreement
from configs.toml_file import read_toml
from parties.cli.setup.clients.agreement import (
    changed_text,
    checked_horizontal_agreement,
    declared_roles,
    named_clients,
)
from parties.cli.setup.clients.comparison import compare_classes, compare_column
from parties.cli.setup.clients.files import FederatedFiles, client_data, read_client_rows
from parties.cli.setup.clients.proposal import column_values, count_text
from parties.cli.setup.files import settings_text
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import OpenedTable, open_table, parsed, stem_name
from parties.common.errors import DataError, UsageProblem
from parties.data.detection.columns import (
    MAX_CLASSES,
    ColumnProposal,
    ColumnUse,
    TableProposal,
)
from parties.data.holding import Holding
from parties.horizontal.registry import SCHEMA

_FEATURES = (ColumnUse.NUMERIC, ColumnUse.CATEGORICAL)
_SHOWN = 20  # names in a message


def join_as_server(options: InitOptions, path: Path) -> FederatedFiles:
    """Return the settings of the server of the agreement ``path``, checked but not written.

    Raises:
        ConfigError: the agreement is not valid, or has another server.
    """
    roles = declared_roles(read_toml(path, []), path)
    agreement = checked_horizontal_agreement(path.read_text(encoding="utf-8"), path)
    name = options.party or agreement.hub
    if name != agreement.hub:
        raise ConfigError(
            f"{path}: {name} is {roles.get(name, 'no party')}; the server is {agreement.hub}",
            f"omit --party, or give --party {agreement.hub}",
        )
    options = replace(options, party=name, out=path.parent)
    own, beside = settings_text(options, "listen", []), path.with_name(f"{name}.party.toml")
    validate_table(SCHEMA.hub, parsed(own), beside, "")
    told = [f"this party is {name}, the server of the agreement"]
    return FederatedFiles(
        options=options, path=path, agreement=agreement, texts={beside: own}, told=told
    )


def join_as_client(options: InitOptions, path: Path) -> FederatedFiles:
    """Return the agreement ``path`` with this client, and its settings, checked but not written.

    Fields of the agreement that do not cover the client's rows are widened.

    Raises:
        ConfigError: the agreement is not valid, lists no columns, or has no such client.
        DataError: the table cannot be used, lacks an agreed column, or has another feature.
    """
    roles = declared_roles(read_toml(path, []), path)
    text = path.read_text(encoding="utf-8")
    agreement = checked_horizontal_agreement(text, path)
    if not agreement.columns:
        raise ConfigError(
            f"{path} does not list the clients' columns under the key 'columns'",
            "start the agreement with `vfl init --role client FILE`, or write the settings of this "
            "client by hand: docs/horizontal.md has an example",
        )
    party = _client_name(options, path, text, roles)
    options = replace(options, party=party, out=path.parent)
    table = open_table(options.file, options.table, need_ids=False)
    proposal, own_classes = agreed_proposal(agreement, table, options.label)
    agreed = agreement.labels.classes
    classes, compared = compare_classes(agreed, own_classes)
    label = str(proposal.label)
    _refuse_many_classes(label, agreed, classes)
    own = settings_text(options, "hub", client_data(table, proposal), "the server")
    beside = path.with_name(f"{party}.party.toml")
    settings = validate_table(SCHEMA.spoke, parsed(own), beside, "")
    holding = read_client_rows(settings, path.parent, classes)  # type: ignore[arg-type]
    added = _told_classes(options, label, classes, classes[len(agreed) :], holding)
    values = column_values(holding, [each.name for each in agreement.columns])
    pairs = [compare_column(*pair) for pair in zip(agreement.columns, values, strict=True)]
    widened = tuple(column for column, _ in pairs)
    new = "" if party in roles else party
    changed, result = _changed(path, (text, agreement), widened, classes, new)
    return FederatedFiles(
        options=options,
        path=path,
        agreement=result,
        texts={path: changed, beside: own} if changed != text else {beside: own},
        extended=changed != text,
        proposal=proposal,
        rows=len(holding),
        compared=[compared, *(shown for _, shown in pairs)],
        told=[*_told_name(party, new), *_told_order(agreement, table), *added],
    )


def _client_name(options: InitOptions, path: Path, text: str, roles: dict[str, str]) -> str:
    """Return the name of the client: stated, or that of its file.

    Raises:
        ConfigError: the name is that of the server, or the agreement has named clients and the file
            has another name.
    """
    party = options.party or stem_name(options.file, "client")
    if roles.get(party, "client") != "client":
        raise ConfigError(
            f"{path}: {party} is the server", "give --party NAME with the name of this client"
        )
    named = named_clients(text)
    if named and not options.party and party not in roles:
        listed = ", ".join(named)
        raise ConfigError(
            f"{path} has named clients ({listed}), and {party}, the name of the file, is none",
            f"give --party with one of {listed}, or --party {party} to join as a new client",
        )
    return party


def _changed(
    path: Path,
    before: tuple[str, HorizontalAgreement],
    columns: tuple[AgreedColumn, ...],
    classes: tuple[str, ...],
    new: str,
) -> tuple[str, HorizontalAgreement]:
    """Return text and content of the agreement with these columns and classes, and a new client."""
    text, agreement = before
    if not new and not _differs(agreement, columns, classes):
        return before
    changed = changed_text(path, text, columns, classes, new)
    result = checked_horizontal_agreement(changed, path)
    if _differs(result, columns, classes):
        raise ConfigError(
            f"{path}: the columns or classes could not be widened in this file",
            "write each column in one line, as `vfl init --role client` does",
        )
    return changed, result


def agreed_proposal(
    agreement: HorizontalAgreement, table: OpenedTable, label: str | None
) -> tuple[TableProposal, list[str]]:
    """Return the use of the client's columns as agreed, and the classes in its label column.

    Raises:
        DataError: the label is not certain, an agreed column is missing, or there is another one.
    """
    agreed = {each.name: each for each in agreement.columns}
    label = label or _label(agreement, table)
    if label in agreed:
        raise DataError(
            f"--label: column {label!r} is an agreed feature", "name the column with the classes"
        )
    for name in agreed.keys() & {*table.ignored}:
        raise DataError(
            f"--ignore: the agreement lists column {name!r}, so every client needs it",
            "omit this --ignore, or agree on other columns",
        )
    found = table.proposal(label, agreement.labels.classes)
    marks = {"", *found.missing}
    classes = sorted(set(table.sample.columns[label]) - marks)
    if not set(classes) & {*agreement.labels.classes}:
        raise DataError(
            f"no row of {table.sample.file} has one of the agreed classes in column {label!r}: "
            f"{', '.join(agreement.labels.classes)}",
            "name the column with the classes: --label COLUMN; or write the classes as agreed: "
            + ", ".join(agreement.labels.classes),
        )
    names = [each.name for each in found.columns]
    missing = [name for name in agreed if name not in names]
    more = [
        each.name for each in found.columns if each.use in _FEATURES and each.name not in agreed
    ]
    _refuse_other_columns(table, missing, more)
    used = {name: _agreed_use(found, column) for name, column in agreed.items()}
    columns = [*used.values(), *(each for each in found.columns if each.name not in used)]
    return replace(found, columns=tuple(columns)), classes


def _agreed_use(found: TableProposal, column: AgreedColumn) -> ColumnProposal:
    """Return the proposal of one column with its agreed use."""
    (own,) = (each for each in found.columns if each.name == column.name)
    if own.use is ColumnUse.ID:
        raise DataError(
            f"column {column.name!r} is the ID here, but the agreement lists it as a feature",
            "name the column of IDs with --id COLUMN",
        )
    use = ColumnUse.CATEGORICAL if column.range is None else ColumnUse.NUMERIC
    return replace(own, use=use, reason="as agreed")


def _label(agreement: HorizontalAgreement, table: OpenedTable) -> str:
    """Return the only other column whose values are all agreed classes.

    Columns of features, of the ID and those of ``--ignore`` are not considered.

    Raises:
        DataError: there is no such column, or more than one.
    """
    known = {each.name for each in agreement.columns} | {*table.ids} | {*table.ignored}
    classes = agreement.labels.classes
    found = [
        name for name, cells in table.sample.columns.items()
        if name not in known and any(cells) and set(cells) <= {"", *classes}
    ]  # fmt: skip
    if len(found) == 1:
        return found[0]
    listed = f"{len(found)} columns" if found else "no column"
    raise DataError(
        f"{table.sample.file} has {listed} with only the agreed classes {', '.join(classes)}",
        "name the column with the classes: --label COLUMN",
    )


def _told_classes(
    options: InitOptions, label: str, classes: Sequence[str], added: Sequence[str], holding: Holding
) -> list[str]:
    """Return a note on each class that the agreement lacks, with its number of rows.

    Args:
        options: options of the command; ``--yes`` confirms new classes.
        label: column with the classes.
        classes: the agreed classes, and then those of ``added``.
        added: the new classes.
        holding: the client's rows, with indices of ``classes`` as labels.

    Raises:
        UsageProblem: there are new classes, and ``--yes`` is not given.
    """
    rows = Counter(np.asarray(holding.labels).tolist())
    counts = [(each, rows[classes.index(each)]) for each in added]
    if counts and not options.yes:
        listed = ", ".join(f"{each!r} ({count_text(count, 'row')})" for each, count in counts)
        agreed = ", ".join(classes[: -len(added)])
        raise UsageProblem(
            f"column {label!r} has {count_text(len(added), 'class', 'classes')} that the agreement "
            f"lacks: {listed}",
            f"new classes need --yes, and all parties see them; or write the classes as agreed: "
            f"{agreed}",
        )
    return [f"new class {each!r}: {count_text(count, 'row')}" for each, count in counts]


def _refuse_many_classes(label: str, agreed: Sequence[str], classes: Sequence[str]) -> None:
    if len(classes) > max(MAX_CLASSES, len(agreed)):
        raise DataError(
            f"column {label!r} has {len(classes) - len(agreed)} different texts that are no agreed "
            f"classes, and a label has at most {MAX_CLASSES} classes",
            f"name the column with the classes: --label COLUMN; or write the classes as agreed: "
            f"{', '.join(agreed)}",
        )


def _refuse_other_columns(table: OpenedTable, missing: Sequence[str], more: Sequence[str]) -> None:
    if missing:
        raise DataError(
            f"{table.sample.file} lacks {_named(missing)}, which the agreement lists",
            "add the column, with a value in at least one row, or agree on other columns",
        )
    if more:
        options = " ".join(f"--ignore {name!r}" for name in more[:_SHOWN])
        raise DataError(
            f"{table.sample.file} has {_named(more)}, which the agreement does not list",
            f"leave out what the other clients do not have: {options}",
        )


def _named(columns: Sequence[str]) -> str:
    more = ", ..." if len(columns) > _SHOWN else ""
    plural = "s" if len(columns) > 1 else ""
    return f"column{plural} {', '.join(map(repr, columns[:_SHOWN]))}{more}"


def _differs(
    agreement: HorizontalAgreement, columns: tuple[AgreedColumn, ...], classes: tuple[str, ...]
) -> bool:
    return (agreement.columns, agreement.labels.classes) != (columns, classes)


def _told_name(party: str, new: str) -> list[str]:
    return [f"this party is {party}, " + ("a new client" if new else "a client of the agreement")]


def _told_order(agreement: HorizontalAgreement, table: OpenedTable) -> list[str]:
    agreed = [each.name for each in agreement.columns]
    if [name for name in table.sample.columns if name in agreed] == agreed:
        return []
    return [f"the columns of {table.sample.file} are in another order: the agreed order is used"]
