"""Data frames, labels and IDs of a program, as the tables that the parties of a run read."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from parties.common.atomic_file import make_folder
from parties.common.errors import DataError

Features: TypeAlias = Mapping[str, pd.DataFrame] | pd.DataFrame | NDArray[Any]
ROW_ID, LABEL, WEIGHT = "vfl_row_id", "vfl_label", "vfl_weight"  # columns of the tables


def by_party(features: Features) -> TypeGuard[Mapping[str, pd.DataFrame]]:
    """Return whether the features [rows, columns] are one table per party."""
    return isinstance(features, Mapping) and not issparse(features)  # some sparse arrays are dicts


def named_frame(party: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame [rows, columns] with texts as names of columns and as IDs.

    Raises:
        DataError: it is no data frame, or has repeated IDs or columns.
    """
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"the features of {party} are no data frame, but of the type {type(frame).__name__}",
            "give a pandas data frame whose index has the IDs",
        )
    found = frame.set_axis(frame.columns.map(str), axis=1).set_axis(frame.index.map(str), axis=0)
    for kind, index in (("ID", found.index), ("column", found.columns)):
        if repeated := int(index.duplicated().sum()):
            raise DataError(
                f"the data frame of {party} has {repeated} repeated {kind}s",
                "the index has one ID for each row, and the columns have different names",
            )
    return found


def refuse_uncertain_ids(what: str, index: pd.Index) -> None:
    """Refuse an index whose IDs another table may write differently, such as 1.0 for 1.

    Raises:
        DataError: an ID, or a part of one, is absent or a binary fraction.
    """
    for number in range(index.nlevels):
        part = index.get_level_values(number)
        if absent := int(np.count_nonzero(part.isna())):
            raise DataError(
                f"the index of {what} has {absent} absent IDs",
                "give each row an ID, or remove the row",
            )
        if _has_fractions(part):
            raise DataError(
                f"the index of {what} has binary fractions as IDs, such as 1.0 for 1",
                "convert the index to whole numbers or texts",
            )


def _has_fractions(part: pd.Index) -> bool:
    """Return whether a part of the IDs has binary fractions."""
    values = part.categories if isinstance(part, pd.CategoricalIndex) else part
    if pd.api.types.is_object_dtype(values.dtype):
        return any(_is_fraction(each) for each in values)
    return len(values) > 0 and pd.api.types.is_float_dtype(values.dtype)


def _is_fraction(value: Any) -> bool:
    """Return whether a value is a number of a type with binary fractions, also 1.0."""
    return isinstance(value, Real) and not isinstance(value, Integral)


def categorical_columns(party: str, frame: pd.DataFrame) -> dict[str, bool]:
    """Return for each column of a data frame [rows, columns] whether it is categorical.

    A column of Python objects is numeric if all its present values are numbers.

    Raises:
        DataError: a column has dates or durations.
    """
    for column, kind in frame.dtypes.items():
        if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
            raise DataError(
                f"the column {column!r} of {party} has the type {kind}",
                "convert it to a number, such as the days since a date",
            )
    return {str(name): not _is_numeric(column) for name, column in frame.items()}


def _is_numeric(column: pd.Series) -> bool:
    """Return whether a column [rows] has numbers alone."""
    if not pd.api.types.is_object_dtype(column.dtype):
        return pd.api.types.is_numeric_dtype(column.dtype)
    present = column.dropna()
    return len(present) > 0 and all(
        isinstance(value, Real | Decimal) and not isinstance(value, bool) for value in present
    )


def _category(value: Any) -> str:
    """Return a category as text; 1.0 is 1, because an absent value turns whole numbers into it."""
    return str(int(value)) if _is_fraction(value) and float(value).is_integer() else str(value)


