"""Bad data through the command line: each fault is named quickly, without personal data.

Canaries stand in place of personal data; no output may repeat one.
"""

import gzip
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_trial import BANK, CANARY, NOT_REFUSED, NUMBER, DataTrial, certify, lines

from parties.data.holding import read_holding
from parties.data.sources.csv_source import MAX_LINE, CsvData
from parties.data.sources.source import IdColumns


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify(tmp_path_factory.mktemp("keys") / "certs")


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> DataTrial:
    return DataTrial(tmp_path, keys)


def people(numbers: Iterable[int], columns: str, row: Callable[[int], str]) -> str:
    return columns + "".join(f"{CANARY}{number},{row(number)}\n" for number in numbers)


def banks(numbers: Iterable[int]) -> str:
    return people(numbers, "id,y\n", lambda number: ("no", "yes")[number % 2])


def shops(numbers: Iterable[int]) -> str:
    return people(numbers, "id,a,b\n", lambda number: f"{number * 37 % 11},{number % 2}")


SOUND = f"id,x,y\n{CANARY}1,{NUMBER},no\n{CANARY}2,2,yes\n" + "".join(
    f"p{row},{row},no\n" for row in range(20)
)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("", "the file is empty"), ("\n\n", "the file is empty"), ("id,x,y\n", "below the header")],
)
def test_file_without_records_is_refused(trial: DataTrial, text: str, hint: str) -> None:
    trial.bank(4, "bank.csv has no records", hint, text=text)


def test_missing_or_duplicate_id_column_is_refused(trial: DataTrial) -> None:
    absent = SOUND.replace("id,x", "pid,x")
    trial.bank(4, "bank.csv has no column 'id' (id)", "columns are pid, x, y", text=absent)
    trial.bank(4, "column 3 has the name of an earlier column", text="id,x,id\n1,2,3\n")


def test_duplicate_ids_are_refused_unless_the_settings_select_one(trial: DataTrial) -> None:
    text = SOUND + f"{CANARY}1,3,yes\n{CANARY}2,3,yes\n"
    result = trial.bank(4, "2 duplicate IDs: bank.csv line 2 and bank.csv line 24", text=text)
    assert 'dedupe = "first"' in result
    trial.bank(NOT_REFUSED, text=text, dedupe='"first"')
    trial.bank(3, "dedupe", text=text, dedupe='"last"')


@pytest.mark.parametrize("empty", ["", '""', "   ", "\u00a0", "\u3000"])
def test_empty_ids_are_refused(trial: DataTrial, empty: str) -> None:
    trial.bank(4, "no ID in 1 line of bank.csv (24)", text=SOUND + f"{empty},1,no\n")


@pytest.mark.parametrize(
    "pair", [("1", "\uff11"), ("x", "\u00a0x"), ("é", "e\u0301"), ("ﬁ", "fi"), (" 1", '"1 "')]
)
def test_two_forms_of_one_id_are_refused(trial: DataTrial, pair: tuple[str, str]) -> None:
    text = SOUND + "".join(f"{form},1,no\n" for form in pair)
    trial.bank(4, "1 duplicate IDs: bank.csv line 24 and bank.csv line 25", "NFKC", text=text)
    for form in pair:
        trial.bank(NOT_REFUSED, text=SOUND + f"{form},1,no\n")


def test_ids_like_numbers_and_dates_stay_distinct_texts(trial: DataTrial) -> None:
    ids = ["007", "7", "7.0", "1e10", "10000000000", "2020-01-02", "44000", "NA", "true", "-0"]
    trial.bank(NOT_REFUSED, text=SOUND + "".join(f"{one},1,no\n" for one in ids))
    data = CsvData(kind="csv", path=Path("bank.csv"), id=IdColumns(columns=("id",)), label="y")
    holding = read_holding(data, folder=trial.folder, classes=("no", "yes"), active=True)
    assert list(holding.ids)[-len(ids) :] == [one.encode() for one in ids]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            f"{CANARY},1",
            "expected 3 fields per line; found another number of fields in 1 line of bank.csv (24)",
        ),
        (
            f"{CANARY},1,no,{NUMBER}",
            "expected 3 fields per line; found another number of fields in 1 line",
        ),
        (f'"{CANARY},1,no', "bank.csv: line 24 ends inside a quoted field"),
        (f'"{CANARY}"{NUMBER},1,no', "bank.csv: line 24: ',' expected"),
    ],
)
def test_ragged_rows_and_wrong_quotes_are_refused(trial: DataTrial, line: str, fault: str) -> None:
    trial.bank(4, fault, text=f"{SOUND}{line}\n{CANARY}9,1,no\n")


