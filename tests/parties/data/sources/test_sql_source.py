"""Tests of the SQL source: one snapshot, streaming, exact IDs, and errors without secrets."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postgres import server
from pydantic import ValidationError

from parties.common.errors import PartyError
from parties.data.data_frame import data_frame
from parties.data.holding import Holding, read_holding
from parties.data.sources.source import IdColumns
from parties.data.sources.sql_source import SqlData
from psi.ids import join_columns

CLASSES = ("no", "yes")
TABLE = """
CREATE TABLE people (id bigint, born date, age double precision, pay numeric, town text, y boolean);
INSERT INTO people VALUES
 (9007199254740993, '2020-01-31', 30.5, 0.10, 'Bonn', true),
 (9007199254740992, '2020-02-01', NULL, 9.99, NULL, false),
 (7, '2020-02-02', 50, NULL, ' Kiel ', true);
CREATE TABLE later AS SELECT id + 10 AS id, born, age, pay, town, y FROM people WHERE id = 7;
"""


def read(folder: Path, classes: tuple[str, ...] = CLASSES, **options: Any) -> Holding:
    given = {"id": IdColumns(columns=("id",)), "label": "y", **options}
    data = SqlData(kind="sql", **given)
    return read_holding(data, folder=folder, classes=classes, active=True)


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(PartyError) as caught:
        read(folder, **options)
    chained = str(caught.value.__cause__ or "")
    return f"{caught.value} | {caught.value.hint} | {chained}"


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        database.executescript(TABLE.replace("boolean", "text").replace("date", "text"))
        database.executescript("UPDATE people SET y = CASE y WHEN 1 THEN 'yes' ELSE 'no' END")
    return "sqlite:///people.db"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server() as url:
        import psycopg  # noqa: PLC0415  only where there is a server

        with psycopg.connect(url) as connection:
            connection.execute(TABLE + "CREATE SEQUENCE counter")  # type: ignore[arg-type]
        yield url


@pytest.fixture
def postgres(address: str, tmp_path: Path) -> Path:
    (tmp_path / "url").write_text(f"{address}\n")
    (tmp_path / "url").chmod(0o600)
    return Path("url")


# SQLite


def test_a_query_of_sqlite_is_read(tmp_path: Path, sqlite: str) -> None:
    query = "SELECT id, age, town, y FROM people WHERE born <> '2020-01-31' ORDER BY id"
    holding = read(tmp_path, url=sqlite, query=query, categorical=("town",))
    assert list(holding.ids) == [b"7", b"9007199254740992"]
    assert holding.table is not None
    np.testing.assert_equal(data_frame(holding.table)["age"].to_numpy(), [50, np.nan])
    assert data_frame(holding.table)["town"].tolist() == ["Kiel", None]
    assert holding.labels is not None
    assert holding.labels.tolist() == [1, 0]


def test_dates_of_sqlite_are_read(tmp_path: Path, sqlite: str) -> None:
    days = read(tmp_path, url=sqlite, query="SELECT id, born, age, y FROM people", time="born")
    numbers = "SELECT id, pay, age, y FROM people WHERE pay IS NOT NULL"
    paid = read(tmp_path, url=sqlite, query=numbers, time="pay")
    assert days.times is not None
    assert paid.times is not None
    assert days.numeric == paid.numeric == ("age",)
    assert np.diff(np.sort(days.times)).tolist() == [86_400.0, 86_400.0]
    assert np.sort(paid.times).tolist() == [0.1, 9.99]
    error = refusal(tmp_path, url=sqlite, query="SELECT id, pay, age, y FROM people", time="pay")
    assert "found no date in 1 row of" in error


def test_a_table_and_a_test_query_are_read(tmp_path: Path, sqlite: str) -> None:
    holding = read(
        tmp_path,
        url=sqlite,
        table="people",
        test_query="SELECT id + 1 AS id, age, pay, town, 'no' AS y FROM people WHERE id = 7",
        numeric=("age", "pay"),
    )
    assert holding.in_test.tolist() == [False, False, False, True]
    assert list(holding.ids)[3] == b"8"


def test_several_id_columns_are_joined_with_lengths(tmp_path: Path, sqlite: str) -> None:
    ids = IdColumns(columns=("id", "born"))
    holding = read(tmp_path, url=sqlite, table="people", id=ids, numeric=("age",))
    assert holding.ids[2] == join_columns([b"7", b"2020-02-02"])


def test_colons_and_percent_signs_of_a_query_are_kept(tmp_path: Path, sqlite: str) -> None:
    query = "SELECT id, age, y FROM people WHERE '12:30' LIKE '%:30' AND ':x' <> '%(y)s'"
    assert len(read(tmp_path, url=sqlite, query=query)) == 3


def test_the_database_cannot_be_changed(tmp_path: Path, sqlite: str) -> None:
    before = (tmp_path / "people.db").read_bytes()
    error = refusal(tmp_path, url=sqlite, query="DELETE FROM people")
    assert "database error: OperationalError" in error
    assert (tmp_path / "people.db").read_bytes() == before


def test_a_database_outside_the_data_folder_is_refused(tmp_path: Path, sqlite: str) -> None:
    (tmp_path / "inner").mkdir()
    error = refusal(tmp_path / "inner", url="sqlite:///../people.db", table="people")
    assert "is outside the data folder" in error


def test_missing_database_is_not_created(tmp_path: Path) -> None:
    assert "no file none.db" in refusal(tmp_path, url="sqlite:///none.db", table="people")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "people.db").write_text("id,y\n" * 1000)
    error = refusal(tmp_path, url="sqlite:///people.db", table="people")
    assert "database error: DatabaseError" in error


@pytest.mark.parametrize(("cell", "named"), [("x'00'", "bytes"), ("1.5", "float")])
def test_ids_without_one_exact_text_are_refused(
    tmp_path: Path, sqlite: str, cell: str, named: str
) -> None:
    query = f"SELECT {cell} AS id, age, y FROM people"
    error = refusal(tmp_path, url=sqlite, query=query)
    assert f"column 'id' of the result of query holds {named}" in error


def test_number_that_marks_a_missing_value_is_no_value(tmp_path: Path, sqlite: str) -> None:
    query = "SELECT id, age, CASE id WHEN 7 THEN -999 ELSE 1.5 END AS pay, y FROM people"
    holding = read(tmp_path, url=sqlite, query=f"{query} ORDER BY id", missing=("-999", "50", "?"))
    assert holding.table is not None
    found = data_frame(holding.table)
    np.testing.assert_equal(found["age"].to_numpy(), [np.nan, np.nan, 30.5])
    np.testing.assert_equal(found["pay"].to_numpy(), [np.nan, 1.5, 1.5])


def test_text_in_a_numeric_column_is_refused_with_its_row(tmp_path: Path, sqlite: str) -> None:
    query = "SELECT id, CASE id WHEN 7 THEN 'SECRET' ELSE '5' END AS x, y FROM people ORDER BY id"
    error = refusal(tmp_path, url=sqlite, query=query)
    assert "text in numeric column 'x': 1 row of the result of query (0)" in error
    assert "SECRET" not in error


def test_texts_in_a_column_of_numbers_of_sqlite_are_read(tmp_path: Path) -> None:
    """SQLite stores texts in a column of any type; an empty text is an absent number."""
    with closing(sqlite3.connect(tmp_path / "own.db")) as database:
        database.executescript(
            "CREATE TABLE people (id INTEGER, pay INTEGER, age INTEGER, y TEXT);"
            "INSERT INTO people VALUES (1, 7, '', 'yes'), (2, 2.5, ' 3 ', 'no'),"
            "(3, '-', 4, 'no'), (4, NULL, NULL, 'no');"
        )
    query = {"url": "sqlite:///own.db", "query": "SELECT * FROM people ORDER BY id"}
    holding = read(tmp_path, missing=("-",), **query)
    assert holding.table is not None
    found = data_frame(holding.table)
    np.testing.assert_equal(found["pay"].to_numpy(), [7, 2.5, np.nan, np.nan])
    np.testing.assert_equal(found["age"].to_numpy(), [np.nan, 3, 4, np.nan])
    error = refusal(tmp_path, **query)
    assert "text in numeric column 'pay': 1 row of the result of query (2)" in error


def test_duplicates_and_null_ids_are_refused_with_rows(tmp_path: Path, sqlite: str) -> None:
    query = "SELECT 5150 AS id, age, y FROM people"
    error = refusal(tmp_path, url=sqlite, query=query)
    assert "2 duplicate IDs: the result of query row 0 and the result of query row 1" in error
    error += refusal(tmp_path, url=sqlite, query="SELECT NULL AS id, age, y FROM people")
    assert "no ID in 3 rows of the result of query (0, 1, 2)" in error
    assert "515" not in error


def test_no_rows_and_two_columns_of_one_name_are_refused(tmp_path: Path, sqlite: str) -> None:
    error = refusal(tmp_path, url=sqlite, query="SELECT id, age, y FROM people WHERE id = 8")
    assert "the result of query has no records" in error
    error = refusal(tmp_path, url=sqlite, query="SELECT id, id, y FROM people")
    assert "column 2 has the name of an earlier column" in error


# The party settings


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"url": "postgresql://u:SECRET@h/d"}, "passwords are not allowed in the party settings"),
        (
            {"url": "postgresql://u@h/d?password=SECRET"},
            "passwords are not allowed in the party settings",
        ),
        ({"url": "postgresql://u@h/d?x=1&sslpassw%6Frd=SECRET"}, "'url' contains a password"),
        ({"url": "postgresql://u:SECRET@[h/d"}, "passwords are not allowed in the party settings"),
        ({"url": "sqlite:///x", "id": "row"}, "rows of a database have no order"),
        ({"url": "sqlite:///x", "url_file": "u"}, "exactly one of the keys 'url_file' and 'url'"),
        ({"url": "sqlite:///x", "table": "t"}, "exactly one of the keys 'query' and 'table'"),
    ],
)
def test_contradictory_settings_are_refused(options: dict[str, Any], named: str) -> None:
    given = {"kind": "sql", "id": IdColumns(columns=("id",)), "query": "SELECT 1", **options}
    with pytest.raises(ValidationError) as caught:
        SqlData(**given)
    messages = " ".join(error["msg"] for error in caught.value.errors())
    assert named in messages
    assert "SECRET" not in messages


def test_rows_without_ids_are_refused() -> None:
    with pytest.raises(ValidationError, match="rows of a database have no order"):
        SqlData(kind="sql", url="sqlite:///x", query="SELECT 1")


def test_url_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://u:SECRET@h/d")
    (tmp_path / "url").chmod(0o640)
    error = refusal(tmp_path, url_file=Path("url"), table="t")
    assert "other users have access to" in error
    assert f"chmod 600 {tmp_path}/url" in error
    assert "SECRET" not in error


@pytest.mark.parametrize(
    "url", ["SECRET", "mysql://u:SECRET@h/d", "postgresql://u:SECRET@h:x/d", ""]
)
def test_url_of_no_known_kind_is_refused_without_repeating_it(tmp_path: Path, url: str) -> None:
    (tmp_path / "url").write_text(url)
    (tmp_path / "url").chmod(0o600)
    error = refusal(tmp_path, url_file=Path("url"), table="t")
    assert "the URL of the database" in error
    assert "SECRET" not in error


# PostgreSQL


@pytest.mark.slow
def test_a_query_of_postgres_is_read(tmp_path: Path, postgres: Path) -> None:
    query = "SELECT * FROM people ORDER BY born"
    holding = read(
        tmp_path,
        ("false", "true"),
        url_file=postgres,
        query=query,
        numeric=("age", "pay"),
        categorical=("town", "born"),
    )
    assert list(holding.ids) == [b"9007199254740993", b"9007199254740992", b"7"]
    assert holding.table is not None
    frame = data_frame(holding.table)
    np.testing.assert_equal(frame["age"].to_numpy(), [30.5, np.nan, 50])
    np.testing.assert_equal(frame["pay"].to_numpy(), [0.1, 9.99, np.nan])
    assert frame["town"].tolist() == ["Bonn", None, "Kiel"]
    assert frame["born"].tolist() == ["2020-01-31", "2020-02-01", "2020-02-02"]
    assert holding.labels is not None
    assert holding.labels.tolist() == [1, 0, 1]


@pytest.mark.slow
def test_a_table_of_a_schema_and_a_test_query_of_postgres_are_read(
    tmp_path: Path, postgres: Path
) -> None:
    holding = read(
        tmp_path,
        ("false", "true"),
        url_file=postgres,
        table="public.people",
        test_query="SELECT * FROM later",
        id=IdColumns(columns=("id", "born")),
        numeric=("age",),
    )
    assert holding.in_test.tolist() == [False, False, False, True]
    assert join_columns([b"17", b"2020-02-02"]) in holding.ids


@pytest.mark.slow
def test_both_queries_use_one_snapshot(
    tmp_path: Path, postgres: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg  # noqa: PLC0415

    def interfere(count: int) -> None:
        with psycopg.connect(address) as other:
            other.execute("INSERT INTO later VALUES (18, NULL, 1, 1, '', true)")

    given = {"id": IdColumns(columns=("id",)), "label": "y", "numeric": ("age",)}
    queries = {"query": "SELECT * FROM people", "test_query": "SELECT * FROM later"}
    data = SqlData(kind="sql", url_file=postgres, **given, **queries)
    holding = read_holding(
        data, folder=tmp_path, classes=("false", "true"), active=True, progress=interfere
    )
    assert holding.in_test.sum() == 1
    with psycopg.connect(address) as other:
        deleted = other.execute("DELETE FROM later WHERE id = 18").rowcount
    assert deleted == 2


@pytest.mark.slow
def test_postgres_rows_are_streamed(tmp_path: Path, postgres: Path, address: str) -> None:
    import psycopg  # noqa: PLC0415

    seen: list[int] = []

    def read_open_cursors(count: int) -> None:
        with psycopg.connect(address) as other:
            open_cursors = other.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'FETCH%'"
            )
            seen.extend(row[0] for row in open_cursors)
        raise PartyError("seen enough")

    many = "SELECT generate_series(1, 100000000) AS i"
    query = f"SELECT i AS id, i AS x, i % 2 = 0 AS y FROM ({many}) AS many"
    data = SqlData(
        kind="sql", id=IdColumns(columns=("id",)), label="y", url_file=postgres, query=query
    )
    with pytest.raises(PartyError, match="seen enough"):
        read_holding(
            data, folder=tmp_path, classes=CLASSES, active=True, progress=read_open_cursors
        )
    assert seen == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "state"),
    [
        ("SELECT SECRET FROM people", "42703"),
        ("DELETE FROM people RETURNING id, y", "42601"),
        ("SELECT nextval('counter') AS id, y FROM people", "25006"),
        ("SELECT 1 / (id - 7) AS id, y FROM people", "22012"),
        ("SELECT 'SECRET'::int AS id, y FROM people", "22P02"),
    ],
)
def test_postgres_errors_are_reported_by_code_only(
    tmp_path: Path, postgres: Path, query: str, state: str
) -> None:
    error = refusal(tmp_path, url_file=postgres, query=query)
    assert f"(SQLSTATE {state})" in error
    assert "SECRET" not in error


@pytest.mark.slow
@pytest.mark.parametrize(
    "column", ["'\\x00'::bytea", "ARRAY[1]", "'{}'::json", "1.5::numeric", "now()", "2::real"]
)
def test_ids_of_postgres_without_one_exact_text_are_refused(
    tmp_path: Path, postgres: Path, column: str
) -> None:
    error = refusal(tmp_path, url_file=postgres, query=f"SELECT {column} AS id, age, y FROM people")
    assert "column 'id' of the result of query holds" in error


def test_unreachable_server_is_reported_without_its_address(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    (tmp_path / "url").write_text("postgresql://SECRET:SECRET@127.0.0.1:1/SECRET")
    (tmp_path / "url").chmod(0o600)
    error = refusal(tmp_path, url_file=Path("url"), table="people")
    assert "the server runs" in error
    assert "SECRET" not in error


def test_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = refusal(tmp_path, url="postgresql://reader@localhost/people", table="people")
    assert "the driver of PostgreSQL is not installed" in error


@pytest.mark.slow
def test_refused_login_does_not_show_the_password(tmp_path: Path, address: str) -> None:
    (tmp_path / "url").write_text(address.replace("SECRET", "WRONGSECRET"))
    (tmp_path / "url").chmod(0o600)
    error = refusal(tmp_path, url_file=Path("url"), table="people")
    assert "OperationalError" in error
    assert "the account may log in" in error
    assert "SECRET" not in error
