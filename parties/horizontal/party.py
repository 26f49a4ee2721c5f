"""Parties, modes and model file of a run with a server."""

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from safetensors.torch import save
from torch import Tensor

from configs.config_file import FederatedConfig
from configs.horizontal import HorizontalAgreement
from parties.common.progress import ProgressListener
from parties.horizontal.engine.party import FederatedContext
from parties.horizontal.local.client_task import ClientTask
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.rows import ClientData, OwnRows, no_rows
from parties.horizontal.simulation.simulated_data import SimulatedData, SimulationSource
from parties.horizontal.task import ServerTask
from parties.session.saved_model import MODEL, write_saved_model
from parties.session.setup import StartOptions


def no_client_data() -> ClientData:
    """Return empty data, for a party that has no rows."""
    return ClientData(no_rows(), no_rows())


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedParty(FederatedContext):
    """A party of a run with a server, in the horizontal mode or in the LLM mode."""

    # Function (party) -> the server's part of the training task.
    server_task: Callable[[Any], ServerTask]
    # Function (party) -> the client's part of the training task.
    client_task: Callable[[Any], ClientTask]
    # Function (agreement) -> all local tasks that the server may send.
    local_tasks: Callable[[Any], Sequence[LocalTask]]
    # At a client, for a request after the run whose rows are known by ID: their IDs.
    listed_rows: Mapping[str, Container[bytes]] = field(default_factory=dict)

    def with_all_rows(self) -> Self:
        """Return a copy of the party from whose rows none are deleted when this party's are."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalParty(FederatedParty):
    """A party of a horizontal run with its data. The server has no rows."""

    agreement: HorizontalAgreement
    # The rows of a client; empty at the server.
    client_data: ClientData = field(default_factory=no_client_data)

    def with_all_rows(self) -> Self:
        """Return a copy of the party from whose rows none are deleted when this party's are."""
        return replace(self, client_data=copy(self.client_data))


@dataclass(frozen=True, slots=True)
class FederatedMode:
    """Functions that the horizontal mode and the LLM mode implement differently."""

    # Function (config, party's name, options, listener) -> the party with its data.
    set_up: Callable[[FederatedConfig, str, StartOptions, ProgressListener], FederatedParty]
    # Function that reads the data of all simulated clients.
    read_data: Callable[[SimulationSource], SimulatedData]
    # Function (config, client's name, data folder) -> the client's rows, without a model.
    own_rows: Callable[[FederatedConfig, str, Path], OwnRows]


def save_model(party: FederatedParty, model: Mapping[str, Tensor], run: bytes) -> None:
    """Write a model file, and a manifest with the digest of the model file.

    Args:
        party: the party that saves the model.
        model: tensors by name, of any shape.
        run: 16 bytes that identify the run.

    Raises:
        StorageError: the files cannot be written.
    """
    content = save({name: each.detach().contiguous() for name, each in model.items()})
    write_saved_model(party, party.agreement.architecture, run, {MODEL: content})
