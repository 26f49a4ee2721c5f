"""Set-up of a vertical party: settings, certificates, data and folder."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.agreement import VerticalAgreement
from configs.party_settings import VerticalPartySettings
from configs.schema import VerticalConfig
from parties.common.device import prepare_device
from parties.common.errors import DataError
from parties.common.json_files import next_incarnation
from parties.common.progress import ProgressListener, ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.data.holding import Holding, read_holding
from parties.data.preprocess import declared_preprocessing
from parties.session.identity import open_identity
from parties.session.setup import StartOptions
from parties.vertical.engine.party import VerticalParty
from protocol.errors import IdentityError


def set_up_party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    listener: ProgressListener,
    read: Callable[..., Holding] | None = None,
) -> VerticalParty:
    """Read the settings, the data and the certificates of the party ``name``.

    If the caller gives a function ``read``, it reads the data in place of ``read_holding``, and no
    check tests whether the data is suitable for training.

    Raises:
        ConfigError: the settings cannot be used.
        DataError: the data cannot be read, or does not fit the agreement.
        IdentityError: a certificate is missing or invalid.
        StorageError: a folder cannot be used.
    """
    agreement, settings = config.agreement, config.settings(name)
    progress = ProgressReporter(name, listener)
    identity = open_identity(config, name, options.certificates, progress)
    progress.phase("reading data")
    torch.set_num_threads(settings.threads)
    prepare_device(settings.device)
    holding = (read or read_holding)(
        settings.data,
        folder=options.data or config.path.parent / (settings.folder or Path()),
        classes=agreement.labels.classes,
        active=agreement.parties[name].role == "active",
        progress=progress.step,
    )
    if read is None:
        _check_holding(holding, agreement, name, settings)
    state = options.out / agreement.federation / name
    return VerticalParty(
        name=name,
        agreement=agreement,
        settings=settings,
        holding=holding,
        keyring=identity.keyring,
        trust=identity.trust,
        state=state,
        incarnation=next_incarnation(state),
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        progress=progress,
        traffic=TrafficCounter(progress.add_bytes),
    )


def _check_holding(
    holding: Holding, agreement: VerticalAgreement, name: str, settings: VerticalPartySettings
) -> None:
    """Check the data before any other party is contacted."""
    _refuse_large_batch(holding, agreement.training.batch)
    _refuse_other_columns(holding, agreement.parties[name].columns)
    if agreement.preprocessing == "declared":
        declared_preprocessing(holding, settings.data)


def _refuse_large_batch(holding: Holding, batch: int) -> None:
    """Refuse a batch that the party's own rows cannot fill; common rows are even fewer."""
    if batch > len(holding):
        raise DataError(
            f"training.batch = {batch}, but this party has only {len(holding)} rows",
            f"choose a batch from 1 to {len(holding)}, the same at every party",
        )


def _refuse_other_columns(holding: Holding, agreed: int | None) -> None:
    held = len(holding.numeric) + len(holding.categorical)
    if agreed is not None and held != agreed:
        raise DataError(
            f"the data has {held} feature columns, but the agreement requires columns = {agreed}",
            "select columns with the keys numeric and categorical in the party settings, or change "
            "columns in the agreement",
        )


def admit_passive_party(party: VerticalParty, certificate: object) -> str:
    """The name of the passive party in a certificate; raises ``IdentityError`` for other names."""
    name = party.trust.check(certificate, party.now())  # type: ignore[arg-type]
    if name not in party.agreement.passive:
        raise IdentityError(f"{name} is not a passive party of this agreement")
    return name
