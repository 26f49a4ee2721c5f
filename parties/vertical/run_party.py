"""Playing a role: one party's whole run, over gRPC or over memory lines.

What only the active party needs (audits, plots) is imported where it plays.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from configs.schema import Config
from parties.common.atomic_file import write
from parties.common.errors import StorageError
from parties.common.json_files import canonical
from parties.common.progress import Listener
from parties.report import METRICS, PARTIAL, PARTIAL_REPORT, REPORT
from parties.session.handshake import Port
from parties.session.party import Party
from parties.session.setup import Place, admit, hub_address, take_seat
from parties.vertical.passive import run_passive
from parties.vertical.resume import prepare
from protocol.errors import LineBroken
from protocol.grpc_line import Server, dial
from protocol.line import Line


def play(
    config: Config, name: str, place: Place, address: str | None, listener: Listener
) -> dict[str, Any] | None:
    """Run one party over gRPC; the active party's metrics are returned and written."""
    party = take_seat(config, name, place, listener)
    prepare(party, place.begin)
    where = hub_address(party.seat, name, address)
    if config.agreement.parties[name].role == "passive":
        run_passive(party, lambda: dial(where, party.keyring, config.agreement.active))
        return None
    with listen(party, where) as server:
        return lead(party, server, place.out)


def listen(party: Party, address: str) -> Server:
    """The active party's port; raises ``StorageError`` when it cannot be had."""
    seats = len(party.agreement.passive)
    try:
        return Server(address, party.keyring, lambda leaf: admit(party, leaf), seats)
    except LineBroken as error:
        raise StorageError(str(error), error.hint) from error


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
    from parties.report.page import page
    from parties.vertical.active import run_active

    folder = out / party.agreement.federation

    def publish(metrics: dict[str, Any]) -> None:
        """A run that failed leaves the report of an earlier one alone, and one of its own."""
        names = [METRICS, REPORT] if metrics["failure"] is None else [PARTIAL, PARTIAL_REPORT]
        write(folder / names[0], canonical(metrics))
        write(folder / names[1], page(metrics).encode())
        if metrics["failure"] is None:
            for name in (PARTIAL, PARTIAL_REPORT):
                (folder / name).unlink(missing_ok=True)

    return run_active(party, port, publish)
