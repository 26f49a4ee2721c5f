"""Text of the agreement that ``vfl init`` proposes, with defaults that scale with the table."""

from typing import Final

import tomlkit

from parties.cli.setup.options import InitOptions
from parties.data.detection.columns import TableProposal
from parties.data.sources.csv_source import toml_text

_STEPS: Final = 150  # an epoch has about this many steps
_BATCHES, _HIDDEN, _WIDTHS = (32, 512), (32, 128), (8, 32)  # smallest and largest values
PARTNER_MARK: Final = "# named with --partner"  # comment of a name that a partner may take
_TRAINED: Final = 0.7  # fraction of the rows that the default split trains


def scaled_batch(rows: int) -> int:
    """Return the rows of a batch: the power of two from 32 to 512 for about 150 steps an epoch."""
    return _power(_TRAINED * rows / _STEPS, *_BATCHES)


def scaled_hidden(features: int) -> int:
    """Return the width of the hidden layer: twice the columns, as a power of two, 32 to 128."""
    return _power(2 * features, *_HIDDEN)


def scaled_width(features: int) -> int:
    """Return the width of the embeddings: the columns, as a power of two, 8 to 32."""
    return _power(features, *_WIDTHS)


def agreement_text(options: InitOptions, proposal: TableProposal, rows: int) -> str:
    """Return the agreement; without a partner, the partner adds its entry with ``--join``.

    A partner's table is assumed to have as many columns as the active party's, and at least one.

    Args:
        options: the options of the command.
        proposal: the use of the columns of the active party's table.
        rows: number of rows of the table.
    """
    features = proposal.features
    entries = [party_entry(options.party, "active", features)]
    if options.partner:
        columns = max(1, features)
        entries.append(party_entry(options.partner, "passive", columns, PARTNER_MARK))
    parties = "\n".join(entries)
    return f"""\
#:schema ./agreement.schema.json
# Agreement of the federation {options.federation}: the same file at all parties.
# `vfl schema --out .` writes the schema with which editors complete this file;
# docs/configuration.md lists all keys.

federation = "{options.federation}"

{_labels(proposal)}

{parties}
[psi]
minimum = 100    # the run stops if fewer rows are common; a small number tells more about a row

[training]
# Scaled with the {rows} rows of {options.party}: about {_STEPS} steps an epoch,
# from 32 to 512 rows a step.
batch = {scaled_batch(rows)}
epochs = 20
patience = 5     # stop after 5 epochs without a lower loss on validation rows
learning_rate = 0.001

[limits]
join_seconds = 3600.0    # how long the first party waits for the others
"""


def _labels(proposal: TableProposal) -> str:
    """Return the table [labels]."""
    if proposal.task == "classification":
        return f"[labels]\nclasses = [{', '.join(map(toml_text, proposal.classes))}]"
    return f"""\
[labels]
# {toml_text(proposal.label or "")} is a number: the model predicts it in its own unit. For a label
# of few classes, write classes = ["...", "..."] in place of the next two keys.
task = "regression"
loss = "squared"    # or "absolute", with which few large errors count less"""


def party_entry(name: str, role: str, features: int, mark: str = "") -> str:
    """Return a party's table in the agreement; an active party without columns has no network.

    Args:
        name: name of the party.
        role: role of the party.
        features: number of the party's columns.
        mark: comment beside the role.
    """
    lines = [f"[parties.{name}]", f'role = "{role}"{mark and f"    {mark}"}']
    if features:
        lines += [
            f"# Scaled with {features} columns: embeddings of 8 to 32 numbers, and",
            "# a hidden layer of 32 to 128.",
            f"width = {scaled_width(features)}",
            f'bottom = {{ kind = "mlp", hidden = [{scaled_hidden(features)}] }}',
        ]
    return "\n".join([*lines, ""])


def marked_parties(text: str, mark: str) -> list[str]:
    """Return the parties whose role has the comment ``mark`` in the agreement with this text."""
    parties = tomlkit.parse(text)["parties"]
    roles = {name: entry.get("role") for name, entry in parties.items() if isinstance(entry, dict)}
    return [name for name, role in roles.items() if role and role.trivia.comment == mark]


def _power(wanted: float, least: int, most: int) -> int:
    """Return the smallest power of two that is at least ``wanted``, from ``least`` to ``most``."""
    found = least
    while found < min(wanted, most):
        found *= 2
    return found
