"""Simulated clients that train networks; one data set is partitioned among the clients."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import torch
from torch import nn

from configs.config_file import read_config
from configs.errors import ConfigError
from configs.federated import SIMULATED
from configs.horizontal import HorizontalAgreement, OwnData
from parties.data.party_settings import RowPartySettings
from parties.horizontal.local.backdoor import plant_trigger
from parties.horizontal.local.client_data import (
    PartitionedData,
    client_data_of,
    read_partitioned_data,
)
from parties.horizontal.local.client_task import ClientTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import build_whole_network
from parties.horizontal.network_task import build_network_client
from parties.horizontal.registry import SCHEMA
from parties.horizontal.simulation.simulated_data import (
    MAX_LOADED_CLIENTS,
    ClientState,
    SimulationSource,
)
from parties.session.setup import data_folder


class SimulatedRowClients:
    """All simulated clients of a run that trains networks on rows.

    Args:
        agreement: the agreement of the run.
        data_set: the data set that is partitioned among the clients.
        network: the network that all clients of a process share.
    """

    def __init__(
        self, agreement: HorizontalAgreement, data_set: PartitionedData, network: nn.Module
    ) -> None:
        self._agreement, self._data_set, self._network = agreement, data_set, network
        self._cached_client = lru_cache(MAX_LOADED_CLIENTS)(self._load)

    def load(self, client: str, state: ClientState) -> ClientTask:
        """Load a client, apply the requests in ``state`` to the client, and return the client."""
        return self._cached_client(client, state)

    def _load(self, client: str, state: ClientState) -> NetworkClientTask:
        agreement = self._agreement
        client_data = client_data_of(agreement, client, self._data_set)
        plant_trigger(agreement, client, client_data)
        return state.apply_to(build_network_client(agreement, client, self._network, client_data))


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedRowData:
    """Agreement and rows of all simulated clients; ``repr`` shows no rows.

    Attributes:
        agreement: the agreement of the run as JSON; its class, built at run time, has no name by
            which another process finds it.
        data_set: the data set that is partitioned among the clients.
        threads: number of threads of a process that trains clients.
    """

    agreement: str
    data_set: PartitionedData
    threads: int

    def clients(self) -> SimulatedRowClients:
        """Build the network, and return all clients."""
        torch.set_num_threads(self.threads)
        agreement = SCHEMA.agreement.model_validate_json(self.agreement)
        network = build_whole_network(agreement, "shape")
        return SimulatedRowClients(agreement, self.data_set, network)

    def without_paths(self) -> Self:
        """Return the data itself, which has no paths; clients copy their rows from it."""
        return self


def read_row_data(source: SimulationSource) -> SimulatedRowData:
    """Read the data set of all simulated clients.

    Raises:
        ConfigError: the config has another mode, or does not partition one data set.
    """
    config = read_config(source.config, SCHEMA, source.changes)
    if isinstance(config.agreement.partition, OwnData):
        raise ConfigError(
            f"config {config.path}: simulated clients share one data set, but "
            "partition.kind is 'own'",
            'set partition.kind to "iid", "pathological" or "dirichlet"',
        )
    settings = config.settings(f"{SIMULATED}-0")
    if not isinstance(settings, RowPartySettings):
        raise ConfigError(
            f"config {config.path}: the key 'data' is missing in [settings.{SIMULATED}]"
        )
    folder = data_folder(config.path, settings, source.data)
    data_set = read_partitioned_data(
        config.agreement, SIMULATED, settings.data, folder, lambda _: None
    )
    # Unset keys stay unset, because some rules depend on which keys were written.
    agreement = config.agreement.model_dump_json(exclude_unset=True)
    return SimulatedRowData(agreement, data_set, settings.threads)
