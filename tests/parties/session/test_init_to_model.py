"""From two tables to a trained federation, by the commands that a person types."""

from pathlib import Path

import pytest
from two_organisations import TwoOrganisations

MOST_COMMANDS = 6  # that a party types
PEOPLE = 3000


@pytest.mark.slow
def test_few_commands_a_party_lead_from_tables_to_a_model(tmp_path: Path) -> None:
    federated = TwoOrganisations(tmp_path, PEOPLE).federate()
    assert federated.commands <= MOST_COMMANDS
    memory, sent, minutes = federated.told
    crossed = sum(each["bytes"] for each in federated.metrics["traffic"]) / 1e6
    assert 0 < crossed < sent * 1.2
    assert memory > 0.1
    assert minutes > 0
    rows = federated.metrics["run"]["rows"]
    assert 0.75 * PEOPLE < sum(rows.values()) < 0.87 * PEOPLE  # 0.9 * 0.9 of the people
    assert "<html" in federated.report.read_text()
    for name in ("bank", "calls"):
        folder = tmp_path / ("bank" if name == "bank" else "centre")
        assert (folder / "agreement.toml").read_text().count("pins = ") == 2
        assert (folder / "certs" / f"{name}.pem").exists()
