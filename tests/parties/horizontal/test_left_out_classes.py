"""Classes that a pathological partition gives to no client: warning, record and report."""

from pathlib import Path

import pytest
from five_clients import CONFIG, local_cohort, party_of, prepare
from rich.console import Console

from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.server import FederatedServer
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables

REQUEST = CONFIG[CONFIG.index("unlearn = ") : CONFIG.index("limits = ")]


@pytest.mark.parametrize(
    ("share", "left_out", "sentence"),
    [
        (0.4, [], ""),
        (0.3, ["9"], "The partition gives class 9 to no client: no row of this class is used"),
        (0.1, ["5", "6", "7", "8", "9"], "gives classes 5, 6, 7, 8 and 9 to no client: no row of"),
    ],
)
def test_run_names_the_classes_that_no_client_holds(
    tmp_path: Path, share: float, left_out: list[str], sentence: str
) -> None:
    """Five clients with one, three or four of ten classes each."""
    text = CONFIG.replace(REQUEST, "").replace("rounds = 3", "rounds = 1")
    ready = prepare(tmp_path, text.replace("share = 0.4", f"share = {share}"))
    warnings: list[str] = []
    party = party_of(ready, "server", warnings)
    journal = RunJournal(party, federated_checkpoints(party), bytes(16))
    metrics = FederatedServer(party, local_cohort(ready), journal).run()
    clients = [party_of(ready, name, []).client_data for name in party.agreement.spokes]
    held = {
        str(int(label))
        for client in clients
        for rows in (client.train, client.validation, client.test)
        for label in rows.labels
    }
    assert metrics["run"]["left_out"] == left_out
    assert {*party.agreement.labels.classes} - held == {*left_out}
    said = [each for each in warnings if "to no client" in each]
    assert len(said) == bool(left_out)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(report_tables(metrics))
    shown = [*said, capture.get(), report_page(metrics)]
    expected = sentence or "to no client"
    assert [expected in each for each in shown] == [bool(left_out)] * len(shown)
