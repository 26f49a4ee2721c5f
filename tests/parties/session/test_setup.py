"""Set-up of a party: progress while its data is read, and the agreed number of columns."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from three_parties import agreement, certify, party, write_data

from parties.common.errors import DataError, exit_code
from parties.session import handshake
from parties.session.memory_port import MemoryPort
from protocol.errors import ProtocolError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    write_data(tmp_path)
    certify(tmp_path)
    return tmp_path


def agreed(columns: int) -> dict[str, Any]:
    plan = agreement()
    plan["parties"]["left"]["columns"] = columns
    return plan


def test_rows_are_counted_while_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.common.progress.REPORT_INTERVAL", 0.0)
    monkeypatch.setattr("parties.data.sources.csv_source._BLOCK", 1000)
    events: list[Any] = []
    party(folder, "hub", agreement(), events)
    counts = [event["done"] for event in events if event.get("phase") == "reading data"]
    assert len(counts) > 5
    assert (counts[0], counts[-1]) == (0, 240)
    assert counts == sorted(counts)


def test_columns_that_differ_from_the_agreement_are_refused(folder: Path) -> None:
    party(folder, "left", agreed(3), [])
    with pytest.raises(DataError, match="but the agreement requires columns = 4"):
        party(folder, "left", agreed(4), [])


def test_width_of_a_party_with_labels_alone_is_refused(folder: Path) -> None:
    lines = [line.split(",") for line in (folder / "hub.csv").read_text().splitlines()]
    (folder / "hub.csv").write_text("".join(f"{row[0]},{row[-1]}\n" for row in lines))
    with pytest.raises(DataError, match=r"parties.hub.width = 3, but the data of hub has no"):
        party(folder, "hub", agreement(), [])
    plan = agreement()
    plan["parties"]["hub"] = {"role": "active"}
    assert party(folder, "hub", plan, []).holding.table is None


def test_different_numbers_of_columns_fail_the_handshake(folder: Path) -> None:
    hub, left = party(folder, "hub", agreed(3), []), party(folder, "left", agreement(), [])
    port = MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(handshake.accept_spokes, hub, port)
        with pytest.raises(ProtocolError, match=r"parties\.left\.columns is 3 at hub and None"):
            handshake.join_hub(left, lambda: port.connect("left"))
        refused = accepting.exception(10)
    assert refused is not None
    assert exit_code(refused) == 6


def test_column_without_declared_range_is_refused_before_connecting(
    folder: Path,
) -> None:
    plan = agreement(preprocessing="declared")
    party(folder, "left", plan, [])  # its settings declare x, y and z
    table = folder / "left.csv"
    table.write_text(table.read_text().replace("id,x,y,z", "id,x,y,height"))
    with pytest.raises(DataError, match="the range of 'height'") as caught:
        party(folder, "left", plan, [])
    assert exit_code(caught.value) == 4
    assert "ranges" in str(caught.value.hint)
