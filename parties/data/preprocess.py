"""Preprocessing of one party's columns: imputation, scaling, ranks and one-hot encoding.

Features are transformed with statistics, such as the mean of each column. The statistics are either
fitted by scikit-learn on the party's training rows, or declared in the party settings, or read from
a JSON file. Fitted statistics contain information about the rows on which they were fitted.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from parties.common.errors import DataError
from parties.data.data_frame import data_frame
from parties.data.holding import Holding
from parties.data.sources.arrays import Index
from parties.data.sources.source import DataSettings

Features: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.float32]

MAX_CATEGORIES = 1000  # of one column
QUANTILES = np.linspace(0.01, 0.99, 99)  # without the ends
MAX_SCALED = 1e30  # largest absolute value after scaling


@dataclass(frozen=True, slots=True)
class NumericColumn:
    """Scaling of a numeric column: x → (x - mean) / scale; the median replaces an absent x.

    Attributes:
        median: median of the training rows.
        mean: their mean.
        scale: their standard deviation.
        quantiles: their 1st to 99th percentile, ascending, for the rank; empty: no rank.
    """

    median: float
    mean: float
    scale: float
    quantiles: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class FittedPreprocessing:
    """Statistics for preprocessing: fitted on rows, or declared in the party settings.

    Attributes:
        numeric: scaling of each numeric column, in the order of the output. Ranks of columns with
            quantiles follow the scaled columns, in the same order.
        categorical: categories of each categorical column; these columns follow the numeric ones in
            the output. The category None stands for an absent value.
        image: shape ``(channels, h, w)`` of images, which are not changed; None without images.
        warnings: warnings for the user, such as constant columns.
    """

    numeric: dict[str, NumericColumn]
    categorical: dict[str, tuple[str | None, ...]]
    image: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one transformed row."""
        return (self.width,) if self.image is None else self.image

    @property
    def width(self) -> int:
        """Number of values in one transformed row."""
        if self.image is not None:
            return int(np.prod(self.image))
        return len(self.numeric) + len(self._ranked) + sum(map(len, self.categorical.values()))

    @property
    def has_ranks(self) -> bool:
        """Whether a transformed row has ranks of numbers."""
        return bool(self._ranked)

    @property
    def _ranked(self) -> dict[str, NumericColumn]:
        """The columns that also give a rank."""
        return {name: how for name, how in self.numeric.items() if how.quantiles}

    def transform(self, holding: Holding, rows: Index) -> Features:
        """Return the transformed features of the rows with the indices ``rows``, ``[rows]``.

        The result is ``[rows, width]`` in float64, or images ``[rows, channels, h, w]`` in float32.
        A category that occurs in no training row is encoded as zeros.

        Raises:
            DataError: ``holding`` has other columns or another image shape than the data for which
                the preprocessing was made, or a number is too far from the mean.
        """
        self._refuse_other_features(holding)
        if holding.images is not None:
            return holding.images[rows]
        if holding.table is None:
            return np.empty((len(rows), 0))
        chosen = data_frame(holding.table, rows)
        blocks = [_scaled(chosen[name], how) for name, how in self.numeric.items()]
        blocks += [_rank(chosen[name], how) for name, how in self._ranked.items()]
        blocks += [_one_hot(chosen[name], known) for name, known in self.categorical.items()]
        return np.concatenate(blocks, axis=1)

    def unknown_texts(self, holding: Holding, rows: Index) -> dict[str, tuple[int, int]]:
        """Count the texts of the rows with the indices ``rows``, ``[rows]``, that are no category.

        Returns:
            By column with such texts, their number and the number of all present texts.
        """
        table, found = holding.table, dict[str, tuple[int, int]]()
        if table is None:
            return found
        codes = table.codes[rows if table.order is None else table.order[rows]]
        for at, (name, texts) in enumerate(table.categorical.items()):
            known = set(self.categorical[name])
            strange = [code for code, text in enumerate(texts) if text not in known]
            if unknown := int(np.isin(codes[:, at], strange).sum()):
                found[name] = unknown, int((codes[:, at] >= 0).sum())  # -1: absent
        return found

    def places(self) -> dict[str, list[int]]:
        """Return the places of each column's values in a transformed row; images have none."""
        found = {name: [place] for place, name in enumerate(self.numeric)}
        for place, name in enumerate(self._ranked, len(self.numeric)):
            found[name].append(place)
        start = len(self.numeric) + len(self._ranked)
        for name, known in self.categorical.items():
            found[name] = list(range(start, start + len(known)))
            start += len(known)
        return found

    def transformed(self, column: str, value: float) -> dict[int, float]:
        """Return what ``value`` of a numeric column becomes, by the place in a transformed row."""
        how, one = self.numeric[column], pd.Series([value], name=column)
        found = {list(self.numeric).index(column): float(_scaled(one, how)[0, 0])}
        if how.quantiles:
            place = len(self.numeric) + list(self._ranked).index(column)
            found[place] = float(_rank(one, how)[0, 0])
        return found

    def statistics(self) -> dict[str, Any]:
        """Return the statistics as JSON values, which ``read_statistics`` converts back.

        Columns are stored in lists, because a JSON file with sorted keys keeps the order of a list
        but not the order of the keys of an object.
        """
        numeric = [
            {"column": name, **_number_statistics(how)} for name, how in self.numeric.items()
        ]
        categorical = [
            {"column": name, "categories": list(known)} for name, known in self.categorical.items()
        ]
        image = None if self.image is None else list(self.image)
        return {"numeric": numeric, "categorical": categorical, "image": image}

    def _refuse_other_features(self, holding: Holding) -> None:
        image = None if holding.images is None else holding.images.shape[1:]
        columns = (holding.numeric, holding.categorical)
        if image != self.image or columns != (tuple(self.numeric), tuple(self.categorical)):
            raise DataError(
                "the data has other columns, or images of another shape, than the data for which "
                "the preprocessing was made",
                f"expected {', '.join([*self.numeric, *self.categorical]) or self.image}",
            )


