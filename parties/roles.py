"""Playing a role: one party's whole run, over gRPC or over memory lines.

What only the active party needs (audits, plots) is imported where it plays.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from configs.schema import Config
from parties.durable import write
from parties.errors import StorageError
from parties.join import Port
from parties.party import Party
from parties.passive import run_passive
from parties.report import METRICS, REPORT
from parties.save import canonical
from parties.seating import Place, admit, hub_address, take_seat
from parties.watch import Listener
from protocol.errors import LineBroken
from protocol.grpc_line import Server, dial
from protocol.line import Line


def play(
    config: Config, name: str, place: Place, address: str | None, listener: Listener
) -> dict[str, Any] | None:
    """Run one party over gRPC; the active party's metrics are returned and written."""
    party = take_seat(config, name, place, listener)
    where = hub_address(party.seat, name, address)
    if config.agreement.parties[name].role == "passive":
        run_passive(party, lambda: dial(where, party.keyring, config.agreement.active))
        return None
    seats = len(config.agreement.passive)
    try:
        server = Server(where, party.keyring, lambda leaf: admit(party, leaf), seats)
    except LineBroken as error:
        raise StorageError(str(error), error.hint) from error
    with server:
        return lead(party, server, place.out)


def play_in_process(
    party: Party, port: Port, connect: Callable[[], Line], out: Path
) -> dict[str, Any] | None:
    """Run one party over memory lines."""
    if party.name == party.agreement.active:
        return lead(party, port, out)
    run_passive(party, connect)
    return None


def lead(party: Party, port: Port, out: Path) -> dict[str, Any]:
    """Run the active party and write its report."""
    from parties.active import run_active
    from parties.report.page import page

    metrics = run_active(party, port)
    folder = out / party.agreement.federation
    write(folder / METRICS, canonical(metrics))
    write(folder / REPORT, page(metrics).encode())
    return metrics
