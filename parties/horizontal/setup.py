"""Set-up of a party of a horizontal run: identity, settings, data and folder."""

from pathlib import Path

from configs.config_file import FederatedConfig
from configs.errors import ConfigError
from configs.horizontal import HorizontalAgreement
from parties.common.progress import ProgressListener
from parties.data.party_settings import RowPartySettings
from parties.horizontal.local.backdoor import plant_trigger
from parties.horizontal.local.client_data import read_client_data, read_own_rows
from parties.horizontal.local.rows import ClientData, OwnRows
from parties.horizontal.network_task import network_client_task, network_server_task
from parties.horizontal.party import FederatedMode, HorizontalParty, no_client_data
from parties.horizontal.registry import network_local_tasks
from parties.horizontal.simulation.simulated_rows import read_row_data
from parties.session.setup import StartOptions
from parties.session.start import PartyStart, start_party


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
    agreement = config.agreement
    if not isinstance(agreement, HorizontalAgreement):
        raise ConfigError(f"{config.path} is for another mode, expected mode = 'horizontal'")
    settings = config.settings(name)
    start = start_party(config, name, options, listener)
    started = start.count()
    return HorizontalParty(
        server_task=network_server_task,
        client_task=network_client_task,
        local_tasks=network_local_tasks,
        agreement=agreement,
        settings=settings,
        client_data=_read_data(agreement, settings, start)
        if isinstance(settings, RowPartySettings)
        else no_client_data(),
        **started.values(),
    )


def _read_data(
    agreement: HorizontalAgreement, settings: RowPartySettings, start: PartyStart
) -> ClientData:
    name, progress = start.name, start.progress
    progress.phase("reading data")
    client_data = read_client_data(agreement, name, settings.data, start.folder, progress.step)
    plant_trigger(agreement, name, client_data)
    return client_data


def own_rows(config: FederatedConfig, name: str, folder: Path) -> OwnRows:
    """Return the rows of a client, whose relative data paths are resolved in ``folder``.

    Raises:
        ConfigError: the client has no data.
        DataError: the data cannot be used.
        PolicyError: the data cannot be partitioned or split as agreed.
    """
    agreement, settings = config.agreement, config.settings(name)
    if not isinstance(agreement, HorizontalAgreement) or not isinstance(settings, RowPartySettings):
        raise ConfigError(f"{config.path}: the settings of {name} name no data")
    return read_own_rows(agreement, name, settings.data, folder)


ROW_MODE = FederatedMode(set_up_horizontal_party, read_row_data, own_rows)
