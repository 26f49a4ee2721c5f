"""``vfl init --join``: adds a partner to an agreement and proposes its settings."""

from dataclasses import replace
from pathlib import Path

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from configs.toml_file import read_toml
from parties.cli.setup.agreement import PARTNER_MARK, marked_parties, party_entry
from parties.cli.setup.clients.agreement import declared_roles
from parties.cli.setup.files import NewFiles, checked_agreement, checked_settings, settings_text
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import data_table, open_table, stem_name
from parties.common.errors import DataError
from parties.data.detection.columns import TableProposal


def join_federation(options: InitOptions, path: Path) -> NewFiles:
    """Return the agreement ``path`` with this party, and its settings, checked but not written.

    An agreement that has the party already stays as it is. Without ``--party``, the party has the
    name that ``--partner`` reserved, else that of its file.

    Raises:
        ConfigError: the agreement is not valid, or cannot have this party.
        DataError: the table cannot be used, or does not suit the party's entry.
    """
    text = _read(path)
    declared = _declared(path)
    party = options.party or _joining_name(options, path, text, declared)
    if declared.get(party) == "active":
        raise ConfigError(
            f"{path}: {party} is the active party, which wrote the agreement",
            "give --party NAME with the name of the party that joins",
        )
    options = replace(options, party=party, out=path.parent)
    table = open_table(options.file, options.table)
    proposal = table.proposal(None)
    if not proposal.features:
        raise DataError(
            f"{table.sample.file} has no numeric and no categorical column",
            "a partner brings columns: choose another table",
        )
    if party not in declared:
        text = f"{text.rstrip()}\n\n{_entry(options, proposal)}"
    agreement = checked_agreement(text, path)
    _refuse_unsuitable_entry(path, agreement, options, proposal)
    _refuse_declared_rows(agreement, party, table.sample.rows)
    own = settings_text(options, "hub", data_table(table, proposal))
    beside = path.with_name(f"{party}.party.toml")
    changed = {} if party in declared else {path: text}
    return NewFiles(
        options=options,
        path=path,
        agreement=agreement,
        settings=checked_settings(own, beside),
        texts={**changed, beside: own},
        proposal=proposal,
        extended=bool(changed),
        told=[_told_name(party, declared)],
    )


def _read(path: Path) -> str:
    read_toml(path, [])  # its errors name the line
    return path.read_text(encoding="utf-8")


def _declared(path: Path) -> dict[str, str]:
    """Return the role of each party that the agreement has already; it may have no partner yet."""
    return declared_roles(read_toml(path, []), path)


def _joining_name(options: InitOptions, path: Path, text: str, declared: dict[str, str]) -> str:
    """Return the name that the party has without ``--party``.

    Raises:
        ConfigError: several names are reserved.
    """
    own = stem_name(options.file, "partner")
    if declared.get(own) == "passive":
        return own
    reserved = [each for each in marked_parties(text, PARTNER_MARK) if declared[each] == "passive"]
    if len(reserved) > 1:
        raise ConfigError(
            f"{path} reserves {len(reserved)} names", f"give --party {' or '.join(reserved)}"
        )
    return reserved[0] if reserved else own


def _told_name(party: str, declared: dict[str, str]) -> str:
    if party not in declared:
        return f"this party is {party}, a new party of the agreement"
    return (
        f"this party is {party}, a party that the agreement has already; "
        "another organisation gives --party with a name of its own"
    )


def _entry(options: InitOptions, proposal: TableProposal) -> str:
    entry = party_entry(options.party, "passive", proposal.features)
    if options.declared_rows is None:
        return entry
    return f"{entry}declared_rows = {options.declared_rows}    # rows that the others see\n"


def _refuse_unsuitable_entry(
    path: Path, agreement: VerticalAgreement, options: InitOptions, proposal: TableProposal
) -> None:
    entry = agreement.parties[options.party]
    if entry.columns not in (None, proposal.features):
        raise DataError(
            f"the agreement requires parties.{options.party}.columns = {entry.columns}, but the "
            f"table has {proposal.features} numeric and categorical columns",
            "change columns in the agreement at both parties, or name another table",
        )
    if options.declared_rows not in (None, entry.declared_rows):
        raise ConfigError(
            f"{path} has the party {options.party} already, without declared_rows = "
            f"{options.declared_rows}",
            f"write it below [parties.{options.party}] at both parties, and omit --declared-rows",
        )


def _refuse_declared_rows(agreement: VerticalAgreement, party: str, rows: int) -> None:
    declared = agreement.parties[party].declared_rows
    if declared is not None and declared < rows:
        raise DataError(
            f"the table has {rows} rows, more than declared_rows = {declared}",
            f"declare at least {rows} rows",
        )
