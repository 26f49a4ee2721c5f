"""One party's whole vertical run, over gRPC or in memory.

The modules that only the active party needs (audits, plots) are imported when the active party
runs.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from parties.common.atomic_file import write_atomically
from parties.common.errors import StorageError
from parties.common.json_files import canonical_json
from parties.common.progress import ProgressListener
from parties.data.party_settings import VerticalConfig
from parties.report import METRICS, PARTIAL, PARTIAL_OFFICER, PARTIAL_REPORT, REPORT
from parties.session.handshake import SpokePort
from parties.session.setup import StartOptions, hub_address
from parties.vertical.engine.party import VerticalParty
from parties.vertical.passive import run_passive
from parties.vertical.resume import prepare_start
from parties.vertical.setup import admit_passive_party, set_up_party
from protocol.errors import LineBroken
from protocol.grpc_line import LineServer, dial_hub
from protocol.line import Line


def run_vertical_party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    address: str | None,
    listener: ProgressListener,
) -> dict[str, Any] | None:
    """Run one party over gRPC; the active party also writes its report and returns its metrics."""
    party = set_up_party(config, name, options, listener)
    prepare_start(party, options.begin)
    where = hub_address(party.settings, name, address)
    if config.agreement.parties[name].role == "passive":
        hub = config.agreement.active
        connect = partial(dial_hub, where, party.keyring, hub, party.line_timeouts)
        run_passive_and_report(party, connect)
        return None
    with open_line_server(party, where) as server:
        return run_active_and_report(party, server, options.out)


def open_line_server(party: VerticalParty, address: str) -> LineServer:
    """Open the active party's port; raises ``StorageError`` if the address cannot be used."""
    spokes = len(party.agreement.passive)
    try:
        return LineServer(
            address,
            party.keyring,
            lambda leaf: admit_passive_party(party, leaf),
            spokes,
            party.line_timeouts,
        )
    except LineBroken as error:
        raise StorageError(str(error), error.hint) from error


def run_party_in_process(
    party: VerticalParty, port: SpokePort, connect: Callable[[], Line], out: Path
) -> dict[str, Any] | None:
    """Run one party, with messages passed in memory; the active party returns its metrics."""
    if party.name == party.agreement.active:
        return run_active_and_report(party, port, out)
    run_passive_and_report(party, connect)
    return None


def run_passive_and_report(party: VerticalParty, connect: Callable[[], Line]) -> None:
    """Run a passive party, and write its own report into its folder."""
    from parties.report.pages.passive import passive_page
    from parties.vertical.run_record import passive_facts

    session = run_passive(party, connect)
    facts = passive_facts(party, session.state, session.run, session.spent, session.purged)
    page = party.state / REPORT
    write_atomically(page, passive_page(facts).encode())
    party.progress.note(f"report of {party.name}: {page}")


def run_active_and_report(party: VerticalParty, port: SpokePort, out: Path) -> dict[str, Any]:
    """Run the active party and write its report."""
    from parties.report.pages.write import write_pages
    from parties.vertical.active import run_active

    folder = out / party.agreement.federation

    def publish(metrics: dict[str, Any]) -> None:
        """Write the pages; a failed run writes partial pages and keeps earlier pages."""
        finished = metrics["failure"] is None
        write_atomically(folder / (METRICS if finished else PARTIAL), canonical_json(metrics))
        write_pages(folder, metrics)
        if finished:
            for name in (PARTIAL, PARTIAL_REPORT, PARTIAL_OFFICER):
                (folder / name).unlink(missing_ok=True)

    return run_active(party, port, publish)
