"""Detection of a CSV file's encoding, delimiter and decimal separator."""

from pathlib import Path

import pytest

from parties.common.errors import DataError
from parties.data.detection.csv_form import (
    CsvForm,
    detect_csv,
    detect_decimal,
    detect_delimiter,
    has_thousands,
)

TEXT = "id;ort;betrag\nk1;Köln;1,5\nk2;Aachen;-2,25\nk3;Bonn;10\n"


def detected(folder: Path, content: bytes) -> CsvForm:
    (folder / "rows.csv").write_bytes(content)
    return detect_csv(folder / "rows.csv")


def refusal(folder: Path, content: bytes) -> str:
    with pytest.raises(DataError) as caught:
        detected(folder, content)
    return f"{caught.value} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("cp1252", "cp1252"), ("utf-16", "utf-16")],
)
def test_encoding_is_detected(tmp_path: Path, encoding: str, expected: str) -> None:
    assert detected(tmp_path, TEXT.encode(encoding)) == CsvForm(";", expected, ",")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_detected(tmp_path: Path, delimiter: str) -> None:
    text = TEXT.replace(",", ".").replace(";", delimiter)
    assert detected(tmp_path, text.encode()) == CsvForm(delimiter, "utf-8", ".")  # type: ignore[arg-type]


def test_decimal_commas_in_every_line_are_no_delimiter() -> None:
    lines = ["a;b,c", *["1,5;2,5" for _ in range(20)]]  # the header has one comma, each line two
    assert detect_delimiter("rows.csv", lines) == ";"


def test_wide_table_has_a_form(tmp_path: Path) -> None:
    names = [f"column_{at:012d}" for at in range(9000)]  # with a comma, one field
    text = f"{';'.join(names)}\n{';'.join(['1,5'] * 9000)}\n"
    assert detected(tmp_path, text.encode()) == CsvForm(";", "utf-8", ",")


def test_quoted_fields_are_not_split(tmp_path: Path) -> None:
    assert detected(tmp_path, b'id,town\n1,"a; b"\n2,"c; d; e"\n').delimiter == ","


@pytest.mark.parametrize(
    ("cells", "decimal"),
    [
        (["1,5", "2"], ","),
        (["1.5", "2"], "."),
        (["1.234,5", "2"], ","),
        (["1,234.5", "2"], "."),
        (["1.234,567.8"], "."),  # neither: no evidence
        (["1", "2"], "."),
        (["1.234", "12.345"], "."),  # as Python reads it
        (["1,234", "0,5"], ","),
        (["1,2345"], ","),
    ],
)
def test_decimal_separator_is_detected(cells: list[str], decimal: str) -> None:
    assert detect_decimal(["x"], [cells]) == decimal


def test_doubtful_commas_are_settled_by_another_column_or_refused() -> None:
    doubtful = ["1,234", "12,345"]
    assert detect_decimal(["x", "y"], [doubtful, ["0,5"]]) == ","
    assert detect_decimal(["x", "y"], [doubtful, ["0.5"]]) == "."
    with pytest.raises(DataError, match="column 'x' have either a decimal comma") as caught:
        detect_decimal(["x"], [doubtful])
    assert "--decimal ," in caught.value.hint


def test_separators_of_thousands_are_recognised() -> None:
    assert has_thousands(["1.234,5", "7,5", "3"], ",")
    assert has_thousands(["1,234.5", "7.5"], ".")
    assert not has_thousands(["7,5", "3"], ",")
    assert not has_thousands(["1.234,5", "text"], ",")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "rows.csv is empty"),
        (b"\n\n", "only one column"),
        (b"PK\x03\x04rest", "is not a CSV file but zip or xlsx"),
        (b"id\n1\n2\n", "only one column with each of the delimiters"),
        (b"1;2\n3;4\n", "the first line of rows.csv looks like a record"),
        (b"id;\x81\n1;2\n", "neither UTF-8 nor cp1252 | state the encoding: --encoding"),
        (TEXT.encode("utf-16-le"), "neither UTF-8 nor cp1252"),
    ],
)
def test_unusable_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in refusal(tmp_path, content)


def test_wrong_stated_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT.encode("cp1252"))
    with pytest.raises(DataError, match=r"rows\.csv is not utf-8"):
        detect_csv(path, encoding="utf-8")


@pytest.mark.parametrize("content", [b"id,x\n", b"id,x\n1\n2\n", b"id,x\n1,2,3\n"])
def test_header_without_rows_of_its_width_has_a_form(tmp_path: Path, content: bytes) -> None:
    assert detected(tmp_path, content) == CsvForm()


def test_stated_forms_are_not_detected(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT.encode())
    assert detect_csv(path, delimiter=",", decimal=".") == CsvForm(",", "utf-8", ".")
