"""The requests of one party without a network: what ``vfl unlearn`` reads and writes.

A process that serves may use the same files at the same time. A start is not counted, because no
session begins.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from parties.common.errors import StorageError
from parties.common.progress import ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.data.holding import Holding, read_holding
from parties.data.party_settings import VerticalConfig
from parties.requests.duties import RequestDesk
from parties.requests.persons import RequestPolicy, read_policy
from parties.requests.subjects import ForgottenList, SubjectStore
from parties.session.identity import PartyIdentity, load_identity
from parties.session.setup import StartOptions, data_folder
from parties.session.store.sealing import read_master_key
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import kept_rows, party_models
from parties.vertical.service.desk import open_desk


@dataclass(frozen=True, slots=True)
class LocalDesk:
    """The journal of one party, its private lists, its policy, and the rows of the kept model."""

    party: VerticalParty
    desk: RequestDesk
    policy: RequestPolicy
    subjects: SubjectStore
    forgotten: ForgottenList

    def kept_rows(self) -> dict[bytes, int]:
        """Return own ID and common index of each row that the kept model knows.

        Raises:
            StorageError: no model is kept.
        """
        store = party_models(self.party)
        store.require()
        return kept_rows(store)


@contextmanager
def open_local_desk(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    *,
    reads_data: bool = False,
    attends: bool = True,
) -> Iterator[LocalDesk]:
    """Open the requests of party ``name`` in a ``with`` block.

    Args:
        config: agreement and party settings.
        name: name of the party.
        options: folders and the file of the master key.
        reads_data: whether to read the party's data; otherwise the party has no rows.
        attends: whether the party does at once what it does by itself; not in a restored journal.

    Raises:
        ConfigError: the settings cannot be used.
        DataError: the data cannot be read.
        IdentityError: a certificate is missing or invalid.
        StorageError: the party's folder is absent, or cannot be used.
        IntegrityError: the journal or the key file is damaged.
    """
    agreement, settings = config.agreement, config.settings(name)
    identity = load_identity(config, name, options.certificates, datetime.now(UTC))
    state = options.out / agreement.federation / name
    if not state.is_dir():
        raise StorageError(
            f"the folder {state} of party {name} does not exist",
            "train first, or name the folder of the runs with --out",
        )
    holding = _holding(config, name, options) if reads_data else _NO_ROWS
    party = _party(config, name, options, identity, holding)
    policy = read_policy(settings.requests, config.path.parent)
    with closing(open_desk(party, agreement)) as desk:
        if attends:
            desk.attend()
        subjects = SubjectStore(desk.journal, party.keys)
        forgotten = ForgottenList(desk.journal.database, party.keys)
        yield LocalDesk(party, desk, policy, subjects, forgotten)


_NO_ROWS = Holding(ids=(), in_test=np.zeros(0, np.bool_))


def _holding(config: VerticalConfig, name: str, options: StartOptions) -> Holding:
    """Read the rows of a party."""
    agreement, settings = config.agreement, config.settings(name)
    return read_holding(
        settings.data,
        folder=data_folder(config.path, settings, options.data),
        classes=agreement.labels.classes,
        active=agreement.parties[name].role == "active",
    )


def _party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    identity: PartyIdentity,
    holding: Holding,
) -> VerticalParty:
    """Return a party that takes part in no session."""
    progress = ProgressReporter(name, lambda _: None)
    return VerticalParty(
        name=name,
        keyring=identity.keyring,
        trust=identity.trust,
        state=options.out / config.agreement.federation / name,
        incarnation=0,
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        progress=progress,
        traffic=TrafficCounter(progress.add_bytes),
        master_key=read_master_key(options.master_key),
        agreement=config.agreement,
        settings=config.settings(name),
        holding=holding,
    )
