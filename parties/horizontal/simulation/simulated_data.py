"""Data source and state of simulated clients; a client is loaded when a job needs it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from parties.horizontal.local.client_task import ClientTask

T = TypeVar("T", bound=ClientTask)
# Clients whose rows one process keeps in memory. A round loads every client in turn: with fewer
# entries than clients, no entry would be used twice.
MAX_LOADED_CLIENTS = 64


@dataclass(frozen=True, slots=True)
class SimulationSource:
    """Config and data of a simulation, on the machine of the server.

    Attributes:
        config: path of the config.
        changes: config keys with new values, in the form of ``--set``.
        data: folder of the data; None: the folder in the settings.
        read_data: function that reads the config and the data of all simulated clients.
    """

    config: Path
    changes: tuple[str, ...]
    data: Path | None
    read_data: Callable[["SimulationSource"], "SimulatedData"]

    def clients(self) -> "SimulatedClients":
        """Read the data, and return all clients, in the process that trains the clients."""
        return self.read_data(self).clients()


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


class ClientSource(Protocol):
    """Reference by which a worker obtains all simulated clients of a run; equal if the run is."""

    def __hash__(self) -> int:
        """Return the hash of the reference."""

    def clients(self) -> SimulatedClients:
        """Return all clients; the caller caches the result."""


class SimulatedData(Protocol):
    """Agreement and data of all simulated clients of a run."""

    def clients(self) -> SimulatedClients:
        """Return all clients, in the process that trains the clients."""

    def without_paths(self) -> Self:
        """Return a copy for a machine without the files: the copy contains what the files contain.

        Another process may share the memory of its tensors, so nothing may write to a tensor.
        """
