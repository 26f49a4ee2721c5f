"""Tests of the CSV source: cells, lines, and errors with line and column."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parties.common.errors import DataError, ResourceError
from parties.data.data_frame import data_frame
from parties.data.sources.csv_source import MAX_LINE, CsvData
from parties.data.sources.records import Records
from parties.data.sources.source import IdColumns, ReadOptions

CLASSES = ("no", "yes")


def read(folder: Path, content: str | bytes, **options: Any) -> Records:
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / "rows.csv").write_bytes(raw)
    data = CsvData(kind="csv", path=Path("rows.csv"), **options)
    return data.read(ReadOptions(folder, CLASSES))


def column(records: Records, name: str) -> list[Any]:
    assert records.table is not None
    return list(data_frame(records.table)[name])


def refusal(folder: Path, content: str | bytes, **options: Any) -> str:
    with pytest.raises((DataError, ResourceError)) as caught:
        read(folder, content, **options)
    return f"{caught.value} | {caught.value.hint}"


def test_blanks_around_fields_are_removed(tmp_path: Path) -> None:
    records = read(tmp_path, '1, Private , "a, b"\n', names=("n", "c", "d"), categorical=("c", "d"))
    assert (column(records, "c"), column(records, "d")) == (["Private"], ["a, b"])


def test_quotes_in_one_line_change_no_record(tmp_path: Path) -> None:
    lines = [f"p{row}, {row}.5,town {row % 3},{('no', ' yes ')[row % 2]}" for row in range(20)]
    text = "id,x,town,y\n" + "\n".join(lines)
    options = {"id": IdColumns(columns=("id",)), "categorical": ("town",), "label": "y"}
    plain = read(tmp_path, text, **options)
    quoted = read(tmp_path, text.replace("p7,", '"p7",'), **options)
    assert plain.table is not None
    assert quoted.table is not None
    assert list(plain.ids) == list(quoted.ids) == [b"p%d" % row for row in range(20)]
    assert column(plain, "x") == column(quoted, "x") == [row + 0.5 for row in range(20)]
    assert column(plain, "town") == column(quoted, "town")
    assert (plain.numbers == quoted.numbers).all()
    assert plain.digest == quoted.digest


@pytest.mark.parametrize("text", ["x\n1\n\n3\n", "x\n1\n  \n3\n", "x\n1\n\n3", 'x\n1\n\n"3"\n'])
def test_blank_line_of_a_single_column_is_no_record(tmp_path: Path, text: str) -> None:
    records = read(tmp_path, text)
    assert (records.numbers.tolist(), column(records, "x")) == ([2, 4], [1, 3])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_counts_lines_alike(tmp_path: Path, end: str) -> None:
    records = read(tmp_path, end.join(["x", "1", "", "2", ""]))
    assert (records.numbers.tolist(), column(records, "x")) == ([2, 4], [1, 2])


def test_line_of_blanks_is_skipped_and_counted(tmp_path: Path) -> None:
    assert read(tmp_path, "x,y\n   \n1,2\n").numbers.tolist() == [3]


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert column(read(tmp_path, b"\xef\xbb\xbfx\n1\n"), "x") == [1]


def test_numeric_columns_are_all_but_the_others(tmp_path: Path) -> None:
    text = "pid,age,town,pay,y\n1,2,x,3,no\n"
    options = {"id": IdColumns(columns=("pid",)), "categorical": ("town",), "label": "y"}
    records = read(tmp_path, text, **options)
    assert records.table is not None
    assert list(data_frame(records.table)) == ["age", "pay", "town"]


def test_numbers_are_exact(tmp_path: Path) -> None:
    written = ["0.1", "-1e-5", "+7", ".5", "123456789.123456789", "1e-320"]
    assert column(read(tmp_path, "\n".join(["x", *written])), "x") == [float(x) for x in written]


def test_empty_cells_and_marks_are_missing_values(tmp_path: Path) -> None:
    text = "x,c,z\n?,?,1\n,,1\nN/A,N/A,1\n4,e,1\n"
    records = read(tmp_path, text, categorical=("c",), missing=("?", "N/A"))
    np.testing.assert_equal(column(records, "x"), [np.nan, np.nan, np.nan, 4])
    assert column(records, "c") == [None, None, None, "e"]


def test_literal_nan_may_be_a_mark(tmp_path: Path) -> None:
    np.testing.assert_equal(
        column(read(tmp_path, "x\nnan\n1\n", missing=("nan",)), "x"), [np.nan, 1]
    )


# Refusals


@pytest.mark.parametrize("content", ["", "\n\n", "x,y\n", "# x\n"])
def test_file_without_records_is_refused(tmp_path: Path, content: str) -> None:
    assert "rows.csv has no records" in refusal(tmp_path, content, comment="#")


def test_no_id_column_is_refused_with_the_columns(tmp_path: Path) -> None:
    error = refusal(tmp_path, "pid,age\n1,2\n", id=IdColumns(columns=("id",)))
    assert "rows.csv has no column 'id' (id)" in error
    assert "its columns are pid, age" in error


def test_unknown_columns_are_refused_with_their_uses(tmp_path: Path) -> None:
    error = refusal(tmp_path, "a,b\n1,2\n", label="y", numeric=("c",), categorical=("d",))
    assert "no column 'y' (label), 'c' (numeric), 'd' (categorical)" in error


def test_file_without_header_does_not_show_its_first_record(tmp_path: Path) -> None:
    error = refusal(tmp_path, "39,State-gov\n50,Private\n", numeric=("age",))
    assert "the first line has none of the columns of the party settings" in error
    assert "State-gov" not in error
    error = refusal(tmp_path, "anna@x.de,Berlin\nbob@x.de,Bonn\n", numeric=("age",))
    assert "set names = [...]" in error
    assert "anna" not in error
    error = refusal(tmp_path, "age,town,39\n1,Bonn,2\n", numeric=("age", "x"))
    assert "looks like a record" in error


def test_column_of_the_test_file_that_is_absent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("a\n1\n")
    error = refusal(tmp_path, "a,b\n1,2\n", test_path=Path("test.csv"))
    assert "test.csv has no column 'b' (numeric)" in error


def test_column_with_two_uses_is_refused(tmp_path: Path) -> None:
    text = "id,a\n1,2\n"
    error = refusal(tmp_path, text, id=IdColumns(columns=("id",)), numeric=("id", "a"))
    assert "column 'id' is listed more than once" in error
    error = refusal(tmp_path, text, numeric=("a",), categorical=("a",))
    assert "column 'a' is listed more than once" in error


def test_id_column_twice_is_refused(tmp_path: Path) -> None:
    assert "column 3 has the name of an earlier column" in refusal(tmp_path, "id,a,id\n1,2,3\n")


def test_column_without_a_name_is_refused(tmp_path: Path) -> None:
    assert "column 2 has no name" in refusal(tmp_path, "id,,a\n1,2,3\n")


@pytest.mark.parametrize("cell", ["Bonn", "1_000", "１", "1;2", "12 km", "-", "N/A", "0x1F", "1e"])
def test_text_in_a_numeric_column_is_refused_with_line_and_column(
    tmp_path: Path, cell: str
) -> None:
    error = refusal(tmp_path, f"age,pay\n1,2\n3,{cell}\n")
    assert "text in numeric column 'pay': 1 line of rows.csv (3)" in error
    assert "under categorical" in error
    assert cell == "-" or cell not in error


@pytest.mark.parametrize("cell", ["nan", "NaN", "inf", "-Infinity", "1e400"])
def test_nan_and_infinity_in_a_numeric_column_are_refused(tmp_path: Path, cell: str) -> None:
    error = refusal(tmp_path, f"age\n1\n{cell}\n")
    assert "NaN or infinity in numeric column 'age': 1 line of rows.csv (3)" in error


def test_number_whose_square_overflows_is_refused(tmp_path: Path) -> None:
    assert "a number beyond 1e+100 in numeric column" in refusal(tmp_path, "age\n1\n1e308\n")


def test_all_faulty_columns_are_reported_together(tmp_path: Path) -> None:
    error = refusal(tmp_path, "a,b,c\n1,x,3\n4,inf,z\n")
    assert "NaN or infinity and text in numeric column 'b': 2 lines of rows.csv (2, 3)" in error
    assert "text in numeric column 'c': 1 line of rows.csv (3)" in error


@pytest.mark.parametrize("row", ["1", "1,2,3", "1,2,"])
def test_ragged_row_is_refused_with_its_line(tmp_path: Path, row: str) -> None:
    error = refusal(tmp_path, f"a,b\n1,2\n\n{row}\n")
    assert (
        "expected 2 fields per line; found another number of fields in 1 line of rows.csv (4)"
        in error
    )


def test_wide_table_without_a_named_column_is_refused(tmp_path: Path) -> None:
    names = [f"column_{at:012d}" for at in range(9000)]  # with another delimiter, one field
    text = f"{','.join(names)}\n{','.join(['1'] * 9000)}\n"
    found = read(tmp_path, text, id=IdColumns(columns=(names[0],)), max_columns=9000)
    assert list(found.ids) == [b"1"]
    assert "has no column 'who' (id)" in refusal(tmp_path, text, id=IdColumns(columns=("who",)))


def test_unclosed_quote_is_refused_with_the_line_where_it_opens(tmp_path: Path) -> None:
    assert "line 3 ends inside a quoted" in refusal(tmp_path, 'a\n1\n"2\n3\n4"\n5\n')
    assert "line 3 ends inside a quoted" in refusal(tmp_path, 'a\n1\n"2\n3\n4\n')


def test_text_after_a_quote_is_refused(tmp_path: Path) -> None:
    assert "line 2: ',' expected" in refusal(tmp_path, 'a,b\n"1"2,3\n')


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    assert "line 3 is not UTF-8" in refusal(tmp_path, b"a\n1\n\xff\n")


def test_zero_byte_is_refused_with_its_line(tmp_path: Path) -> None:
    assert "line 2 contains a zero byte" in refusal(tmp_path, "a\n1\0\n")


@pytest.mark.parametrize(
    ("start", "name"),
    [(b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "xlsx"), (b"\xd0\xcf\x11\xe0", "xls")],
)
def test_compressed_file_named_csv_is_refused(tmp_path: Path, start: bytes, name: str) -> None:
    error = refusal(tmp_path, start + b"\0" * 20)
    assert "is not a CSV file but" in error
    assert name in error


def test_endless_line_is_refused(tmp_path: Path) -> None:
    text = "a\n" + "1" * (MAX_LINE + 1)
    assert f"line 2 has more than {MAX_LINE} characters" in refusal(tmp_path, text)


def test_endless_field_is_refused(tmp_path: Path) -> None:
    assert "line 2: field larger than" in refusal(tmp_path, "a\n" + "1" * 200_000)


GERMAN = "id;betrag;ort\nk1;1,5;Köln\nk2;-2,25;Berlin\nk3;;Köln\n"
KEYS = IdColumns(columns=("id",))


def test_semicolons_decimal_commas_and_windows_characters_are_read(tmp_path: Path) -> None:
    options: dict[str, Any] = {"id": KEYS, "categorical": ("ort",), "delimiter": ";"}
    records = read(tmp_path, GERMAN.encode("cp1252"), encoding="cp1252", decimal=",", **options)
    same = read(tmp_path, GERMAN.encode("utf-16"), encoding="utf-16", decimal=",", **options)
    english = GERMAN.replace(",", ".").replace(";", ",")
    default = read(tmp_path, english, id=KEYS, categorical=("ort",))
    assert column(records, "betrag")[:2] == [1.5, -2.25]
    assert np.isnan(column(records, "betrag")[2])
    assert column(records, "ort") == ["Köln", "Berlin", "Köln"]
    assert records.digest == same.digest == default.digest


@pytest.mark.parametrize("delimiter", ["\t", "|", ";"])
def test_each_delimiter_splits_plain_and_quoted_lines(tmp_path: Path, delimiter: str) -> None:
    text = 'id,x,c\na,1,u\nb,2,"u,v"\n'.replace(",", delimiter)
    options: dict[str, Any] = {"id": KEYS, "categorical": ("c",), "delimiter": delimiter}
    records = read(tmp_path, text, **options)
    assert column(records, "c") == ["u", f"u{delimiter}v"]
    plain = read(tmp_path, text.replace(f'"u{delimiter}v"', "w"), **options)
    assert column(plain, "c") == ["u", "w"]


def test_wrong_delimiter_is_refused_with_the_line_to_paste(tmp_path: Path) -> None:
    for options in ({"id": KEYS}, {}):  # with and without named columns
        error = refusal(tmp_path, GERMAN, **options)
        assert 'the header of rows.csv has 1 field with delimiter = ",", and 3 fields' in error
        assert 'set delimiter = ";" in' in error
    error = refusal(tmp_path, "id,x\na,1\n", id=KEYS, delimiter="\t")
    assert 'set delimiter = ","' in error
    error = refusal(tmp_path, "a\t1\nb\t2\n", names=("id", "x"), id=KEYS)
    assert 'line 1 of rows.csv has 1 field with delimiter = ","' in error
    assert 'set delimiter = "\\t"' in error


def test_a_column_name_with_another_delimiter_is_no_error(tmp_path: Path) -> None:
    records = read(tmp_path, "id;n\na\n", id=IdColumns(columns=("id;n",)))
    assert list(records.ids) == [b"a"]


def test_wrong_decimal_separator_is_refused_with_the_line_to_paste(tmp_path: Path) -> None:
    options: dict[str, Any] = {"id": KEYS, "categorical": ("ort",), "delimiter": ";"}
    error = refusal(tmp_path, GERMAN, **options)
    assert "line 2 has a number with a comma in numeric column 'betrag'" in error
    assert 'set decimal = ","' in error
    error = refusal(tmp_path, GERMAN.replace(",", "."), decimal=",", **options)
    assert "line 2 has a number with a point" in error
    assert 'set decimal = "."' in error


@pytest.mark.parametrize("number", ["1.234,5", "1.234", "1,234,5", "1\u202f234,5"])
def test_separators_of_thousands_are_refused(tmp_path: Path, number: str) -> None:
    error = refusal(tmp_path, f"id;x\na;{number}\n", id=KEYS, delimiter=";", decimal=",")
    assert "in numeric column 'x'" in error
    assert number not in error


def test_marks_of_missing_values_keep_their_points(tmp_path: Path) -> None:
    text = "id;x\na;n.a.\nb;1,5\nc;-1,0\n"
    options: dict[str, Any] = {"id": KEYS, "delimiter": ";", "decimal": ","}
    x = column(read(tmp_path, text, missing=("n.a.", "-1.0"), **options), "x")
    assert np.isnan(x[0])
    assert x[1:] == [1.5, -1]


@pytest.mark.parametrize("encoding", ["klingon", "base64", "rot13", ""])
def test_unknown_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match="must be a text encoding such as utf-8, cp1252"):
        CsvData(kind="csv", path=Path("rows.csv"), encoding=encoding)


def test_wrong_encoding_is_refused_with_the_line_to_paste(tmp_path: Path) -> None:
    text = "id,c\na,é\n"
    options: dict[str, Any] = {"id": KEYS, "categorical": ("c",)}
    assert 'encoding = "cp1252"' in refusal(tmp_path, text.encode("cp1252"), **options)
    assert 'encoding = "utf-16"' in refusal(tmp_path, text.encode("utf-16"), **options)
    error = refusal(tmp_path, text.encode("cp1252"), encoding="ascii", **options)
    assert "line 2 is not ascii | remove the key 'encoding'" in error


@pytest.mark.parametrize("key", ["label", "time", "weight"])
def test_head_without_a_named_column_is_refused(key: str) -> None:
    data = CsvData(kind="csv", path=Path("a.csv"), id=KEYS, **{key: "absent"})
    with pytest.raises(DataError, match=rf"a\.csv has no column 'absent' \({key}\)"):
        data.check_head("a.csv", b"id,x\n")


def test_head_is_checked_with_delimiter_and_encoding() -> None:
    data = CsvData(kind="csv", path=Path("a.csv"), id=KEYS, label="ort", delimiter=";")
    assert data.check_head("a.csv", GERMAN.encode()).startswith("3 columns")
    comma = data.model_copy(update={"delimiter": ","})
    with pytest.raises(DataError, match=r"the header of a\.csv has 1 field") as caught:
        comma.check_head("a.csv", GERMAN.encode())
    assert 'delimiter = ";"' in caught.value.hint
    with pytest.raises(DataError, match="the header is not UTF-8") as caught:
        data.check_head("a.csv", GERMAN.encode("utf-16"))
    assert 'encoding = "utf-16"' in caught.value.hint
