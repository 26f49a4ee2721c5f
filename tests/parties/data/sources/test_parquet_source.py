"""Tests of the Parquet source: column types, exact IDs, chunks, and each error."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parties.common.errors import DataError, ResourceError
from parties.data.data_frame import data_frame
from parties.data.holding import Holding, read_holding
from parties.data.sources.parquet_source import ParquetData
from parties.data.sources.source import IdColumns
from psi.ids import join_columns

CLASSES = ("no", "yes")
IDS = pa.array(["a7", "b8", "c9"])
LABELS = pa.array(["no", "yes", "no"])


def parquet(folder: Path, columns: Mapping[str, Any], **options: Any) -> ParquetData:
    table = pa.table({"id": IDS, "y": LABELS, **columns})
    pq.write_table(table, folder / "rows.parquet", row_group_size=2)
    given = {"id": IdColumns(columns=("id",)), "label": "y", **options}
    return ParquetData(kind="parquet", path=Path("rows.parquet"), **given)


def held(folder: Path, data: ParquetData) -> Holding:
    return read_holding(data, folder=folder, classes=CLASSES, active=True)


def column(folder: Path, cells: Any, **options: Any) -> list[Any]:
    table = held(folder, parquet(folder, {"x": cells}, **options)).table
    assert table is not None
    return list(data_frame(table)["x"])


def ids(folder: Path, cells: Any, **options: Any) -> list[bytes]:
    return list(held(folder, parquet(folder, {"id": cells}, numeric=(), **options)).ids)


def refusal(folder: Path, columns: Mapping[str, Any], **options: Any) -> str:
    with pytest.raises((DataError, ResourceError)) as caught:
        held(folder, parquet(folder, columns, **options))
    return f"{caught.value} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array([1, None, 3], pa.int8()), [1, np.nan, 3]),
        (pa.array([2**63, None, 1], pa.uint64()), [2.0**63, np.nan, 1]),
        (pa.array([2**53 + 1, None, 1], pa.int64()), [2.0**53, np.nan, 1]),
        (pa.array([True, None, False]), [1, np.nan, 0]),
        (pa.array([0.1, None, 1], pa.float64()), [0.1, np.nan, 1]),
        (pa.array([0.5, None, 1], pa.float32()), [0.5, np.nan, 1]),
        (pa.array([Decimal("0.10"), None, Decimal("9.99")]), [0.1, np.nan, 9.99]),
        (pa.array(["0.1", None, " 2 "]), [0.1, np.nan, 2]),
        (pa.array(["1", None, "2"]).dictionary_encode(), [1, np.nan, 2]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_every_numeric_type_becomes_float_and_null_is_missing(
    tmp_path: Path, cells: Any, expected: list[float]
) -> None:
    np.testing.assert_equal(column(tmp_path, cells), expected)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array(["01", None, "1.0"]), ["01", None, "1.0"]),
        (pa.array(["u", None, "v"]).dictionary_encode(), ["u", None, "v"]),
        (pa.array(["u", None, "v"], pa.large_string()), ["u", None, "v"]),
        (pa.array([2**63 + 1, None, 7], pa.uint64()), ["9223372036854775809", None, "7"]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([date(2020, 1, 31), None, date(1, 2, 3)]), ["2020-01-31", None, "0001-02-03"]),
        (pa.array(["?", "", "v "]), [None, None, "v"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_every_categorical_type_becomes_its_exact_text(
    tmp_path: Path, cells: Any, expected: list[str | None]
) -> None:
    assert column(tmp_path, cells, categorical=("x",), missing=("?",)) == expected


def test_integer_ids_become_decimal_text(tmp_path: Path) -> None:
    large = [2**53, 2**53 + 1, 2**64 - 1]
    assert ids(tmp_path, pa.array(large, pa.uint64())) == [b"%d" % value for value in large]
    texts = ["1" + "0" * 37, "1" + "0" * 36 + "1", "7"]
    cells = pa.array(list(map(Decimal, texts)), pa.decimal128(38, 0))
    assert ids(tmp_path, cells) == [text.encode() for text in texts]


def test_several_id_columns_are_joined_with_lengths(tmp_path: Path) -> None:
    columns = {
        "id": pa.array([1, 11, 2]),
        "born": pa.array([date(2020, 1, day) for day in (1, 2, 3)]),
    }
    data = parquet(tmp_path, columns, id=IdColumns(columns=("id", "born")), numeric=())
    assert held(tmp_path, data).ids[1] == join_columns([b"11", b"2020-01-02"])


def test_rows_without_ids_are_named_by_file_and_row(tmp_path: Path) -> None:
    data = parquet(tmp_path, {}, id="row", numeric=(), categorical=("id",))
    assert list(held(tmp_path, data).ids) == [b"rows.parquet:%d" % row for row in range(3)]


def test_test_file_rows_are_marked(tmp_path: Path) -> None:
    table = pa.table({"y": ["no"], "x": [5], "id": ["d1"]})
    pq.write_table(table, tmp_path / "test.parquet")
    data = parquet(tmp_path, {"x": [1, 2, 3]}, test_path=Path("test.parquet"))
    assert held(tmp_path, data).in_test.tolist() == [False, False, False, True]


def test_chunked_reading_gives_the_same_holding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = parquet(tmp_path, {"x": [1, None, 3], "c": ["u", None, "u"]}, categorical=("c",))
    whole = held(tmp_path, data)
    monkeypatch.setattr("parties.data.sources.parquet_source._CELLS", 1)
    pieces = held(tmp_path, data)
    assert pieces.digest == whole.digest
    assert pieces.table is not None
    assert data_frame(pieces.table).equals(data_frame(whole.table))  # type: ignore[union-attr]


# Refusals


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        (pa.array([[1], [2], [3]]), "list<"),
        (pa.array([{"a": 1}] * 3), "struct<"),
        (pa.array([b"1", b"2", b"3"]), "binary"),
        (pa.array([date(2020, 1, 1)] * 3), "date32"),
        (pa.array([datetime(2020, 1, 1)] * 3), "timestamp"),
    ],
)
def test_non_numeric_columns_are_refused_by_name(tmp_path: Path, cells: Any, named: str) -> None:
    error = refusal(tmp_path, {"x": cells})
    assert f"column 'x' (numeric) of rows.parquet is {named}" in error


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1.0, 2.0, 3.0]),
        pa.array([Decimal("1.0"), Decimal("2.0"), Decimal("3.0")]),
        pa.array([b"1", b"2", b"3"]),
        pa.array([datetime(2020, 1, day) for day in (1, 2, 3)]),
    ],
    ids=lambda cells: str(cells.type),
)
def test_ids_without_one_exact_text_are_refused(tmp_path: Path, cells: Any) -> None:
    error = refusal(tmp_path, {"id": cells}, numeric=())
    assert f"column 'id' (id) of rows.parquet is {cells.type}" in error


def test_null_ids_are_refused_with_rows(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"id": pa.array(["a", None, ""])}, numeric=())
    assert "no ID in 2 rows of rows.parquet (1, 2)" in error


def test_nan_and_infinity_are_refused_unless_nan_is_a_mark(tmp_path: Path) -> None:
    cells = pa.array([1.0, float("nan"), 3.0])
    assert "NaN or infinity in numeric column 'x': 1 row" in refusal(tmp_path, {"x": cells})
    np.testing.assert_equal(column(tmp_path, cells, missing=("NaN",)), [1, np.nan, 3])
    assert "NaN or infinity" in refusal(tmp_path, {"x": pa.array([1.0, np.inf, 2])})


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([-999, 2, None], pa.int16()),
        pa.array([-999, 2, None], pa.float64()),
        pa.array([-999, 2, None], pa.float16()),
        pa.array([Decimal("-999.00"), Decimal(2), None]),
        pa.array([-999, 2, None], pa.int16()).dictionary_encode(),
        pa.array(["-999", "2", None]),
    ],
)
def test_number_that_marks_a_missing_value_is_no_value(tmp_path: Path, cells: Any) -> None:
    marks = ("-999", "n/a", "1e9", "inf")
    np.testing.assert_equal(column(tmp_path, cells, missing=marks), [np.nan, 2, np.nan])


def test_mark_with_decimals_is_found_in_a_column_of_single_precision(tmp_path: Path) -> None:
    cells = pa.array([-999.9, 2, 3], pa.float32())
    np.testing.assert_equal(column(tmp_path, cells, missing=("-999.9",)), [np.nan, 2, 3])


def test_text_in_a_numeric_column_is_refused_with_its_row(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"x": ["1", "SECRET", "3"]})
    assert "text in numeric column 'x': 1 row of rows.parquet (1)" in error
    assert "SECRET" not in error


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    data = parquet(tmp_path, {})
    for content in (b"", b"id,y\n1,no\n", b"PAR1" + bytes(40) + b"PAR1"):
        (tmp_path / "rows.parquet").write_bytes(content)
        with pytest.raises(DataError, match=r"rows\.parquet is not a Parquet file"):
            held(tmp_path, data)


def test_damaged_pages_are_refused(tmp_path: Path) -> None:
    data = parquet(tmp_path, {"x": [1, 2, 3]})
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[4:200] = bytes(196)
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"rows\.parquet is not a Parquet file"):
        held(tmp_path, data)


def test_row_group_that_decompresses_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.data.sources.parquet_source.MAX_BYTES", 10)
    assert "row group 0 unpacks to" in refusal(tmp_path, {"x": [1, 2, 3]})


def test_unknown_columns_are_refused_with_the_known_columns(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"2020": [1, 2, 3]}, numeric=("z",))
    assert "rows.parquet has no column 'z' (numeric)" in error
    assert "its columns are id, y, 2020" in error


@pytest.mark.parametrize(
    "cells",
    [
        [date(2024, 1, 31), date(2024, 2, 1), date(2024, 2, 2)],
        [datetime(2024, 1, 31, 8), datetime(2024, 2, 1, 8), datetime(2024, 2, 2, 8)],
        [86_400.0, 172_800.0, 259_200.0],
        [86_400, 172_800, 259_200],
        ["2024-01-31", "2024-02-01", "02.02.2024"],
    ],
)
def test_dates_of_a_time_column_are_read(tmp_path: Path, cells: list[Any]) -> None:
    data = parquet(tmp_path, {"x": [1, 2, 3], "when": pa.array(cells)}, time="when")
    holding = held(tmp_path, data)
    assert holding.times is not None
    assert holding.numeric == ("x",)
    assert np.diff(holding.times).tolist() == [86_400.0, 86_400.0]