@pytest.mark.parametrize("cell", ["NaN", "inf", "-Infinity", "N/A", "-", "NULL"])
def test_undeclared_missing_value_marks_are_refused(trial: DataTrial, cell: str) -> None:
    text = SOUND + f"{CANARY}9,{cell},no\n"
    trial.bank(4, "in numeric column 'x': 1 line of bank.csv (24)", "under missing", text=text)
    trial.bank(NOT_REFUSED, text=text, missing=f'["{cell}"]')


@pytest.mark.parametrize("cell", [CANARY, f"{NUMBER}€", "1_000", "\uff11", "0x1F", "1;2"])
def test_text_in_a_numeric_column_is_refused(trial: DataTrial, cell: str) -> None:
    text = SOUND + f'p99,"{cell}",no\n'
    trial.bank(4, "text in numeric column 'x': 1 line of bank.csv (24)", text=text)


def test_a_decimal_comma_is_refused_with_the_setting_to_change(trial: DataTrial) -> None:
    fault = "line 24 has a number with a comma in numeric column 'x', but decimal = \".\""
    trial.bank(4, fault, 'set decimal = ","', text=SOUND + 'p99,"12,5",no\n')


def test_column_without_values_is_refused(trial: DataTrial) -> None:
    text = "id,x,z,y\n" + "".join(f"p{row},,?,{'no' if row else 'yes'}\n" for row in range(9))
    settings = {"categorical": '["z"]', "missing": '["?"]'}
    trial.bank(4, "no value in any row of column 'x', 'z'", text=text, **settings)


def test_all_constant_columns_are_refused_and_one_gives_a_warning(trial: DataTrial) -> None:
    (trial.folder / "bank.csv").write_text(banks(range(200)))
    (trial.folder / "shop.csv").write_text(people(range(200), "id,a,b\n", lambda _: "7,8"))
    trial.both(4, "every column is constant in the training rows")
    varying = people(range(200), "id,a,b\n", lambda number: f"{number % 5},8")
    (trial.folder / "shop.csv").write_text(varying)
    trial.both(0, "column 'b' is constant in the training rows")


def test_overflowing_numbers_are_refused_and_unusual_forms_accepted(trial: DataTrial) -> None:
    for cell in ("1e308", "-1e101", "1e400"):
        trial.bank(4, "numeric column 'x': 1 line of bank.csv (24)", text=SOUND + f"a,{cell},no\n")
    for cell in ("5e-324", "9223372036854775809", "-0.0", "18446744073709551616"):
        trial.bank(NOT_REFUSED, text=SOUND + f"a,{cell},no\n")


@pytest.mark.parametrize(
    ("label", "fault"),
    [("", "no label"), (CANARY, "an unknown label"), ("1.0", "an unknown label")],
)
def test_missing_or_unknown_labels_are_refused(trial: DataTrial, label: str, fault: str) -> None:
    result = trial.bank(4, f"{fault} in 1 line of bank.csv (24)", text=SOUND + f"a,1,{label}\n")
    assert "use one of the classes no, yes" in result


def test_labels_of_one_class_only_are_refused(trial: DataTrial) -> None:
    trial.bank(4, "all rows have the same label", text=SOUND.replace("yes", "no"))


def test_labels_at_a_passive_party_are_refused(trial: DataTrial) -> None:
    trial.shop(
        4,
        "the data of a passive party has labels",
        "remove data.label (idx files",
        text=SOUND,
        label='"y"',
    )
    unlabelled = BANK.replace('label = "y"\n', "")
    trial.party("active", "bank", unlabelled, 4, ("the active party's data has no labels",))


def test_columns_that_differ_from_the_agreement(trial: DataTrial) -> None:
    (trial.folder / "bank.csv").write_text(banks(range(200)))
    (trial.folder / "shop.csv").write_text(shops(range(200)))
    agreed = ["parties.shop.columns=3"]
    trial.both(4, "2 feature columns, but the agreement requires columns = 3", settings=agreed)


def test_more_columns_or_rows_than_the_settings_allow_are_refused(trial: DataTrial) -> None:
    names = ",".join(["id", "y", *(f"c{at}" for at in range(100_000))])
    cells = ",".join(["p", "no", *["1"] * 100_000])
    message = "bank.csv has 100002 columns, more than max_columns = 10000"
    trial.bank(7, message, text=f"{names}\n{cells}\n")
    many = "id,y\n" + "".join(f"p{row},no\n" for row in range(200_000))
    trial.bank(7, "bank.csv has more rows than max_rows = 1000", text=many, max_rows="1000")


def test_file_of_five_gigabytes_is_read_in_chunks(trial: DataTrial) -> None:
    (trial.folder / "bank.csv").write_text(SOUND)
    os.truncate(trial.folder / "bank.csv", 5 << 30)  # the rest is zero bytes
    trial.bank(4, "bank.csv: line 24 contains a zero byte")


