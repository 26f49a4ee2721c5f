"""``vfl init --role active``: proposes the agreement and the active party's settings."""

from collections.abc import Callable

from parties.cli.setup.agreement import agreement_text, party_entry
from parties.cli.setup.files import NewFiles, checked_agreement, checked_settings, settings_text
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import OpenedTable, data_table, open_table
from parties.common.errors import DataError, UsageProblem
from parties.data.detection.columns import label_candidates

AGREEMENT = "agreement.toml"
_ASSUMED = "partner"  # name of a party that has not joined yet, for the size of a run
_SHOWN = 3  # candidates of a label in a message

Confirm = Callable[[str], bool]


def start_federation(options: InitOptions, confirm: Confirm | None) -> NewFiles:
    """Return the agreement and the settings of the active party, checked but not written.

    Args:
        options: the options of the command.
        confirm: asks a person a question; None: nobody can answer.

    Raises:
        UsageProblem: the label is neither stated nor confirmed.
        DataError: the table cannot be used.
        ConfigError: a name is not legal.
    """
    table = open_table(options.file, options.table)
    label = options.label or proposed_label(table, options, confirm)
    proposal = table.proposal(label)
    text = agreement_text(options, proposal, table.sample.rows)
    whole = text
    if not options.partner:
        features = max(1, proposal.features)
        whole += "\n" + party_entry(_other_name(options.party), "passive", features)
    path = options.out / AGREEMENT
    agreement = checked_agreement(whole, path)
    own = settings_text(options, "listen", data_table(table, proposal))
    settings = checked_settings(own, options.out / f"{options.party}.party.toml")
    return NewFiles(
        options=options,
        path=path,
        agreement=agreement,
        settings=settings,
        texts={path: text, options.out / f"{options.party}.party.toml": own},
        proposal=proposal,
    )


def _other_name(party: str) -> str:
    return _ASSUMED if party != _ASSUMED else f"{_ASSUMED}-b"


def proposed_label(table: OpenedTable, options: InitOptions, confirm: Confirm | None) -> str:
    """Return the best candidate of a label, if a person or ``--yes`` confirms it.

    Raises:
        DataError: there is no candidate.
        UsageProblem: the candidate is not confirmed; the message names the best ones.
    """
    candidates = label_candidates(table.sample, (*table.ids, *table.ignored))
    if not candidates:
        raise DataError(
            f"{table.sample.file} has no column with 2 to 20 different values in all rows",
            "state the column with the labels, which may be a number: --label COLUMN",
        )
    best = candidates[0]
    classes = len(set(table.sample.columns[best]))
    if options.yes or (confirm and confirm(f"Is {best!r} ({classes} classes) the label?")):
        return best
    others = ", ".join(map(repr, candidates[1:_SHOWN]))
    also = f"; other candidates are {others}" if others else ""
    raise UsageProblem(
        f"the label is not stated; the best candidate is {best!r} with {classes} classes{also}",
        f"give --label {best}, or --yes to accept the candidate",
    )
