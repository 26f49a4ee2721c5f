"""Runs one party, the server or a client, over gRPC."""

from functools import partial
from pathlib import Path
from typing import Any

from configs.config_file import FederatedConfig
from parties.common.atomic_file import write_atomically
from parties.common.errors import StorageError
from parties.common.json_files import canonical_json
from parties.common.progress import ProgressListener
from parties.horizontal.client import run_client
from parties.horizontal.engine.run_journal import federated_checkpoints, prepare_federated_run
from parties.horizontal.party import FederatedMode, FederatedParty
from parties.horizontal.server import run_server
from parties.horizontal.service.desk import federated_rules
from parties.horizontal.service.kept_model import announce_training
from parties.report import METRICS
from parties.report.pages.write import write_pages
from parties.requests.journal import refuse_open_requests
from parties.session.setup import StartOptions, hub_address
from protocol.errors import IdentityError, LineBroken
from protocol.grpc_line import LineServer, dial_hub


def run_federated_party(
    mode: FederatedMode,
    config: FederatedConfig,
    name: str,
    options: StartOptions,
    address: str | None,
    listener: ProgressListener,
) -> dict[str, Any] | None:
    """Run one party.

    Returns:
        The run's metrics at the server, where they are also written to a file; None at a client.
    """
    party = mode.set_up(config, name, options, listener)
    where, agreement = hub_address(party.settings, name, address), config.agreement
    refuse_open_requests(party, federated_rules(agreement))
    announce_training(party)
    prepare_federated_run(party, options.begin)
    if name != agreement.hub:
        run_client(
            party, partial(dial_hub, where, party.keyring, agreement.hub, party.line_timeouts)
        )
        return None
    # The task is built before the port opens, so that its errors come first. After a crash the
    # clients wait only a limited time to reconnect, and the task was built before: the port opens
    # first then.
    resumed = federated_checkpoints(party).offer().numbers
    task = None if resumed else party.server_task(party)
    with listen_for_clients(party, where) as server:
        publish = partial(write_results, options.out, party)
        return run_server(party, server, publish, task)


def listen_for_clients(party: FederatedParty, address: str) -> LineServer:
    """Open the server's port.

    Raises:
        StorageError: the port cannot be opened.
    """
    clients = party.agreement.spokes
    try:
        return LineServer(
            address,
            party.keyring,
            lambda leaf: _admit(party, leaf),
            len(clients),
            party.line_timeouts,
        )
    except LineBroken as error:
        raise StorageError(str(error), error.hint) from error


def write_results(out: Path, party: FederatedParty, metrics: dict[str, Any]) -> None:
    """Write the metrics and the pages of a run."""
    folder = out / party.agreement.federation
    write_atomically(folder / METRICS, canonical_json(metrics))
    write_pages(folder, metrics)


def _admit(party: FederatedParty, certificate: object) -> str:
    """The client that a certificate names; raises ``IdentityError`` for any other party."""
    name = party.trust.check(certificate, party.now())  # type: ignore[arg-type]
    if name not in party.agreement.spokes:
        raise IdentityError(
            f"the certificate belongs to {name}, which is not a client in the agreement"
        )
    return name
