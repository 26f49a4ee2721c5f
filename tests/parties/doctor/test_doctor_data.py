"""``vfl doctor``: checks of the beginning of data files, and of all rows with --data-full."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from party_folder import SECRET, PartyFolder, expect_failure

from configs.config_file import validate_table
from parties.data.party_settings import VerticalPartySettings
from parties.doctor.source import data_files
from tests.conftest import HUB, SPOKE


def test_missing_data_is_refused(party_folder: PartyFolder) -> None:
    (party_folder.folder / "bank.csv").unlink()
    expect_failure(party_folder, HUB, 4, "name the folder of the file with --data DIR")


def test_a_folder_in_place_of_data_is_refused(party_folder: PartyFolder) -> None:
    (party_folder.folder / "bank.csv").unlink()
    (party_folder.folder / "bank.csv").mkdir()
    expect_failure(party_folder, HUB, 4, "is not a regular file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"who,age,bought\n1,2,no\n", "has no column 'id' (id)"),
        (b"id,age\n1,2\n", "has no column 'bought' (label)"),
        (b"\x1f\x8b\x08", "is not CSV but gzip"),
        (b"id,\xff\xfe,bought\n", "the header is not UTF-8"),
        (b"\n\n", "has no records"),
    ],
)
def test_invalid_first_rows_are_refused(
    party_folder: PartyFolder, content: bytes, message: str
) -> None:
    (party_folder.folder / "bank.csv").write_bytes(content)
    findings = party_folder.findings(HUB)
    assert message in findings["data"]["message"]
    assert findings["data"]["exit"] == findings["result"]["exit"] == 4


def test_long_header_of_wide_characters_is_read_whole(party_folder: PartyFolder) -> None:
    names = [f"größe_{at:06d}" for at in range(70_000)]
    path = party_folder.folder / "bank.csv"
    path.write_text(f"{','.join([*names, 'id', 'age', 'bought'])}\n", encoding="utf-8")
    assert path.stat().st_size > 1 << 20
    findings = party_folder.findings(HUB)
    assert "70003 columns with all that the party settings name" in findings["data"]["message"]


def test_labels_at_a_passive_party_are_refused(party_folder: PartyFolder) -> None:
    party_folder.settings(SPOKE, data='label = "age"')
    expect_failure(party_folder, SPOKE, 4, "labels at a passive party")


def test_an_active_party_without_labels_is_refused(party_folder: PartyFolder) -> None:
    party_folder.settings(HUB, data="numeric = []")
    expect_failure(party_folder, HUB, 4, "has no labels")


def test_a_request_without_its_file_is_refused(party_folder: PartyFolder) -> None:
    party_folder.agreed[HUB] = '[[unlearn]]\nname = "some"'
    expect_failure(party_folder, HUB, 4, "request 'some' names no classes")


@pytest.mark.parametrize(("party", "code"), [(HUB, 8), (SPOKE, 0)])
def test_more_rows_than_the_query_limit_are_reported(
    party_folder: PartyFolder, party: str, code: int
) -> None:
    party_folder.agreed[SPOKE] += '[psi]\nsecurity = "hardened"\nqueries = 19'
    findings = party_folder.findings(party, "--data-full")
    assert findings["all rows"]["exit"] == code
    assert ("20 rows; psi.queries is 19" in findings["all rows"]["message"]) == (party == HUB)


def test_duplicate_id_is_found_by_full_reading_only(party_folder: PartyFolder) -> None:
    with (party_folder.folder / "bank.csv").open("a") as file:
        file.write(f"{SECRET},1,no\n")
    assert party_folder.run_doctor(HUB).exit_code == 0
    expect_failure(party_folder, HUB, 4, "1 duplicate IDs", "--data-full")


def test_a_column_with_too_many_categories_is_found_by_full_reading(
    party_folder: PartyFolder,
) -> None:
    rows = "".join(f"p{at},{at},{('yes', 'no')[at % 2]},town {at}\n" for at in range(1200))
    (party_folder.folder / "bank.csv").write_text(f"id,age,bought,town\n{rows}")
    party_folder.settings(HUB, data='label = "bought"\ncategorical = ["town"]')
    found = party_folder.findings(HUB, "--data-full")["all rows"]
    assert found["state"] == "warning"
    assert "column 'town' has 1200 categories, above 1000" in found["message"]


def test_every_batch_file_and_the_image_folder_are_checked(tmp_path: Path) -> None:
    """Files in a list, and a folder of images, of which the file of annotations is checked."""
    cifar = {"kind": "cifar", "name": "cifar10", "train": ["a.bin", "b.bin"], "test": "t.bin"}
    tiny = {"kind": "tiny-imagenet", "path": "tiny"}
    for data, names in (
        (cifar, ["a.bin", "b.bin", "t.bin"]),
        (tiny, ["tiny/val/val_annotations.txt"]),
    ):
        settings = validate_table(VerticalPartySettings, {"data": data}, tmp_path, "")
        examined = SimpleNamespace(settings=settings, folder=tmp_path)
        assert data_files(examined) == [tmp_path / name for name in names]


def test_a_split_by_time_needs_a_column_with_dates(party_folder: PartyFolder) -> None:
    party_folder.agreed[HUB] = '[split]\nkind = "time"'
    expect_failure(party_folder, HUB, 4, "divides the rows by a date")


def test_weights_of_rows_need_a_column_with_weights(party_folder: PartyFolder) -> None:
    party_folder.agreed[HUB] = "[training]\nsample_weights = true"
    expect_failure(
        party_folder,
        HUB,
        4,
        "training.sample_weights is set, but the party settings name no column",
    )


def test_weights_that_nothing_uses_are_named(party_folder: PartyFolder) -> None:
    party_folder.settings(HUB, data='weight = "age"')
    expect_failure(party_folder, HUB, 4, "nothing uses data.weight")


def test_dates_that_nothing_uses_are_named(party_folder: PartyFolder) -> None:
    party_folder.settings(SPOKE, data='time = "age"')
    expect_failure(party_folder, SPOKE, 4, "nothing uses data.time")
