"""Proposed use of the columns of a table."""

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parties.common.errors import DataError
from parties.data.detection.columns import (
    ColumnUse,
    TableProposal,
    check_ids,
    label_candidates,
    propose_columns,
    propose_ids,
)
from parties.data.detection.csv_form import CsvForm
from parties.data.detection.table_sample import TableSample, sample_csv, sample_parquet

ROWS = 40
IDS = [f"k{row}" for row in range(ROWS)]


def table(**columns: list[str]) -> TableSample:
    return TableSample(file="rows.csv", rows=ROWS, columns={"id": IDS, **columns})


def cycle(*texts: str) -> list[str]:
    return [texts[row % len(texts)] for row in range(ROWS)]


def proposed(column: list[str], name: str = "x", decimal: str = ".") -> tuple[ColumnUse, str]:
    found = propose_columns(table(**{name: column}), decimal, ["id"], None)  # type: ignore[arg-type]
    return found.columns[1].use, found.columns[1].reason


@pytest.mark.parametrize(
    ("name", "column", "use", "reason"),
    [
        ("x", cycle("1", "2.5", "-3e2", ""), ColumnUse.NUMERIC, "numbers"),
        ("children", cycle("0", "1", "2", "3"), ColumnUse.NUMERIC, "numbers"),
        ("branch_code", cycle("1", "2", "3"), ColumnUse.CATEGORICAL, "3 codes, by its name"),
        ("regionTyp", cycle("1", "2"), ColumnUse.CATEGORICAL, "2 codes, by its name"),
        ("x", cycle("01", "02", "10"), ColumnUse.CATEGORICAL, "3 codes, by leading zeros"),
        ("town", cycle("a", "b", "c"), ColumnUse.CATEGORICAL, "3 different texts"),
        ("flag", cycle("true", "false"), ColumnUse.CATEGORICAL, "2 different texts"),
        ("note", [f"text {row}" for row in range(ROWS)], ColumnUse.IGNORED, "free text: 40"),
        ("x", cycle("2024-01-31", "2023-12-01"), ColumnUse.IGNORED, "a date"),
        ("x", cycle("31.01.2024", "1.12.2023"), ColumnUse.IGNORED, "a date"),
        ("x", cycle("2024-01-31T10:00:00Z", "2023-12-01 09:30"), ColumnUse.IGNORED, "a date"),
        ("x", cycle("20240131", "20231201"), ColumnUse.IGNORED, "a date"),
        ("x", cycle("20240131", "20241301"), ColumnUse.NUMERIC, "numbers"),  # no month 13
        ("x", cycle("", ""), ColumnUse.IGNORED, "no value in any row"),
        ("x", cycle("7"), ColumnUse.IGNORED, "the same value in all rows"),
        ("x", cycle("1,234.5", "7.5"), ColumnUse.IGNORED, "numbers with separators of thousands"),
    ],
)
def test_use_of_a_column(name: str, column: list[str], use: ColumnUse, reason: str) -> None:
    found = proposed(column, name)
    assert found[0] is use
    assert found[1].startswith(reason)


def test_decimal_commas_are_numbers() -> None:
    assert proposed(cycle("1,5", "2"), decimal=",")[0] is ColumnUse.NUMERIC
    assert proposed(cycle("1,5", "2"))[0] is ColumnUse.CATEGORICAL


@pytest.mark.parametrize("mark", ["NA", "n/a", "NaN", "?", "-", "NULL"])
def test_marks_of_missing_values_are_found(mark: str) -> None:
    found = propose_columns(table(x=cycle("1.5", mark, "2")), ".", ["id"], None)
    assert found.missing == (mark,)
    assert found.columns[1].use is ColumnUse.NUMERIC
    assert found.columns[1].missing == cycle("1.5", mark, "2").count(mark)


