"""Bad data, as a person meets it: every case through the command line, named, fast, and mute.

Planted canaries stand for what is personal: no output may ever repeat one of them.
"""

import gzip
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_desk import BANK, CANARY, NOT_REFUSED, NUMBER, Desk, certify, lines

from configs.party_settings import CsvData, IdColumns
from parties.data.holding import read_holding
from parties.data.sources.csv_source import MAX_LINE


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify(tmp_path_factory.mktemp("keys") / "certs")


@pytest.fixture
def desk(tmp_path: Path, keys: Path) -> Desk:
    return Desk(tmp_path, keys)


def people(numbers: Iterable[int], columns: str, row: Callable[[int], str]) -> str:
    return columns + "".join(f"{CANARY}{number},{row(number)}\n" for number in numbers)


def banks(numbers: Iterable[int]) -> str:
    return people(numbers, "id,y\n", lambda number: ("no", "yes")[number % 2])


def shops(numbers: Iterable[int]) -> str:
    return people(numbers, "id,a,b\n", lambda number: f"{number * 37 % 11},{number % 2}")


SOUND = f"id,x,y\n{CANARY}1,{NUMBER},no\n{CANARY}2,2,yes\n" + "".join(
    f"p{row},{row},no\n" for row in range(20)
)


@pytest.mark.parametrize("text", ["", "\n\n", "id,x,y\n"])
def test_file_without_records(desk: Desk, text: str) -> None:
    desk.bank(4, "bank.csv has no records", "it is empty", text=text)


def test_id_column_that_is_absent_or_there_twice(desk: Desk) -> None:
    absent = SOUND.replace("id,x", "pid,x")
    desk.bank(4, "bank.csv has no column 'id' (id)", "columns are pid, x, y", text=absent)
    desk.bank(4, "column 3 has the name of an earlier one", text="id,x,id\n1,2,3\n")


def test_duplicate_ids_unless_the_settings_say_which_to_keep(desk: Desk) -> None:
    text = SOUND + f"{CANARY}1,3,yes\n{CANARY}2,3,yes\n"
    said = desk.bank(4, "2 duplicate IDs: bank.csv line 2 and bank.csv line 24", text=text)
    assert 'dedupe = "first"' in said
    desk.bank(NOT_REFUSED, text=text, dedupe='"first"')
    desk.bank(3, "dedupe", text=text, dedupe='"last"')


@pytest.mark.parametrize("empty", ["", '""', "   ", "\u00a0", "\u3000"])
def test_empty_ids(desk: Desk, empty: str) -> None:
    desk.bank(4, "no ID in 1 line of bank.csv (24)", text=SOUND + f"{empty},1,no\n")


@pytest.mark.parametrize(
    "pair", [("1", "\uff11"), ("x", "\u00a0x"), ("é", "e\u0301"), ("ﬁ", "fi"), (" 1", '"1 "')]
)
def test_two_forms_of_one_id(desk: Desk, pair: tuple[str, str]) -> None:
    text = SOUND + "".join(f"{form},1,no\n" for form in pair)
    desk.bank(4, "1 duplicate IDs: bank.csv line 24 and bank.csv line 25", "NFKC", text=text)
    for form in pair:
        desk.bank(NOT_REFUSED, text=SOUND + f"{form},1,no\n")


def test_ids_that_spreadsheets_damage_stay_text_and_apart(desk: Desk) -> None:
    ids = ["007", "7", "7.0", "1e10", "10000000000", "2020-01-02", "44000", "NA", "true", "-0"]
    desk.bank(NOT_REFUSED, text=SOUND + "".join(f"{one},1,no\n" for one in ids))
    data = CsvData(kind="csv", path=Path("bank.csv"), id=IdColumns(columns=("id",)), label="y")
    holding = read_holding(data, folder=desk.folder, classes=("no", "yes"), active=True)
    assert list(holding.ids)[-len(ids) :] == [one.encode() for one in ids]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"{CANARY},1", "not 3 fields, one for each column, in 1 line of bank.csv (24)"),
        (f"{CANARY},1,no,{NUMBER}", "not 3 fields, one for each column, in 1 line"),
        (f'"{CANARY},1,no', "bank.csv: line 24 ends inside a quoted field"),
        (f'"{CANARY}"{NUMBER},1,no', "bank.csv: line 24: ',' expected"),
    ],
)
def test_ragged_rows_and_wrong_quotes(desk: Desk, line: str, fault: str) -> None:
    desk.bank(4, fault, text=f"{SOUND}{line}\n{CANARY}9,1,no\n")


