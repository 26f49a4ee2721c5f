"""Weeks in the life of a federation: a sample of the section ``request weeks`` of the benchmark."""

from pathlib import Path

import pytest
from request_federation import RequestFederation, write_trio
from weeks import Weeks


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_federation_learns_and_forgets_for_two_weeks(tmp_path: Path) -> None:
    trio = write_trio(tmp_path, rows=200)

    def build(share: float) -> RequestFederation:
        sample = f"{{fraction={share}, seed=1}}"
        return trio.changed(*(f"settings.{name}.data.sample={sample}" for name in trio.roles))

    life = Weeks(build, 0.8, seed=1).live(2, lambda line: None)
    assert life.requests >= 2
    assert life.certified == life.requests
    assert life.forgotten >= 4
    assert life.returned == 0
    assert life.found == []
    for name in trio.roles:  # in both weeks, the rows of the version did not cross again
        events = trio.output(name, trio.folder / "life").read_text()
        assert events.count("only other rows cross the intersection") == 2
        assert "all rows cross the intersection" not in events
