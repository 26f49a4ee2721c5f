"""Preprocessing: one party's columns as numbers, with statistics of its own training rows alone.

Scikit-learn fits; what it found is kept as plain statistics, and one transform works from them
alone, fitted a moment ago or read from a file. The statistics remember the rows they came from.
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

from configs.party_settings import Data
from parties.common.errors import DataError
from parties.data.holding import Holding
from parties.data.sources.records import Index

Features: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.float32]

MAX_CATEGORIES = 1000  # of one column
MAX_SCALED = 1e30  # scales from the mean


@dataclass(frozen=True, slots=True)
class NumericColumn:
    """x → (x - mean) / scale, an absent x replaced by the median."""

    median: float
    mean: float
    scale: float


@dataclass(frozen=True, slots=True, repr=False)
class FittedPreprocessing:
    """What preprocessing learnt from the training rows.

    Attributes:
        numeric: in the order of their columns in the output.
        categorical: categories of each column, None for an absent value; they follow.
        image: [channels, h, w] of images, which pass unchanged.
        warnings: what the caller may show, such as constant columns.
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
        """Numbers in one transformed row."""
        if self.image is not None:
            return int(np.prod(self.image))
        return len(self.numeric) + sum(map(len, self.categorical.values()))

    def transform(self, holding: Holding, rows: Index) -> Features:
        """The chosen rows: [rows, width] float64, or float32 images [rows, channels, h, w].

        A category that no training row had is all zeros.

        Raises:
            DataError: the holding has other columns or images than the one fitted, or a number
                too far from them.
        """
        self._refuse_other_features(holding)
        if holding.images is not None:
            return holding.images[rows]
        if holding.table is None:
            return np.empty((len(rows), 0))
        chosen = holding.table.frame(rows)
        blocks = [_scaled(chosen[name], how) for name, how in self.numeric.items()]
        blocks += [_one_hot(chosen[name], known) for name, known in self.categorical.items()]
        return np.concatenate(blocks, axis=1)

    def statistics(self) -> dict[str, Any]:
        """All of it as JSON; ``read_statistics`` is the way back.

        Columns are in lists, whose order survives sorted keys.
        """
        numeric = [{"column": name, **asdict(how)} for name, how in self.numeric.items()]
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
                "the data has other columns or images than those the preprocessing was fitted on",
                f"fitted: {', '.join([*self.numeric, *self.categorical]) or self.image}",
            )


def fit_preprocessing(holding: Holding, rows: Index) -> FittedPreprocessing:
    """Learn medians, means, scales and categories from the given rows alone.

    Raises:
        DataError: no rows, a numeric column without a value in them, or too many categories.
    """
    if not len(rows):
        raise DataError("preprocessing has no training rows")
    if holding.images is not None:
        return FittedPreprocessing({}, {}, holding.images.shape[1:])
    if holding.table is None:
        return FittedPreprocessing({}, {})
    chosen = holding.table.frame(rows)
    chosen = chosen.assign(**{name: _texts(chosen[name]) for name in holding.categorical})
    _refuse_unusable(chosen, holding)
    warnings = _warnings(chosen, holding)
    if len(warnings) == len(holding.numeric) + len(holding.categorical):
        raise DataError("every column is constant in the training rows", "nothing can be learnt")
    found = _columns(holding).fit(chosen).named_transformers_
    return FittedPreprocessing(
        _numeric(found["numeric"]) if holding.numeric else {},
        _categorical(found["categorical"]) if holding.categorical else {},
        warnings=warnings,
    )


def declared_preprocessing(holding: Holding, data: Data) -> FittedPreprocessing:
    """What the party settings declare of its columns, without a look at any row.

    A number becomes -1 at the low end of its range and 1 at the high end, an absent one 0.

    Raises:
        DataError: a column has no range or no vocabulary.
    """
    if holding.images is not None:
        return FittedPreprocessing({}, {}, holding.images.shape[1:])
    bare = [f"no range of {name!r}" for name in holding.numeric if name not in data.ranges]
    bare += [
        f"no vocabulary of {name!r}" for name in holding.categorical if name not in data.vocabulary
    ]
    if bare:
        raise DataError(
            f"preprocessing is declared, and the party settings declare {', '.join(bare)}",
            "add them to ranges and vocabulary of the party's data",
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


def read_statistics(statistics: Any) -> FittedPreprocessing:
    """The inverse of ``Fitted.statistics``.

    Raises:
        DataError: these are no statistics of a preprocessing.
    """
    try:
        numeric = {
            kept["column"]: NumericColumn(
                *(float(kept[name]) for name in ("median", "mean", "scale"))
            )
            for kept in statistics["numeric"]
        }
        known = {kept["column"]: tuple(kept["categories"]) for kept in statistics["categorical"]}
        image = statistics["image"]
        return FittedPreprocessing(numeric, known, None if image is None else tuple(image))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError("these are no statistics of a preprocessing") from error


def _columns(holding: Holding) -> ColumnTransformer:
    numeric = Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    categorical = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("numeric", numeric, list(holding.numeric)),
            ("categorical", categorical, list(holding.categorical)),
        ]
    )


def _numeric(found: Pipeline) -> dict[str, NumericColumn]:
    imputer, scaler = found["impute"], found["scale"]
    columns = zip(imputer.statistics_, scaler.mean_, scaler.scale_, strict=True)
    numbers = (NumericColumn(*map(float, column)) for column in columns)
    return dict(zip(imputer.feature_names_in_.tolist(), numbers, strict=True))


def _categorical(found: OneHotEncoder) -> dict[str, tuple[str | None, ...]]:
    known = (tuple(column.tolist()) for column in found.categories_)
    return dict(zip(found.feature_names_in_.tolist(), known, strict=True))


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
        raise DataError("\n".join(problems), "take such columns out of the party's data")


def _scaled(column: "pd.Series[float]", how: NumericColumn) -> npt.NDArray[np.float64]:
    """[rows, 1]."""
    values = column.to_numpy(np.float64)
    filled = np.where(np.isnan(values), how.median, values)
    scaled = np.divide(filled - how.mean, how.scale)
    if (np.abs(scaled) > MAX_SCALED).any():
        raise DataError(
            f"column {column.name!r} has numbers over {MAX_SCALED:g} scales from its mean in the "
            "training rows",
            "correct them; such numbers overflow in float32",
        )
    return scaled[:, None]


def _texts(column: "pd.Series[str]") -> "pd.Series[str]":
    """Every absent value as None, whichever of its marks pandas chose."""
    return column.astype(object).where(column.notna(), None)


def _one_hot(column: "pd.Series[str]", known: Sequence[str | None]) -> npt.NDArray[np.float64]:
    """[rows, categories]."""
    index = {category: at for at, category in enumerate(known)}
    found = np.array([index.get(category, -1) for category in _texts(column)], np.int64)
    return np.equal.outer(found, np.arange(len(known))).astype(np.float64)