@pytest.mark.parametrize("cell", ["NaN", "inf", "-Infinity", "N/A", "-", "NULL"])
def test_marks_of_absent_values_that_the_settings_do_not_name(desk: Desk, cell: str) -> None:
    text = SOUND + f"{CANARY}9,{cell},no\n"
    desk.bank(4, "in numeric column 'x': 1 line of bank.csv (24)", "under missing", text=text)
    desk.bank(NOT_REFUSED, text=text, missing=f'["{cell}"]')


@pytest.mark.parametrize("cell", [CANARY, f"{NUMBER}€", "1_000", "\uff11", "0x1F", "1;2", "12,5"])
def test_text_in_a_numeric_column(desk: Desk, cell: str) -> None:
    text = SOUND + f'p99,"{cell}",no\n'
    desk.bank(4, "text in numeric column 'x': 1 line of bank.csv (24)", text=text)


def test_column_without_any_value(desk: Desk) -> None:
    text = "id,x,z,y\n" + "".join(f"p{row},,?,{'no' if row else 'yes'}\n" for row in range(9))
    settings = {"categorical": '["z"]', "missing": '["?"]'}
    desk.bank(4, "no value in any row of column 'x', 'z'", text=text, **settings)


def test_columns_that_are_all_constant_and_a_warning_for_one(desk: Desk) -> None:
    (desk.folder / "bank.csv").write_text(banks(range(200)))
    (desk.folder / "shop.csv").write_text(people(range(200), "id,a,b\n", lambda _: "7,8"))
    desk.both(4, "every column is constant in the training rows")
    varying = people(range(200), "id,a,b\n", lambda number: f"{number % 5},8")
    (desk.folder / "shop.csv").write_text(varying)
    desk.both(0, "column 'b' is constant in the training rows")


def test_numbers_that_overflow_and_those_that_only_look_odd(desk: Desk) -> None:
    for cell in ("1e308", "-1e101", "1e400"):
        desk.bank(4, "numeric column 'x': 1 line of bank.csv (24)", text=SOUND + f"a,{cell},no\n")
    for cell in ("5e-324", "9223372036854775809", "-0.0", "18446744073709551616"):
        desk.bank(NOT_REFUSED, text=SOUND + f"a,{cell},no\n")


@pytest.mark.parametrize(
    ("label", "fault"),
    [("", "no label"), (CANARY, "a label that is no class"), ("1.0", "a label that is no class")],
)
def test_labels_that_are_absent_or_no_class(desk: Desk, label: str, fault: str) -> None:
    said = desk.bank(4, f"{fault} in 1 line of bank.csv (24)", text=SOUND + f"a,1,{label}\n")
    assert "the classes are no, yes" in said


def test_labels_of_one_class_only(desk: Desk) -> None:
    desk.bank(4, "all rows have the same label", text=SOUND.replace("yes", "no"))


def test_labels_at_a_passive_party(desk: Desk) -> None:
    desk.shop(
        4,
        "labels at a passive party",
        "remove label from the party settings",
        text=SOUND,
        label='"y"',
    )
    unlabelled = BANK.replace('label = "y"\n', "")
    desk.party("active", "bank", unlabelled, 4, ("the active party's data has no labels",))


def test_other_columns_than_agreed(desk: Desk) -> None:
    (desk.folder / "bank.csv").write_text(banks(range(200)))
    (desk.folder / "shop.csv").write_text(shops(range(200)))
    agreed = ["parties.shop.columns=3"]
    desk.both(4, "2 feature columns, but the agreement has columns = 3", settings=agreed)


def test_more_columns_or_rows_than_the_settings_allow(desk: Desk) -> None:
    names = ",".join(["id", "y", *(f"c{at}" for at in range(100_000))])
    cells = ",".join(["p", "no", *["1"] * 100_000])
    desk.bank(7, "bank.csv has 100002 columns; max_columns = 10000", text=f"{names}\n{cells}\n")
    many = "id,y\n" + "".join(f"p{row},no\n" for row in range(200_000))
    desk.bank(7, "bank.csv has more rows than max_rows = 1000", text=many, max_rows="1000")


def test_file_of_five_gigabytes_is_read_piece_by_piece(desk: Desk) -> None:
    (desk.folder / "bank.csv").write_text(SOUND)
    os.truncate(desk.folder / "bank.csv", 5 << 30)  # the rest is zero bytes
    desk.bank(4, "bank.csv: line 24 holds a zero byte")