def _number_statistics(how: NumericColumn) -> dict[str, Any]:
    found = asdict(how)
    if not how.quantiles:
        del found["quantiles"]
    return found


def fit_preprocessing(holding: Holding, rows: Index) -> FittedPreprocessing:
    """Fit medians, means, scales and categories on the rows with the indices ``rows``, ``[rows]``.

    With ``holding.ranks``, quantiles are fitted, too.

    Raises:
        DataError: there are no rows, a numeric column has no value in the rows, a column has too
            many categories, or every column is constant.
    """
    if not len(rows):
        raise DataError("there are no training rows to fit preprocessing on")
    if holding.images is not None:
        return FittedPreprocessing({}, {}, holding.images.shape[1:])
    if holding.table is None:
        return FittedPreprocessing({}, {})
    chosen = data_frame(holding.table, rows)
    for name in holding.categorical:
        chosen[name] = _texts(chosen[name])
    _refuse_unusable(chosen, holding)
    warnings = _warnings(chosen, holding)
    if len(warnings) == len(holding.numeric) + len(holding.categorical):
        raise DataError(
            "every column is constant in the training rows",
            "add a column whose values differ between rows",
        )
    fitted = _columns(holding).fit(chosen).named_transformers_
    return FittedPreprocessing(
        _numeric(fitted["numeric"], chosen, ranks=holding.ranks) if holding.numeric else {},
        _categorical(fitted["categorical"]) if holding.categorical else {},
        warnings=warnings,
    )


def declared_preprocessing(holding: Holding, data: DataSettings) -> FittedPreprocessing:
    """Return the preprocessing that the party settings declare, without reading any row.

    A number becomes -1 at the lower end of its range and 1 at the upper end; an absent number
    becomes 0.

    Raises:
        DataError: a column has no declared range or vocabulary.
    """
    if holding.images is not None:
        return FittedPreprocessing({}, {}, holding.images.shape[1:])
    if holding.ranks:
        raise DataError(
            "data.ranks needs the values of the training rows, but preprocessing is 'declared'",
            "remove data.ranks from the party settings",
        )
    missing = [f"the range of {name!r}" for name in holding.numeric if name not in data.ranges]
    missing += [
        f"the vocabulary of {name!r}" for name in holding.categorical if name not in data.vocabulary
    ]
    if missing:
        raise DataError(
            "preprocessing is 'declared', but the party settings lack these declarations: "
            f"{', '.join(missing)}",
            "add each of these columns to data.ranges or data.vocabulary",
        )
    spans = {name: data.ranges[name] for name in holding.numeric}
    middles = {name: (low + high) / 2 for name, (low, high) in spans.items()}
    return FittedPreprocessing(
        {
            name: NumericColumn(middles[name], middles[name], (high - low) / 2)
            for name, (low, high) in spans.items()
        },
        {name: (*data.vocabulary[name], None) for name in holding.categorical},
    )


def declared_target(data: DataSettings) -> tuple[float, float]:
    """Return the declared range of the label that is a number.

    Raises:
        DataError: the label has no declared range.
    """
    (name,) = data.label_columns
    if name not in data.ranges:
        raise DataError(
            f"preprocessing is 'declared', but the party settings lack the range of the label "
            f"{name!r}",
            "add the column to data.ranges",
        )
    return data.ranges[name]


