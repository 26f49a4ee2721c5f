"""The files that ``vfl init`` writes: checked as a run checks them, and never overwritten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.agreement import VerticalAgreement
from configs.config_file import ConfigFile, validate_table
from parties.cli.setup.options import InitOptions
from parties.cli.setup.table import parsed
from parties.common.atomic_file import write_atomically
from parties.common.errors import StorageError
from parties.data.detection.columns import TableProposal
from parties.data.holding import Holding, read_holding
from parties.data.party_settings import VerticalConfig, VerticalPartySettings
from parties.data.sources.csv_source import toml_text
from parties.vertical.methods.registry import SCHEMA

_ADDRESS = {
    "listen": ("0.0.0.0:7700", "address on which this party listens; all others connect to it"),
    "hub": ("localhost:7700", "address of {hub}"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InitFiles:
    """The files of one ``vfl init``, checked but not written.

    Attributes:
        options: the options of the command, with this party's name.
        path: file of the agreement.
        texts: content of each file to write.
        extended: whether an agreement that exists is changed.
        told: notes for the person: name of this party, order of the columns.
    """

    options: InitOptions
    path: Path
    texts: Mapping[Path, str]
    extended: bool = False
    told: Sequence[str] = ()

    def refuse_existing(self) -> None:
        """Refuse to overwrite a file, except an agreement that gets an entry.

        Raises:
            StorageError: a file exists.
        """
        existing = [each for each in self.texts if each.exists()]
        if self.extended:
            existing = [each for each in existing if each != self.path]
        if existing and not self.options.force:
            raise StorageError(
                f"{' and '.join(map(str, existing))} exists already",
                "give --force to overwrite it, or another folder with --out",
            )

    def write(self) -> None:
        """Write all files.

        Raises:
            StorageError: a file cannot be written.
        """
        for path, text in self.texts.items():
            write_atomically(path, text.encode())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NewFiles(InitFiles):
    """The files of one ``vfl init`` of the vertical mode, checked but not written.

    Attributes:
        agreement: the agreement; with an assumed partner if none has joined yet.
        settings: this party's settings.
        proposal: the use of the table's columns.
    """

    agreement: VerticalAgreement
    settings: VerticalPartySettings
    proposal: TableProposal

    @property
    def config(self) -> VerticalConfig:
        """The config of the agreement and this party's settings."""
        inline = {self.options.party: self.settings}
        return ConfigFile(self.path, SCHEMA, self.agreement, inline)

    def read(self) -> Holding:
        """Read all rows, as a run does.

        Raises:
            DataError: a row cannot be used; the sample did not show it.
        """
        return read_holding(
            self.settings.data,
            folder=self.path.parent,
            classes=self.agreement.labels.classes,
            task=self.agreement.labels.task,
            active=self.agreement.active == self.options.party,
        )


def settings_text(
    options: InitOptions, key: str, data: Sequence[str], hub: str = "the active party"
) -> str:
    """Return the settings of a party.

    Args:
        options: the options of the command.
        key: key of the party's address: listen or hub.
        data: lines of the table [data].
        hub: the party to which all others connect, in words.
    """
    default, meaning = _ADDRESS[key]
    return "\n".join(
        [
            "#:schema ./party.schema.json",
            f"# Settings of {options.party}; never send this file to another party.",
            "",
            f"{key} = {toml_text(options.hub or default)}    # {meaning.format(hub=hub)}",
            'certificates = "certs"    # folder with ca.pem and the key of this party',
            "",
            *data,
            "",
        ]
    )


def checked_agreement(text: str, path: Path) -> VerticalAgreement:
    """Return the agreement with this text. Raises ``ConfigError`` if it is not valid."""
    return validate_table(SCHEMA.agreement, parsed(text), path, "")


def checked_settings(text: str, path: Path) -> VerticalPartySettings:
    """Return the settings with this text. Raises ``ConfigError`` if they are not valid."""
    return validate_table(SCHEMA.spoke, parsed(text), path, "")
