"""Parquet files and databases through the command line: good ones are read, bad ones refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_trial import CANARY, NOT_REFUSED, NUMBER, DataTrial, certify

COLUMNS = {"id": [f"{CANARY}{row}" for row in range(20)], "x": list(range(20))}
COLUMNS["y"] = ["no", "yes"] * 10
PARQUET = """[settings.bank.data]
kind = "parquet"
path = "bank.parquet"
id = {columns = ["id"]}
label = "y"
"""
SQL = """[settings.bank.data]
kind = "sql"
id = {columns = ["id"]}
label = "y"
table = "people"
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify(tmp_path_factory.mktemp("keys") / "certs")


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> DataTrial:
    pq.write_table(pa.table(COLUMNS), tmp_path / "bank.parquet")
    with closing(sqlite3.connect(tmp_path / "bank.db")) as database:
        database.execute("CREATE TABLE people (id, x, y)")
        rows = zip(*COLUMNS.values(), strict=True)
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        database.commit()
    return DataTrial(tmp_path, keys)


def bank(trial: DataTrial, settings: str, code: int, *words: str) -> str:
    return trial.party("active", "bank", settings, code, words)


def test_valid_parquet_file_and_database_are_accepted(trial: DataTrial) -> None:
    bank(trial, PARQUET, NOT_REFUSED)
    bank(trial, SQL + 'url = "sqlite:///bank.db"', NOT_REFUSED)


def test_column_without_a_use_is_refused(trial: DataTrial) -> None:
    lists = pa.table({**COLUMNS, "z": [[NUMBER]] * 20})
    pq.write_table(lists, trial.folder / "bank.parquet")
    bank(trial, PARQUET, 4, "column 'z' (numeric) of bank.parquet is list<", "leave other columns")


def test_floating_point_ids_are_refused(trial: DataTrial) -> None:
    ids = [float(NUMBER) + row for row in range(20)]
    pq.write_table(pa.table({**COLUMNS, "id": ids}), trial.folder / "bank.parquet")
    bank(trial, PARQUET, 4, "column 'id' (id) of bank.parquet is double", "whole numbers")


def test_duplicate_ids_of_a_database_are_refused(trial: DataTrial) -> None:
    with closing(sqlite3.connect(trial.folder / "bank.db")) as database:
        database.execute("INSERT INTO people SELECT * FROM people LIMIT 1")
        database.commit()
    settings = SQL + 'url = "sqlite:///bank.db"'
    bank(trial, settings, 4, "1 duplicate IDs: table people row 0 and table people row 20")
    bank(trial, settings + '\ndedupe = "first"', NOT_REFUSED)


def test_password_in_the_settings_is_refused(trial: DataTrial) -> None:
    for url in (f"postgresql://u:{CANARY}@h/d", f"postgresql://u@h/d?password={CANARY}"):
        bank(
            trial,
            SQL + f'url = "{url}"',
            3,
            "passwords are not allowed in the party settings",
            "url_file",
        )


def test_url_file_readable_by_others_is_refused(trial: DataTrial) -> None:
    (trial.folder / "url").write_text(f"postgresql://u:{CANARY}@h/d")
    (trial.folder / "url").chmod(0o644)
    bank(trial, SQL + 'url_file = "url"', 4, "other users have access to", "chmod 600")


def test_database_without_id_columns_is_refused(trial: DataTrial) -> None:
    settings = SQL.replace('{columns = ["id"]}', '"row"') + 'url = "sqlite:///bank.db"'
    bank(trial, settings, 3, "rows of a database have no order")


def test_query_refused_by_the_database_is_reported(trial: DataTrial) -> None:
    settings = SQL.replace('table = "people"', f'query = "SELECT {CANARY[:6]}_{NUMBER}"')
    result = bank(trial, settings + 'url = "sqlite:///bank.db"', 4, "the result of query")
    assert "database error: OperationalError" in result