def test_id_is_the_column_with_different_values() -> None:
    decimals = [f"{row}.5" for row in range(ROWS)]
    assert propose_ids(table(x=cycle("1", "2"), amount=decimals)) == ("id",)
    assert propose_ids(table(email=[f"a{row}@b" for row in range(ROWS)])) == ("id",)  # by its name


def test_doubtful_ids_are_refused() -> None:
    two = table(kundennr=[f"n{row}" for row in range(ROWS)])
    with pytest.raises(DataError, match="each of the columns 'id', 'kundennr'") as caught:
        propose_ids(two)
    assert "--id id" in caught.value.hint
    none = TableSample(file="rows.csv", rows=ROWS, columns={"a": cycle("1"), "b": cycle("2", "3")})
    with pytest.raises(DataError, match="no column with a different value in each row") as caught:
        propose_ids(none)
    assert "repeat --id" in caught.value.hint


def customers(cells: list[str], **columns: list[str]) -> TableSample:
    ages = {"age": [str(row) for row in range(ROWS)]}
    return TableSample(file="rows.csv", rows=ROWS, columns={"customer_id": cells} | columns | ages)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([*IDS[:-2], "k0", "k0"], "'customer_id' of rows.csv has 2 repeated values, so it is no"),
        (["", *IDS[1:]], "has no value in 1 rows, so it is no ID"),
        (["", *IDS[1:-1], "k1"], "has 1 repeated values and no value in 1 rows"),
    ],
)
def test_unique_column_does_not_replace_a_repeated_id(cells: list[str], message: str) -> None:
    for required in (True, False):
        with pytest.raises(DataError, match=message) as caught:
            propose_ids(customers(cells), required=required)
        assert "--id COLUMN" in caught.value.hint


@pytest.mark.parametrize("cells", [cycle("1", "2", "3"), [f"{row // 2}.5" for row in range(ROWS)]])
def test_features_with_a_name_of_an_id_are_no_repeated_ids(cells: list[str]) -> None:
    assert propose_ids(customers(cells)) == ("age",)