def test_endless_line_is_not_read_completely(trial: DataTrial) -> None:
    (trial.folder / "bank.csv").write_bytes(b"id,x,y\n" + b"1" * (4 * MAX_LINE))
    os.truncate(trial.folder / "bank.csv", 1 << 30)  # the rest is zero bytes
    trial.bank(7, f"bank.csv: line 2 has more than {MAX_LINE} characters")


def test_compressed_files_are_named_and_not_unpacked(trial: DataTrial) -> None:
    bomb = gzip.compress(bytes(100 << 20), 1)
    trial.bank(4, "bank.csv is not a CSV file but gzip", "unpack the file", text=bomb)
    with zipfile.ZipFile(trial.folder / "bank.csv", "w") as archive:
        archive.writestr("xl/workbook.xml", CANARY)
    trial.bank(4, "bank.csv is not a CSV file but zip or xlsx")
    trial.bank(4, "bank.csv is not a CSV file but xls", text=b"\xd0\xcf\x11\xe0" + bytes(2000))
    header = bytes([0, 0, 8, 1]) + (1 << 30).to_bytes(4, "big")
    content = gzip.compress(header + bytes(1 << 20))
    idx = {"kind": '"idx"', "labels": '"bank.csv"'}
    (trial.folder / "bank.csv").write_bytes(content)
    settings = "[settings.bank.data]\n" + lines(idx)
    trial.party("active", "bank", settings, 4, ("unpacks to 1073741824", "200 times"))
    np.savez_compressed(trial.folder / "bank.npz", features=np.zeros((80 << 17, 1)), y=["no"])
    npz = {"kind": '"numpy"', "path": '"bank.npz"', "label": '"y"'}
    settings = "[settings.bank.data]\n" + lines(npz)
    trial.party("active", "bank", settings, 4, ("bank.npz is too large: it has", "200 times"))


@pytest.mark.timeout(20)
def test_path_that_is_not_a_regular_file_of_the_data_folder_is_refused(
    trial: DataTrial, tmp_path_factory: Any
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "rows.csv"
    outside.write_text(SOUND)
    bank = trial.folder / "bank.csv"
    bank.symlink_to(outside)
    trial.bank(4, "bank.csv is outside the data folder")
    bank.unlink()
    os.mkfifo(bank)
    trial.bank(4, "is not a regular file")
    bank.unlink()
    bank.mkdir()
    trial.bank(4, "is not a regular file")
    for path, fault in (
        ("/dev/zero", "/dev/zero is not a regular file"),
        (f"../{outside.parent.name}/rows.csv", "is outside the data folder"),
        ("none.csv", "no file none.csv"),
    ):
        settings = BANK.replace('"bank.csv"', f'"{path}"')
        trial.party("active", "bank", settings, 4, (fault,))


def test_file_changed_during_reading_is_refused(
    trial: DataTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(watch: object, count: int = 1) -> None:
        with (trial.folder / "bank.csv").open("a") as file:
            file.write(f"{CANARY}9,1,no\n")

    monkeypatch.setattr("parties.common.progress.ProgressReporter.step", write)
    trial.bank(9, "bank.csv changed while it was read", text=SOUND)


@pytest.mark.parametrize(("common", "fault"), [(0, "no common rows"), (19, "psi.minimum = 20")])
def test_too_few_common_rows_are_refused(trial: DataTrial, common: int, fault: str) -> None:
    (trial.folder / "bank.csv").write_text(banks(range(100)))
    (trial.folder / "shop.csv").write_text(shops(range(100 - common, 200)))
    result = trial.both(8, fault)
    said = [line for line in result.splitlines() if line.startswith("vfl: error")]
    assert not [line for line in said if str(common) in line.replace("20", "")]


def test_intersections_that_differ_by_few_rows_are_refused(trial: DataTrial) -> None:
    (trial.folder / "bank.csv").write_text(banks(range(200)))
    limit = ["psi.differencing=5"]

    def run_both(rows: int, code: int, *words: str) -> None:
        (trial.folder / "shop.csv").write_text(shops(range(rows)))
        trial.both(code, *words, settings=limit)

    run_both(200, 0)  # all rows are common: no fault
    run_both(199, 8, "the number in an earlier run differ by less than psi.differencing = 5")
    run_both(196, 8)
    run_both(200, 0)
    run_both(195, 0)
    run_both(198, 8)
    for name in ("bank", "shop"):
        kept = trial.runs / "trial" / name / "intersections.json"
        assert CANARY not in kept.read_text()
    (trial.runs / "trial" / "bank" / "intersections.json").write_text("[{}]")
    run_both(195, 7, "cannot read the sizes of earlier runs")
