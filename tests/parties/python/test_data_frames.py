"""Data frames and labels of a program become tables without a silent change of an ID or a value."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parties.common.errors import DataError
from parties.python.frames import (
    categorical_columns,
    labels_in_order,
    named_frame,
    refuse_uncertain_ids,
    weights_in_order,
    write_frames,
)

IDS = pd.Index(["a", "b", "c"])


def written(folder: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The table that a party reads."""
    named = named_frame("shop", frame)
    write_frames({"shop": named}, {"shop": categorical_columns("shop", named)}, folder)
    return pd.read_parquet(folder / "shop.parquet")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (pd.Index(["a", None, "c"]), "the index of shop has 1 absent IDs"),
        (pd.Index([1.0, 2.0, 3.0]), "has binary fractions as IDs"),
        (pd.Index([1, 2.0, "c"], dtype=object), "has binary fractions as IDs"),
        (pd.CategoricalIndex([1.0, 2.0]), "has binary fractions as IDs"),
        (pd.Index([1, 2, np.nan]), "has 1 absent IDs"),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", None)]), "has 1 absent IDs"),
    ],
)
def test_an_index_that_may_mean_other_rows_is_refused(index: pd.Index, message: str) -> None:
    with pytest.raises(DataError, match=message):
        refuse_uncertain_ids("shop", index)


def test_other_indices_are_ids() -> None:
    for index in (
        pd.Index([], dtype=float), pd.Index([1, 2]), pd.Index([True, "x"], dtype=object),
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "x"]),
    ):  # fmt: skip
        refuse_uncertain_ids("shop", index)


def test_ids_of_labels_are_checked_where_they_are_matched() -> None:
    whole = pd.Index(["1", "2", "3"])
    for series in (
        pd.Series([0, 1, 0], [1.0, 2.0, 3.0]),
        pd.Series([0, 1, 0, 1], ["1", "2", "3", None]),
    ):
        with pytest.raises(DataError, match="the index of a series has"):
            labels_in_order(series, whole)
    assert [*labels_in_order(pd.Series([3, 4, 5], [0.5, np.nan, 2.5]), IDS)] == [3, 4, 5]


@pytest.mark.parametrize("read", [labels_in_order, weights_in_order])
def test_a_data_frame_with_one_column_is_matched_by_id(read: Callable[..., Any]) -> None:
    turned = pd.Series([3, 1, 2], ["c", "a", "b"], name="y")
    assert [*read(turned.to_frame(), IDS)] == [*read(turned, IDS)] == [1, 2, 3]


def test_an_absent_value_changes_no_category(tmp_path: Path) -> None:
    whole = pd.Series([1, 2, 1], IDS).astype("category")
    lacking = pd.Series([1, 2, None], IDS).astype("category")
    flags = pd.Series([True, None, False], IDS)
    frame = pd.DataFrame({"whole": whole, "lacking": lacking, "flag": flags})
    found = written(tmp_path, frame)
    assert [*found["whole"]] == ["1", "2", "1"]
    assert [*found["lacking"].fillna("absent")] == ["1", "2", "absent"]
    assert [*found["flag"].fillna("absent")] == ["True", "absent", "False"]
    halves = pd.DataFrame({"half": pd.Series([0.5, 1.0, np.inf], IDS).astype("category")})
    assert [*written(tmp_path, halves)["half"]] == ["0.5", "1", "inf"]


def test_numbers_as_objects_are_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "mixed": pd.Series([1, 2.5, None], IDS, dtype=object),
            "money": pd.Series([Decimal("1.10"), Decimal(2), None], IDS),
            "text": pd.Series([1, "x", None], IDS, dtype=object),
            "none": pd.Series([None, None, None], IDS, dtype=object),
        }
    )
    kinds = categorical_columns("shop", frame)
    assert kinds == {"mixed": False, "money": False, "text": True, "none": True}
    found = written(tmp_path, frame.drop(columns="none"))
    assert found["mixed"].tolist()[:2] == [1.0, 2.5]
    assert found["money"].tolist()[:2] == [1.1, 2.0]
    assert found[["mixed", "money"]].iloc[2].isna().all()
