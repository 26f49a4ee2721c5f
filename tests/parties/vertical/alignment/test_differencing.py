"""Protection against differencing: sizes that are too close are refused; only sizes are stored."""

import json
import stat
from pathlib import Path

import pytest
from three_parties import agreement, certify, party, write_data

from parties.common.errors import PolicyError, StorageError
from parties.vertical.alignment.differencing import SIZES, refuse_small_change
from parties.vertical.engine.party import VerticalParty


def party_of(folder: Path, differencing: int = 5) -> VerticalParty:
    write_data(folder)
    if not (folder / "certs").exists():
        certify(folder)
    return party(folder, "left", agreement(psi={"minimum": 10, "differencing": differencing}), [])


def test_size_close_to_an_earlier_size_is_refused(tmp_path: Path) -> None:
    left = party_of(tmp_path)
    for rows in (100, 100, 105, 110, 95):
        refuse_small_change(left, rows, 0)
    for rows in (99, 101, 104, 109, 114, 91):
        with pytest.raises(PolicyError, match=r"differ by less than psi\.differencing = 5"):
            refuse_small_change(left, rows, 0)
    assert [run["rows"] for run in json.loads((left.state / SIZES).read_text())] == [
        100, 105, 110, 95,
    ]  # fmt: skip


def test_sizes_are_compared_for_the_same_parties_only(tmp_path: Path) -> None:
    left = party_of(tmp_path)
    (left.state / SIZES).write_text(json.dumps([{"parties": ["hub", "left"], "rows": 100}]))
    refuse_small_change(left, 101, 0)


def test_no_size_is_stored_without_a_limit(tmp_path: Path) -> None:
    left = party_of(tmp_path, 0)
    refuse_small_change(left, 100, 0)
    refuse_small_change(left, 101, 0)
    assert not (left.state / SIZES).exists()


def test_sizes_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    left = party_of(tmp_path)
    refuse_small_change(left, 100, 0)
    assert stat.S_IMODE((left.state / SIZES).stat().st_mode) == 0o600
    assert set(json.loads((left.state / SIZES).read_text())[0]) == {"forgotten", "parties", "rows"}


@pytest.mark.parametrize("text", ["", "{", "{}x", "[1]", '[{"rows": "1", "parties": ["a"]}]'])
def test_damaged_sizes_are_refused(tmp_path: Path, text: str) -> None:
    left = party_of(tmp_path)
    (left.state / SIZES).write_text(text)
    with pytest.raises(StorageError, match="cannot read the sizes of earlier runs"):
        refuse_small_change(left, 100, 0)