def test_stated_ids_are_checked() -> None:
    pairs = table(a=cycle("1", "2", "3", "4", "5"), b=[str(row // 5) for row in range(ROWS)])
    check_ids(pairs, ["a", "b"])
    for ids, message in (
        (["a"], r"35 rows of rows\.csv have the ID \('a'\) of an earlier row"),
        (["z"], "--id: rows.csv has no column 'z'"),
    ):
        with pytest.raises(DataError, match=message):
            check_ids(pairs, ids)
    with pytest.raises(DataError, match=r"20 rows of rows\.csv have no value in 'a'"):
        check_ids(table(a=cycle("", "x")), ["a"])


def test_labels_with_2_to_20_classes_are_candidates() -> None:
    many = [str(row) for row in range(20)]
    found = table(
        town=cycle("a", "b", "c"), y=cycle(*many), one=cycle("1"),
        too_many=[str(row % 21) for row in range(ROWS)], void=cycle("0", ""), flag=cycle("0", "1"),
    )  # fmt: skip
    assert label_candidates(found, ["id"]) == ["y", "flag", "town"]


def classes(column: list[str]) -> TableProposal:
    return propose_columns(table(y=column), ".", ["id"], "y")


def test_classes_are_sorted_as_numbers_or_texts() -> None:
    assert classes(cycle("10", "9", "2")).classes == ("2", "9", "10")
    assert classes(cycle("no", "yes")).classes == ("no", "yes")
    assert len(classes(cycle(*map(str, range(20)))).classes) == 20


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (cycle("1"), "has 1 different values"),
        ([f"kind {row % 21}" for row in range(ROWS)], "has 21 different values"),
        (cycle("0", "1", ""), r"13 rows of rows\.csv have no value in the label column 'y'"),
    ],
)
def test_unusable_label_is_refused(column: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        classes(column)
    assert "--label COLUMN" in caught.value.hint


def labelled(label: list[str], feature: list[str], *agreed: str) -> TableProposal:
    return propose_columns(table(y=label, x=feature), ".", ["id"], "y", agreed)


def test_class_with_the_word_of_a_missing_value_is_no_mark() -> None:
    found = labelled(cycle("none", "some"), cycle("none", "NA", "low"))
    assert (found.classes, found.missing) == (("none", "some"), ("NA",))
    assert labelled(cycle("a", "b"), cycle("none", "low")).missing == ("none",)
    assert labelled(cycle("a", "b"), cycle("NA", "low"), "NA", "a", "b").missing == ()


@pytest.mark.parametrize("label", [cycle("yes", "no", "NA"), cycle("0", "1", "None")])
def test_mark_of_a_missing_label_is_no_class(label: list[str]) -> None:
    with pytest.raises(DataError, match=r"13 rows of .* have no value in the label column 'y'"):
        labelled(label, cycle("1", "NA", "None"))


def test_label_of_many_numbers_is_a_number() -> None:
    for column in ([str(row % 21) for row in range(ROWS)], [f"{row}.5" for row in range(ROWS)]):
        found = classes(column)
        assert (found.task, found.classes) == ("regression", ())
        label = next(each for each in found.columns if each.name == "y")
        assert label.reason == f"{len(set(column))} numbers"
    assert classes(cycle("0", "1")).task == "classification"


def test_rows_of_a_large_csv_file_are_counted_beyond_the_sample(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,x\n" + "".join(f"{row:09d},{row % 7}\n" for row in range(200_000)))
    sample = sample_csv(path, CsvForm(), cells=1)
    assert sample.rows == 200_000
    assert 0 < sample.sampled < sample.rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,x,id\n1,2,3\n", "column 3 has the name of an earlier column"),
        ("id,,x\n1,2,3\n", "column 2 has no name"),
        ("id,x\n1,2\n3\n", "line 3 has another number of fields"),
        ("id,x\n", "has no rows"),
    ],
)
def test_malformed_csv_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        sample_csv(path, CsvForm())


def test_parquet_files_without_usable_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    numbers = pa.array([1, 2])
    pq.write_table(pa.Table.from_arrays([numbers, numbers], names=["x", "x"]), path)
    with pytest.raises(DataError, match="column 2 has the name of an earlier column"):
        sample_parquet(path)
    pq.write_table(pa.table({"tags": [[1], [2]]}), path)
    with pytest.raises(DataError, match="has no column with one value per row"):
        sample_parquet(path)


def test_parquet_types_give_uses(tmp_path: Path) -> None:
    content = {
        "id": list(range(ROWS)),
        "rate": [None if row == 3 else row / 7 for row in range(ROWS)],
        "part": [row / 7 for row in range(ROWS)],
        "flag": [float(row % 2) for row in range(ROWS)],
        "day": [date(2024, 1, 1 + row % 28) for row in range(ROWS)],
        "time": np.arange(ROWS).astype("datetime64[ns]"),
        "tags": [[row] for row in range(ROWS)],
        "raw": [b"x"] * ROWS,
        "town": cycle("a", "b"),
        "y": [row % 2 for row in range(ROWS)],
    }
    pq.write_table(pa.table(content), tmp_path / "rows.parquet")
    sample = sample_parquet(tmp_path / "rows.parquet")
    found = propose_columns(sample, ".", propose_ids(sample), "y")
    uses = {each.name: each.use.value for each in found.columns}
    assert uses == {
        "id": "id", "rate": "numeric", "part": "numeric", "flag": "numeric", "day": "ignored",
        "town": "categorical", "y": "label", "raw": "ignored", "tags": "ignored", "time": "ignored",
    }  # fmt: skip
    assert sample.dates == {"day", "time"}
    assert found.classes == ("0", "1")
    assert "rate" not in label_candidates(sample, ["id"])
    assert propose_columns(sample, ".", ["id"], "part").task == "regression"
    with pytest.raises(DataError, match="binary fractions"):
        propose_columns(sample, ".", ["id"], "flag")
