"""Data source and state of simulated clients; a client is loaded when a job needs it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from parties.horizontal.local.client_task import ClientTask

T = TypeVar("T", bound=ClientTask)
MAX_LOADED_CLIENTS = 4  # clients whose rows one process keeps in memory


@dataclass(frozen=True, slots=True)
class SimulationSource:
    """Config and data of a simulation.

    Attributes:
        config: path of the config.
        changes: config keys with new values, in the form of ``--set``.
        data: folder of the data; None: the folder in the settings.
        read_clients: function that reads the data of all simulated clients in a worker process.
    """

    config: Path
    changes: tuple[str, ...]
    data: Path | None
    read_clients: Callable[
        ["SimulationSource"], "SimulatedClients"
    ]  # in the process that trains the clients


@dataclass(frozen=True, slots=True)
class ClientState:
    """Unlearning requests that a simulated client received."""

    request: str | None = None  # the selected request
    purged: tuple[str, ...] = ()  # requests whose forgotten rows the client has deleted

    def apply_to(self, client: T) -> T:
        """Apply the requests to a newly loaded client and return the client."""
        for name in self.purged:
            client.select_request(name)
            client.purge()
        if self.request is not None:
            client.select_request(self.request)
        return client


class SimulatedClients(Protocol):
    """All simulated clients of a run."""

    def load(self, client: str, state: ClientState) -> ClientTask:
        """Load a client, apply the requests in ``state`` to the client, and return the client."""