def read_statistics(statistics: Any) -> FittedPreprocessing:
    """Return the preprocessing with the given ``statistics``, which are JSON values.

    Raises:
        DataError: ``statistics`` is not a result of ``FittedPreprocessing.statistics``.
    """
    try:
        numeric = {
            kept["column"]: NumericColumn(
                float(kept["median"]),
                float(kept["mean"]),
                float(kept["scale"]),
                tuple(float(each) for each in kept.get("quantiles", ())),
            )
            for kept in statistics["numeric"]
        }
        known = {kept["column"]: tuple(kept["categories"]) for kept in statistics["categorical"]}
        image = statistics["image"]
        return FittedPreprocessing(numeric, known, None if image is None else tuple(image))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            "the statistics of the preprocessing are damaged: a key is missing or has a wrong type"
        ) from error


def _columns(holding: Holding) -> ColumnTransformer:
    numeric = Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    categorical = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("numeric", numeric, list(holding.numeric)),
            ("categorical", categorical, list(holding.categorical)),
        ]
    )


def _numeric(pipeline: Pipeline, chosen: pd.DataFrame, *, ranks: bool) -> dict[str, NumericColumn]:
    imputer, scaler = pipeline["impute"], pipeline["scale"]
    columns = zip(
        imputer.feature_names_in_.tolist(),
        imputer.statistics_, scaler.mean_, scaler.scale_, strict=True,
    )  # fmt: skip
    return {
        name: NumericColumn(
            float(median), float(mean), float(scale), _quantiles(chosen[name]) if ranks else ()
        )
        for name, median, mean, scale in columns
    }


def _quantiles(column: "pd.Series[float]") -> tuple[float, ...]:
    """Return percentiles of the values that are present, each the mean of three near ones.

    A percentile itself is often the value of one row, which must not outlive a request to forget
    the row. Values that several rows share stay as they are.
    """
    values = column.to_numpy(np.float64)
    low, middle, high = (
        np.nanquantile(values, QUANTILES + shift) for shift in (-0.005, 0.0, 0.005)
    )
    found = np.where(low == high, middle, (low + middle + high) / 3)
    return tuple(np.maximum.accumulate(found).tolist())


def _categorical(encoder: OneHotEncoder) -> dict[str, tuple[str | None, ...]]:
    known = (tuple(column.tolist()) for column in encoder.categories_)
    return dict(zip(encoder.feature_names_in_.tolist(), known, strict=True))


def _warnings(chosen: pd.DataFrame, holding: Holding) -> tuple[str, ...]:
    constant = [name for name in holding.numeric if chosen[name].nunique() == 1]
    constant += [name for name in holding.categorical if chosen[name].nunique(dropna=False) == 1]
    return tuple(f"column {name!r} is constant in the training rows" for name in constant)


def _refuse_unusable(chosen: pd.DataFrame, holding: Holding) -> None:
    problems = [
        f"no value of column {name!r} in the training rows"
        for name in holding.numeric
        if chosen[name].isna().all()
    ]
    for name in holding.categorical:
        count = chosen[name].nunique()
        if count > MAX_CATEGORIES:
            problems.append(f"column {name!r} has {count} categories, above {MAX_CATEGORIES}")
    if problems:
        raise DataError("\n".join(problems), "remove these columns from the party's data")


def _scaled(column: "pd.Series[float]", how: NumericColumn) -> npt.NDArray[np.float64]:
    """Return a scaled column, ``[rows, 1]``."""
    values = column.to_numpy(np.float64)
    filled = np.where(np.isnan(values), how.median, values)
    scaled = np.divide(filled - how.mean, how.scale)
    if (np.abs(scaled) > MAX_SCALED).any():
        raise DataError(
            f"column {column.name!r} has numbers that are beyond ±{MAX_SCALED:g} after scaling",
            "correct these numbers, because they would overflow in float32",
        )
    return scaled[:, None]


def _rank(column: "pd.Series[float]", how: NumericColumn) -> npt.NDArray[np.float64]:
    """Return the ranks of a column, ``[rows, 1]``, scaled to variance 1 if no two values are equal.

    A value at several equal quantiles gets the middle of their ranks.
    """
    values = column.to_numpy(np.float64)
    filled = np.where(np.isnan(values), how.median, values)
    known = np.array(how.quantiles)
    places = np.linspace(QUANTILES[0], QUANTILES[-1], len(known))
    upper = np.interp(filled, known, places)
    lower = -np.interp(-filled, -known[::-1], -places[::-1])
    ranks: npt.NDArray[np.float64] = (upper + lower - 1) * np.sqrt(3)
    return ranks[:, None]


def _texts(column: "pd.Series[str]") -> "pd.Series[str]":
    """Return a column in which every absent value is None; pandas has several marks for it."""
    return column.astype(object).where(column.notna(), None)


def _one_hot(column: "pd.Series[str]", known: Sequence[str | None]) -> npt.NDArray[np.float64]:
    """Return the one-hot encoding of a column, ``[rows, categories]``."""
    index = {category: at for at, category in enumerate(known)}
    codes = np.array([index.get(category, -1) for category in _texts(column)], np.int64)
    return np.equal.outer(codes, np.arange(len(known))).astype(np.float64)
