"""Lists of IDs: delimiters, headers, quotes, encodings; unusable lines are counted."""

from pathlib import Path

import pytest

from parties.common.errors import DataError
from parties.data.id_lists import DELIMITERS, Encoding, ListedIds, list_of_ids, read_id_list
from psi.ids import join_columns

ONE, TWO = ("id",), ("name", "born")


def read(
    folder: Path, content: str | bytes, columns: tuple[str, ...] = ONE, encoding: Encoding = "utf-8"
) -> ListedIds:
    path = folder / "list.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_id_list(path, columns, encoding)


@pytest.mark.parametrize(
    "content",
    [
        "p1\np2\n",
        "p1\r\np2",
        "\n p1 \n\np2\n",
        "id\np1\np2\n",
        "ID,age\np1,3\np2,4\n",
        "age;Id\n3;p1\n4;p2\n",
        "age\tid\n3\tp1\n4\tp2\n",
        "\ufeffid\np1\np2\n",
        '"id","note"\n"p1","a, b"\n"p2","two\nlines"\n',
        '"p1"\n"p2"\n',
    ],
)
def test_list_is_read_in_any_form(tmp_path: Path, content: str) -> None:
    found = read(tmp_path, content)
    assert found.ids == (b"p1", b"p2")
    assert found.unusable == ()


def test_id_with_a_delimiter_needs_quotes(tmp_path: Path) -> None:
    assert read(tmp_path, '"Smith, John"\n"Doe; Jane"\n').ids == (b"Smith, John", b"Doe; Jane")
    with pytest.raises(DataError, match="the first line has 2 columns, expected 1: id") as caught:
        read(tmp_path, "Smith, John\n")
    assert "double quotes" in caught.value.hint


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_many_ids_on_one_line_are_refused(tmp_path: Path, delimiter: str) -> None:
    line = delimiter.join(f"person{at:06d}" for at in range(30_000))
    with pytest.raises(DataError, match="the first line has 30000 columns, expected 1: id"):
        read(tmp_path, f"{line}\n")
    with pytest.raises(DataError, match="line 2 is not valid CSV"):
        read(tmp_path, f"id\n{line.replace(delimiter, '')}\n")


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("header", ["", "born{0}name{0}town\n"])
def test_several_columns_are_joined_as_in_the_data(
    tmp_path: Path, delimiter: str, header: str
) -> None:
    line = "ada{0}1815\n" if not header else "1815{0}ada{0}London\n"
    found = read(tmp_path, (header + line).format(delimiter), TWO)
    assert found.ids == (join_columns([b"ada", b"1815"]),)
    assert found.texts == ("ada\t1815",)


def test_missing_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 1 columns, expected 2: name, born"):
        read(tmp_path, "ada\n", TWO)


def test_unusable_and_repeated_lines_are_counted(tmp_path: Path) -> None:
    found = read(tmp_path, "id,age\np1,3\n ,4\n\np1,5\np2\n,\n p1 ,7\n")
    assert found.ids == (b"p1", b"p2")
    assert (found.lines, found.unusable, found.repeated) == ((2, 6), (3,), (5, 8))


def test_text_is_normalised(tmp_path: Path) -> None:
    assert read(tmp_path, "ﬁne\nfine\n").ids == (b"fine",)


def test_other_encodings_need_an_option(tmp_path: Path) -> None:
    content = "id\nok\nMüller\n".encode("cp1252")
    with pytest.raises(DataError, match="line 3 is not UTF-8 text") as caught:
        read(tmp_path, content)
    assert "--encoding cp1252" in caught.value.hint
    assert read(tmp_path, content, encoding="cp1252").ids == (b"ok", "Müller".encode())


@pytest.mark.parametrize("content", ["a\n".encode("utf-16"), b"PK\x03\x04\x00\x00"])
def test_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="is not a text file"):
        read(tmp_path, content)


def test_undefined_byte_of_cp1252_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2 is not CP1252 text"):
        read(tmp_path, b"id\n\x81\n", encoding="cp1252")


@pytest.mark.parametrize("content", ["id\n", "id,age\n,3\n"])
def test_list_without_an_id_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="contains no usable ID"):
        read(tmp_path, content)


def test_open_quote_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3 is not valid CSV"):
        read(tmp_path, 'id,age\np1,3\n"p2,4\n')


def test_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read the IDs in .*absent.csv"):
        read_id_list(tmp_path / "absent.csv", ONE)


def test_ids_of_a_command_line() -> None:
    assert list_of_ids(["p1", "p2", "p1"], ONE).ids == (b"p1", b"p2")
    assert list_of_ids(["ada\t1815"], TWO).ids == (join_columns([b"ada", b"1815"]),)
    with pytest.raises(DataError, match="--id number 2 is not an ID of 1 columns"):
        list_of_ids(["p1", "a\tb"], ONE)
    with pytest.raises(DataError, match="no ID given"):
        list_of_ids([], ONE)


def test_error_and_repr_show_no_id(tmp_path: Path) -> None:
    assert "p1" not in repr(read(tmp_path, "p1\n"))
    with pytest.raises(DataError) as caught:
        read(tmp_path, "p4711,secret\n")
    assert "p4711" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("text", ["", "\n \n"], ids=["no bytes", "blank lines"])
@pytest.mark.parametrize("columns", [(), ("name", "born")], ids=["one column", "two columns"])
def test_empty_list_is_named(tmp_path: Path, text: str, columns: tuple[str, ...]) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=r"list\.csv is empty"):
        read_id_list(path, columns)


def test_capital_letters_of_a_header_count_where_they_tell_two_columns_apart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ids.csv"
    for text in ("id,ID,town\n1,8,x\n2,9,y\n", '"to\nwn",ID,id\nx,8,1\ny,9,2\n'):
        path.write_text(text)
        assert read_id_list(path, ("id",)).texts == ("1", "2")
    path.write_text("Id,town\n1,x\n")
    assert read_id_list(path, ("ID",)).texts == ("1",)
