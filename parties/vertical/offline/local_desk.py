"""The requests of one vertical party without a network, and the rows of its kept model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from parties.data.holding import Holding, read_holding
from parties.data.party_settings import VerticalConfig
from parties.requests.local_desk import LocalDesk, local_desk_of, offline_party
from parties.requests.persons import read_policy
from parties.session.setup import StartOptions, data_folder
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import kept_rows, party_models
from parties.vertical.service.desk import open_desk


@dataclass(frozen=True, slots=True)
class VerticalDesk(LocalDesk):
    """The journal of one party, its private lists, its policy, and the rows of the kept model."""

    party: VerticalParty

    def kept_rows(self) -> dict[bytes, int]:
        """Return own ID and common index of each row that the kept model knows.

        Raises:
            StorageError: no model is kept.
        """
        store = party_models(self.party)
        store.require()
        return kept_rows(store)

    def kept_labels(self) -> dict[bytes, str]:
        """Return own ID and label of each row that the kept model of the active party knows.

        Raises:
            StorageError: no model is kept.
        """
        rows, store = self.kept_rows(), party_models(self.party)
        classes = self.party.agreement.labels.classes
        labels = store.read(store.offer().kept or 0).tensors["labels"]["labels"].tolist()
        return {each: classes[labels[row]] for each, row in rows.items()}


@contextmanager
def open_local_desk(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    *,
    reads_data: bool = False,
    attends: bool = True,
) -> Iterator[VerticalDesk]:
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
    started = offline_party(config, name, options)
    holding = read_rows(config, name, options) if reads_data else _NO_ROWS
    party = VerticalParty(
        agreement=agreement, settings=settings, holding=holding, **started.values()
    )
    policy = read_policy(settings.requests, config.path.parent)
    with local_desk_of(party, open_desk(party, agreement), policy, attends=attends) as local:
        yield VerticalDesk(party, local.desk, policy, local.subjects, local.forgotten)


_NO_ROWS = Holding(ids=(), in_test=np.zeros(0, np.bool_))


def read_rows(config: VerticalConfig, name: str, options: StartOptions) -> Holding:
    """Read the rows of a party.

    Raises:
        DataError: the data cannot be read.
    """
    agreement, settings = config.agreement, config.settings(name)
    return read_holding(
        settings.data,
        folder=data_folder(config.path, settings, options.data),
        classes=agreement.labels.classes,
        task=agreement.labels.task,
        active=agreement.parties[name].role == "active",
    )
