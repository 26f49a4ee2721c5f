"""Start of a party in any mode: its certificates are checked, then its start is counted."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.config_file import AnyConfig
from parties.common.json_files import next_incarnation
from parties.common.progress import ProgressListener, ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.session.identity import PartyIdentity, open_identity
from parties.session.party import StartedParty
from parties.session.setup import StartOptions, data_folder
from parties.session.store.sealing import read_master_key


@dataclass(frozen=True, slots=True)
class PartyStart:
    """A party that starts: its certificates are checked, and its data is not yet read."""

    config: AnyConfig  # agreement and party settings
    name: str  # name of the party
    options: StartOptions  # options of the start
    identity: PartyIdentity  # the party's key, certificates and rules for peers' certificates
    progress: ProgressReporter  # reports progress and warnings

    @property
    def folder(self) -> Path:
        """Return the folder in which the party's relative data paths are resolved."""
        settings = self.config.settings(self.name)
        return data_folder(self.config.path, settings, self.options.data)

    def count(self) -> StartedParty:
        """Count this start in the party's folder.

        Raises:
            StorageError: the party's folder cannot be used.
        """
        state = self.options.out / self.config.agreement.federation / self.name
        return StartedParty(
            name=self.name,
            keyring=self.identity.keyring,
            trust=self.identity.trust,
            state=state,
            incarnation=next_incarnation(state),
            now=lambda: datetime.now(UTC),
            entropy=os.urandom,
            progress=self.progress,
            traffic=TrafficCounter(self.progress.add_bytes),
            supervised=self.options.supervised,
            master_key=read_master_key(self.options.master_key),
            serves=self.options.serves,
            replays=self.options.replays,
            continues=self.options.continues,
        )


def start_party(
    config: AnyConfig, name: str, options: StartOptions, listener: ProgressListener
) -> PartyStart:
    """Check the certificates of the party ``name``, and set the number of threads.

    Raises:
        ConfigError: the config has no settings of this party.
        IdentityError: a certificate is missing or invalid.
    """
    progress = ProgressReporter(name, listener)
    identity = open_identity(config, name, options.certificates, progress)
    torch.set_num_threads(config.settings(name).threads)
    return PartyStart(config, name, options, identity, progress)