def test_line_without_end_is_not_read_to_its_end(desk: Desk) -> None:
    (desk.folder / "bank.csv").write_bytes(b"id,x,y\n" + b"1" * (4 * MAX_LINE))
    os.truncate(desk.folder / "bank.csv", 1 << 30)  # who reads on meets zero bytes
    desk.bank(7, f"bank.csv: line 2 has more than {MAX_LINE} characters")


def test_packed_files_are_named_and_not_unpacked(desk: Desk) -> None:
    bomb = gzip.compress(bytes(100 << 20), 1)
    desk.bank(4, "bank.csv is no CSV file but gzip", "unpack it", text=bomb)
    with zipfile.ZipFile(desk.folder / "bank.csv", "w") as archive:
        archive.writestr("xl/workbook.xml", CANARY)
    desk.bank(4, "bank.csv is no CSV file but zip or xlsx")
    desk.bank(4, "bank.csv is no CSV file but xls", text=b"\xd0\xcf\x11\xe0" + bytes(2000))
    header = bytes([0, 0, 8, 1]) + (1 << 30).to_bytes(4, "big")
    content = gzip.compress(header + bytes(1 << 20))
    idx = {"kind": '"idx"', "labels": '"bank.csv"'}
    (desk.folder / "bank.csv").write_bytes(content)
    settings = "[settings.bank.data]\n" + lines(idx)
    desk.party("active", "bank", settings, 4, ("unpacks to 1073741824", "200 times"))
    np.savez_compressed(desk.folder / "bank.npz", features=np.zeros((80 << 17, 1)), y=["no"])
    npz = {"kind": '"numpy"', "path": '"bank.npz"', "label": '"y"'}
    settings = "[settings.bank.data]\n" + lines(npz)
    desk.party("active", "bank", settings, 4, ("bank.npz has", "200 times"))


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_of_the_data_folder(desk: Desk, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "rows.csv"
    outside.write_text(SOUND)
    bank = desk.folder / "bank.csv"
    bank.symlink_to(outside)
    desk.bank(4, "bank.csv leads out of the data folder")
    bank.unlink()
    os.mkfifo(bank)
    desk.bank(4, "is no regular file")
    bank.unlink()
    bank.mkdir()
    desk.bank(4, "is no regular file")
    for path, fault in (
        ("/dev/zero", "/dev/zero is no regular file"),
        (f"../{outside.parent.name}/rows.csv", "leads out of the data folder"),
        ("none.csv", "no file none.csv"),
    ):
        settings = BANK.replace('"bank.csv"', f'"{path}"')
        desk.party("active", "bank", settings, 4, (fault,))


def test_file_that_changes_while_it_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(watch: object, count: int = 1) -> None:
        with (desk.folder / "bank.csv").open("a") as file:
            file.write(f"{CANARY}9,1,no\n")

    monkeypatch.setattr("parties.common.progress.ProgressReporter.step", write)
    desk.bank(9, "bank.csv changed while it was read", text=SOUND)


@pytest.mark.parametrize(("common", "fault"), [(0, "no common rows"), (19, "psi.minimum = 20")])
def test_too_few_common_rows(desk: Desk, common: int, fault: str) -> None:
    (desk.folder / "bank.csv").write_text(banks(range(100)))
    (desk.folder / "shop.csv").write_text(shops(range(100 - common, 200)))
    said = desk.both(8, fault)
    assert str(common) not in said.replace("20", "")


def test_intersections_that_differ_by_few_rows(desk: Desk) -> None:
    (desk.folder / "bank.csv").write_text(banks(range(200)))
    limit = ["psi.differencing=5"]

    def meet(rows: int, code: int, *words: str) -> None:
        (desk.folder / "shop.csv").write_text(shops(range(rows)))
        desk.both(code, *words, settings=limit)

    meet(200, 0)  # that all rows are common is no fault
    meet(199, 8, "differ from those of an earlier run by fewer than psi.differencing = 5")
    meet(196, 8)
    meet(200, 0)
    meet(195, 0)
    meet(198, 8)
    for name in ("bank", "shop"):
        kept = desk.runs / "trial" / name / "intersections.json"
        assert CANARY not in kept.read_text()
    (desk.runs / "trial" / "bank" / "intersections.json").write_text("[{}]")
    meet(195, 7, "cannot read the sizes of earlier runs")
