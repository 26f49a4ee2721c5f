"""The agreement of a horizontal run: its text for a new federation, and changes of an old one."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import tomlkit

from configs.columns import AgreedColumn, width_of
from configs.config_file import validate_table
from configs.errors import ConfigError
from configs.horizontal import HorizontalAgreement
from parties.cli.setup.agreement import marked_parties, scaled_batch, scaled_hidden
from parties.cli.setup.clients.comparison import column_text, texts_text
from parties.cli.setup.clients.proposal import MIN_ROWS, plain_number
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import parsed
from parties.data.sources.csv_source import toml_text
from parties.horizontal.registry import SCHEMA

ASSUMED_CLIENT: Final = "assumed"  # name of a second client that has not joined yet
_NAMED: Final = "# named with --client"  # comment of a client that may join under this name


def federated_agreement_text(
    options: InitOptions, columns: Sequence[AgreedColumn], classes: Sequence[str], rows: int
) -> str:
    """Return the agreement that the first client proposes.

    Args:
        options: names of the federation, the server and the clients.
        columns: the proposed columns.
        classes: the classes of the labels.
        rows: number of rows of the client.
    """
    entries = (f"{{ name = {toml_text(each.name)}, {column_text(each)} }}" for each in columns)
    listed = "".join(f"    {entry},\n" for entry in entries)
    return f"""\
#:schema ./agreement.schema.json
# Agreement of the federation {options.federation}: the same file at all parties.
# `vfl schema --mode horizontal --out .` writes the schema with which editors complete this file;
# docs/configuration.md lists all keys.

federation = "{options.federation}"
mode = "horizontal"

# The columns that every client has, in this order. A range shows roughly, rounded outwards by at
# most a tenth of its width, the smallest and the largest number; a text that fewer than {MIN_ROWS}
# rows have is left out. A client whose rows are outside widens them with `vfl init --join`. The
# shape of a row is worked out from them.
columns = [
{listed}]

{_parties(options)}
[labels]
classes = {texts_text(classes)}

[model]
kind = "mlp"
hidden = [{scaled_hidden(width_of(columns))}]    # scaled with the columns, from 32 to 128

[training]
rounds = 50
# Scaled with the {rows} rows of {options.party}: from 32 to 512 rows a step.
batch = {scaled_batch(rows)}
learning_rate = 0.05
momentum = 0.9

[limits]
join_seconds = 3600.0    # how long the first party waits for the others
"""


def checked_horizontal_agreement(text: str, path: Path) -> HorizontalAgreement:
    """Return the agreement with this text; a second client is assumed if only one has joined.

    Raises:
        ConfigError: the agreement is not valid.
    """
    raw = parsed(text)
    if len([name for name, role in declared_roles(raw, path).items() if role == "client"]) == 1:
        raw["parties"][ASSUMED_CLIENT] = {"role": "client"}
    return validate_table(SCHEMA.agreement, raw, path, "")


def declared_roles(raw: dict[str, Any], path: Path) -> dict[str, str]:
    """Return the role of each party of an agreement that may lack clients.

    Raises:
        ConfigError: the agreement has no parties.
    """
    parties = raw.get("parties", {})
    if not isinstance(parties, dict) or not parties:
        raise ConfigError(f"{path} has no table [parties.NAME]", "name the agreement of a run")
    return {
        name: str(entry.get("role")) if isinstance(entry, dict) else ""
        for name, entry in parties.items()
    }


def named_clients(text: str) -> list[str]:
    """Return the clients that the agreement with this text has from ``--client`` of its start."""
    return marked_parties(text, _NAMED)


def changed_text(
    path: Path, text: str, columns: Sequence[AgreedColumn], classes: Sequence[str], client: str
) -> str:
    """Return the agreement's text with widened columns and classes; comments stay.

    Args:
        path: the file of the agreement, for messages.
        text: the text of the agreement.
        columns: the columns, in the agreed order.
        classes: the classes.
        client: a client to add; empty: no client is added.

    Raises:
        ConfigError: the client cannot be added as a table.
    """
    document: Any = tomlkit.parse(text)
    for entry, column in zip(document["columns"], columns, strict=True):
        key = "range" if column.vocabulary is None else "vocabulary"
        if column.range is None:
            values: list[Any] = list(column.vocabulary or ())
        else:
            values = [_number(each) for each in column.range]
        if list(entry[key]) != values:
            entry[key] = values
    if list(document["labels"]["classes"]) != list(classes):
        document["labels"]["classes"] = list(classes)
    changed = tomlkit.dumps(document)
    if client:
        changed = f'{changed.rstrip()}\n\n[parties.{client}]\nrole = "client"\n'
    try:
        parsed(changed)
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            f"{path}: no table [parties.{client}] can be added after 'parties = {{...}}'",
            'write each party as a table of its own: [parties.NAME] and role = "client"',
        ) from None
    return changed


def _number(value: float) -> int | float:
    """Return a number that TOML writes without a point if it is whole."""
    return int(value) if "." not in plain_number(value) and value.is_integer() else value


def _parties(options: InitOptions) -> str:
    """Return the tables [parties.NAME] of the server and of the named clients."""
    roles = {options.server: "server", **dict.fromkeys((options.party, *options.clients), "client")}
    marks = dict.fromkeys(options.clients, f"    {_NAMED}")
    return "".join(
        f'[parties.{name}]\nrole = "{role}"{marks.get(name, "")}\n' for name, role in roles.items()
    )
