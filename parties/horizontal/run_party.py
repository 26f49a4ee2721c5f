"""Playing a horizontal role over gRPC: the server's run, or a client's."""

from pathlib import Path
from typing import Any

from configs.federated_file import FederatedConfig
from parties.common.atomic_file import write
from parties.common.errors import StorageError
from parties.common.json_files import canonical, finite
from parties.common.progress import Listener
from parties.horizontal.client import run_client
from parties.horizontal.party import FederatedParty
from parties.horizontal.record import checkpoints, prepare
from parties.horizontal.server import run_server
from parties.horizontal.setup import take_federated_seat
from parties.horizontal.tasks import subject
from parties.report import METRICS, REPORT
from parties.report.horizontal.page import page
from parties.session.setup import Place, hub_address
from protocol.errors import IdentityError, LineBroken
from protocol.grpc_line import Server, dial


def play(
    config: FederatedConfig, name: str, place: Place, address: str | None, listener: Listener
) -> dict[str, Any] | None:
    """Run one party; the server's metrics are returned and written."""
    party = take_federated_seat(config, name, place, listener)
    where, agreement = hub_address(party.seat, name, address), config.agreement
    prepare(party, place.begin)
    if name != agreement.hub:
        run_client(party, lambda: dial(where, party.keyring, agreement.hub))
        return None
    # What is wrong with what is taught keeps the door closed. After a crash the clients wait only
    # so long to come back, and it was right before: they are let in first.
    taught = None if checkpoints(party).held().numbers else subject(party)
    with listen(party, where) as server:
        return run_server(party, server, lambda metrics: publish(place.out, party, metrics), taught)


def listen(party: FederatedParty, address: str) -> Server:
    """The server's port; raises ``StorageError`` when it cannot be had."""
    clients = party.agreement.spokes
    try:
        return Server(address, party.keyring, lambda leaf: _admit(party, leaf), len(clients))
    except LineBroken as error:
        raise StorageError(str(error), error.hint) from error


def publish(out: Path, party: FederatedParty, metrics: dict[str, Any]) -> None:
    """Write the metrics of a run and its report."""
    folder, known = out / party.agreement.federation, finite(metrics)
    write(folder / METRICS, canonical(known))
    write(folder / REPORT, page(known).encode())


def _admit(party: FederatedParty, certificate: object) -> str:
    """The client that a visitor's certificate names; raises ``IdentityError``."""
    name = party.trust.check(certificate, party.now())  # type: ignore[arg-type]
    if name not in party.agreement.spokes:
        raise IdentityError(f"{name} is no client of this agreement")
    return name