def write_frames(
    frames: Mapping[str, pd.DataFrame], kinds: Mapping[str, Mapping[str, bool]], folder: Path
) -> None:
    """Write the data frame [rows, columns] of each party to a file, ``folder/PARTY.parquet``.

    Args:
        frames: the data frames.
        kinds: for each column that is written, whether it is categorical.
        folder: the folder, which is made.

    Raises:
        DataError: a column is absent, or has texts but is not categorical.
    """
    make_folder(folder)
    for name, frame in frames.items():
        columns = {ROW_ID: pd.Series(frame.index, dtype=object)}
        for column, text in kinds.get(name, {}).items():
            if column not in frame:
                raise DataError(
                    f"the data frame of {name} has no column {column!r}",
                    "predict rows with the columns of fit",
                )
            values = frame[column].reset_index(drop=True)
            texts = values.astype(object).where(values.notna(), None)
            columns[column] = (
                texts.map(_category, na_action="ignore") if text else _numbers(name, column, texts)
            )
        for column in (LABEL, WEIGHT):
            if column in frame:
                columns[column] = frame[column].reset_index(drop=True)
        pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet", index=False)


def _numbers(party: str, column: str, values: pd.Series) -> pd.Series:
    """Return a column [rows] as numbers; the error names no value."""
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        pass
    raise DataError(
        f"the column {column!r} of {party} has a text, but it had only numbers in fit",
        "give numbers, or fit again with the column as texts",
    )


def id_texts(ids: Iterable[Any]) -> list[str]:
    """Return IDs as texts.

    Raises:
        DataError: ``ids`` is one text, whose characters would be taken for IDs, or empty.
    """
    if isinstance(ids, str | bytes):
        raise DataError("the IDs are one text", "give a list of IDs, also for one ID: [ID]")
    texts = [*map(str, ids)]
    if not texts:
        raise DataError("the list of IDs is empty", "give one ID or more")
    return texts


def ids_of_labels(y: Any) -> pd.Index:
    """Return the IDs of labels that a party without columns has.

    Raises:
        DataError: the labels are no series, or an ID is absent or a binary fraction.
    """
    y = _one_column(y)
    if isinstance(y, pd.Series):
        refuse_uncertain_ids("the labels", y.index)
        return y.index.map(str)
    raise DataError(
        "the active party has labels alone, but the labels have no IDs",
        "give the labels as a pandas series whose index has the IDs",
    )


def labels_in_order(y: Any, ids: pd.Index) -> NDArray[Any]:
    """Return the labels [rows] of rows with these IDs.

    Raises:
        DataError: the number of labels is not that of the rows, or a series has some IDs only.
        ValueError: a row has no label.
    """
    labels: NDArray[Any] = column_or_1d(_in_order(y, ids), warn=True)
    if len(labels) != len(ids):
        raise DataError(
            f"there are {len(labels)} labels for {len(ids)} rows", "give one label for each row"
        )
    absent = pd.isna(labels) | np.isin(labels, [np.inf, -np.inf])
    if absent.any():
        raise ValueError(
            f"y has no finite value for {absent.sum()} of {len(ids)} rows, the first of which is "
            f"number {int(absent.argmax())} of y, counted from 0: remove these rows"
        )
    return labels


def weights_in_order(sample_weight: Any, ids: pd.Index) -> NDArray[np.float64]:
    """Return the weights [rows] of rows with these IDs; scikit-learn checks their values."""
    found: NDArray[np.float64] = _check_sample_weight(
        _in_order(sample_weight, ids), ids, dtype=np.float64, ensure_non_negative=True
    )
    return found


def without_ids(values: Any) -> Any:
    """Return values [rows] without the IDs that a series has."""
    values = _one_column(values)
    return values.to_numpy() if isinstance(values, pd.Series) else values


def _one_column(values: Any) -> Any:
    """Return a data frame with one column, [rows, 1], as a series [rows]; else ``values``."""
    one = isinstance(values, pd.DataFrame) and values.shape[1] == 1
    return values.iloc[:, 0] if one else values


def _in_order(values: Any, ids: pd.Index) -> Any:
    """Return values [rows] in the order of these IDs; only a series has IDs.

    Raises:
        DataError: a series has some of the IDs, but not all, or with them one that is absent or a
            binary fraction.
    """
    values = _one_column(values)
    if not isinstance(values, pd.Series):
        return values
    known = values.set_axis(values.index.map(str))
    lacking = len(set(ids) - set(known.index))
    if not lacking or set(ids) & {_category(each) for each in values.index}:
        refuse_uncertain_ids("a series", values.index)
    if 0 < lacking < len(ids):
        raise DataError(
            f"a series has no value for {lacking} of {len(ids)} rows",
            "its index needs the IDs of all rows of the active party",
        )
    return values if lacking else known.loc[ids]
