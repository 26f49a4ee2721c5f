"""Set-up of a party of a horizontal run: identity, settings, data and folder."""

import os
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.federated_file import FederatedConfig, HorizontalConfig
from configs.party_settings import RowPartySettings
from parties.common.json_files import next_incarnation
from parties.common.progress import ProgressListener, ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.horizontal.local.backdoor import plant_trigger
from parties.horizontal.local.client_data import read_client_data
from parties.horizontal.local.rows import ClientData
from parties.horizontal.network_task import network_client_task, network_server_task
from parties.horizontal.party import FederatedMode, HorizontalParty, no_client_data
from parties.horizontal.simulation.simulated_rows import read_row_clients
from parties.session.identity import open_identity
from parties.session.setup import StartOptions


def set_up_horizontal_party(
    config: FederatedConfig, name: str, options: StartOptions, listener: ProgressListener
) -> HorizontalParty:
    """Read the settings, the data and the certificates of a party.

    Raises:
        ConfigError: the config is of another mode, or a setting is wrong.
        DataError: the data cannot be used.
        IdentityError: the certificates cannot be used.
        StorageError: the party's folder cannot be used.
    """
    if not isinstance(config, HorizontalConfig):
        raise ConfigError(f"{config.path} is for another mode, expected mode = 'horizontal'")
    agreement, settings = config.agreement, config.settings(name)
    progress = ProgressReporter(name, listener)
    identity = open_identity(config, name, options.certificates, progress)
    torch.set_num_threads(settings.threads)
    state = options.out / agreement.federation / name
    return HorizontalParty(
        server_task=network_server_task,
        client_task=network_client_task,
        name=name,
        agreement=agreement,
        settings=settings,
        keyring=identity.keyring,
        trust=identity.trust,
        state=state,
        incarnation=next_incarnation(state),
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        progress=progress,
        traffic=TrafficCounter(progress.add_bytes),
        client_data=_read_data(config, name, settings, options, progress)
        if isinstance(settings, RowPartySettings)
        else no_client_data(),
    )


def _read_data(
    config: HorizontalConfig,
    name: str,
    settings: RowPartySettings,
    options: StartOptions,
    progress: ProgressReporter,
) -> ClientData:
    progress.phase("reading data")
    folder = options.data or config.path.parent / (settings.folder or Path())
    client_data = read_client_data(config.agreement, name, settings.data, folder, progress.step)
    plant_trigger(config.agreement, name, client_data)
    return client_data


ROW_MODE = FederatedMode(set_up_horizontal_party, read_row_clients)
