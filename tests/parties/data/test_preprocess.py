"""Tests of the preprocessing: equal to scikit-learn, fitted on training rows, stored as JSON."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from parties.common.errors import DataError
from parties.data.holding import Holding
from parties.data.preprocess import (
    MAX_CATEGORIES,
    declared_preprocessing,
    fit_preprocessing,
    read_statistics,
)
from parties.data.sources.csv_source import CsvData
from parties.data.sources.table import Table

COUNT = 40
TRAINING = np.arange(30)
ALL = np.arange(COUNT)


def holding(table: pd.DataFrame | None, count: int = COUNT) -> Holding:
    ids = [b"%d" % row for row in range(count)]
    return Holding(ids=ids, in_test=np.zeros(count, bool), table=compact(table))


def compact(frame: pd.DataFrame | None) -> Table | None:
    if frame is None:
        return None
    numbers = frame.select_dtypes("number")
    texts = frame.select_dtypes(exclude="number")
    coded = [pd.factorize(texts[name]) for name in texts]
    return Table(
        numeric=tuple(numbers),
        categorical={name: tuple(known) for name, (_, known) in zip(texts, coded, strict=True)},
        numbers=numbers.to_numpy(np.float64),
        codes=np.array([codes for codes, _ in coded], np.int32).reshape(-1, len(frame)).T,
    )


def mixed() -> pd.DataFrame:
    """Two numeric and two categorical columns, with absent values and a late category."""
    random = np.random.default_rng(0)
    age, pay = random.normal(40, 9, COUNT), random.lognormal(3, 2, COUNT)
    age[[3, 17, 35]] = np.nan
    town = random.choice(["Bonn", "Kiel", "Ulm"], COUNT).astype(object)
    town[[5, 33]] = None
    town[31] = "Jena"
    sex = pd.Series(random.choice(["f", "m"], COUNT), dtype=object)
    return pd.DataFrame({"age": age, "pay": pay, "town": pd.Series(town), "sex": sex})


def test_numeric_columns_equal_hand_computed_values() -> None:
    table = pd.DataFrame({"x": [1.0, np.nan, 5.0, 3.0, 100.0]})
    fitted = fit_preprocessing(
        holding(table, 5), np.arange(4)
    )  # median 3; 1, 3, 5, 3: mean 3, variance 2
    [how] = fitted.numeric.values()
    assert (how.median, how.mean) == (3, 3)
    np.testing.assert_allclose(how.scale, np.sqrt(2))
    expected = (np.array([1, 3, 5, 3, 100]) - 3) / np.sqrt(2)
    np.testing.assert_allclose(fitted.transform(holding(table, 5), np.arange(5))[:, 0], expected)


def ranked(table: pd.DataFrame, count: int) -> Holding:
    return replace(holding(table, count), ranks=True)


def test_ranks_follow_the_scaled_columns() -> None:
    table = pd.DataFrame({"x": np.arange(1000.0), "y": np.exp(np.arange(1000.0) / 100)})
    fitted = fit_preprocessing(ranked(table, 1000), np.arange(1000))
    found = fitted.transform(ranked(table, 1000), np.arange(1000))
    plain = fit_preprocessing(holding(table, 1000), np.arange(1000))
    assert (fitted.width, plain.width) == (4, 2)
    np.testing.assert_array_equal(
        found[:, :2], plain.transform(holding(table, 1000), np.arange(1000))
    )
    np.testing.assert_allclose(found[:, 2], found[:, 3], atol=0.01)  # y is a function of x
    inner = found[10:990, 2] / np.sqrt(3)
    np.testing.assert_allclose(inner, 2 * np.arange(10, 990) / 999 - 1, atol=1e-9)
    assert len(set(found[:10, 2])) == 1  # below the first percentile
    assert abs(found[:, 2].var() - 1) < 0.01


def test_equal_values_have_the_middle_of_their_ranks() -> None:
    table = pd.DataFrame({"x": [*[0.0] * 60, *[5.0] * 40, np.nan]})
    fitted = fit_preprocessing(ranked(table, 101), np.arange(100))
    zero, five, absent = fitted.transform(ranked(table, 101), np.array([0, 60, 100]))[:, 1]
    assert -0.75 < zero < -0.65  # rank 0.3
    assert 1.0 < five < 1.1  # rank 0.8
    assert absent == zero  # the median


def test_ranks_are_bounded_and_have_no_value_of_a_single_row() -> None:
    table = pd.DataFrame({"x": [*range(1000), 1e9, -1e9]})
    fitted = fit_preprocessing(ranked(table, 1002), np.arange(1002))
    ranks = fitted.transform(ranked(table, 1002), np.arange(1002))[:, 1]
    assert np.abs(ranks).max() < np.sqrt(3)
    assert np.abs(fitted.numeric["x"].quantiles).max() < 1000


@pytest.mark.parametrize("count", [50, 101, 1001])
def test_no_quantile_is_the_value_of_a_row(count: int) -> None:
    values = np.random.default_rng(count).lognormal(size=count)
    fitted = fit_preprocessing(ranked(pd.DataFrame({"x": values}), count), np.arange(count))
    assert not set(fitted.numeric["x"].quantiles) & set(values)


def test_statistics_with_ranks_are_read_again_and_others_are_as_before() -> None:
    table = mixed()
    fitted = fit_preprocessing(replace(holding(table), ranks=True), TRAINING)
    again = read_statistics(json.loads(json.dumps(fitted.statistics())))
    np.testing.assert_array_equal(
        again.transform(holding(table), ALL), fitted.transform(holding(table), ALL)
    )
    plain = fit_preprocessing(holding(table), TRAINING).statistics()
    assert {key for each in plain["numeric"] for key in each} == {
        "column", "median", "mean", "scale",
    }  # fmt: skip


def test_one_value_is_transformed_as_a_row_is() -> None:
    table = mixed()
    fitted = fit_preprocessing(replace(holding(table), ranks=True), TRAINING)
    changed = table.assign(pay=7.5)
    expected = fitted.transform(holding(changed), ALL)
    for place, value in fitted.transformed("pay", 7.5).items():
        np.testing.assert_allclose(expected[:, place], value)
    assert set(fitted.transformed("pay", 7.5)) == {1, 3}


@pytest.mark.parametrize("ranks", [False, True])
def test_places_of_a_column_are_those_that_change_with_it(ranks: bool) -> None:
    held = replace(holding(mixed()), ranks=ranks)
    fitted = fit_preprocessing(held, TRAINING)
    before, found = fitted.transform(held, ALL), fitted.places()
    every = sorted(place for places in found.values() for place in places)
    assert every == list(range(fitted.width))
    for name, places in found.items():
        other = mixed()
        other[name] = other[name].to_numpy()[::-1]
        changed = fitted.transform(replace(holding(other), ranks=ranks), ALL) != before
        assert np.flatnonzero(changed.any(axis=0)).tolist() == places


def test_declared_preprocessing_has_no_ranks() -> None:
    data = CsvData(kind="csv", path=Path("a"))
    with pytest.raises(DataError, match="ranks needs the values"):
        declared_preprocessing(replace(holding(mixed()), ranks=True), data)


def test_transform_equals_column_transformer() -> None:
    table = mixed()
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    reference = ColumnTransformer([("n", numeric, ["age", "pay"]), ("c", encoder, ["town", "sex"])])
    reference.fit(table.iloc[TRAINING])
    fitted = fit_preprocessing(holding(table), TRAINING)
    ours = fitted.transform(holding(table), ALL)
    np.testing.assert_allclose(ours, reference.transform(table), rtol=0, atol=1e-12)
    assert ours.shape == (COUNT, fitted.width)
    assert fitted.shape == (2 + 4 + 2,)
    assert ours.dtype == np.float64


def test_only_the_given_rows_are_used() -> None:
    table = mixed()
    before = fit_preprocessing(holding(table), TRAINING).statistics()
    table.loc[30:, "age"] *= 1000
    table.loc[30:, "sex"] = "x"
    assert fit_preprocessing(holding(table), TRAINING).statistics() == before
    assert fit_preprocessing(holding(table), TRAINING[:-1]).statistics() != before


def test_rows_come_in_the_order_asked_for() -> None:
    fitted = fit_preprocessing(holding(mixed()), TRAINING)
    rows = np.array([7, 3, 38, 3])
    np.testing.assert_equal(
        fitted.transform(holding(mixed()), rows), fitted.transform(holding(mixed()), ALL)[rows]
    )


def test_missing_value_is_its_own_category() -> None:
    fitted = fit_preprocessing(holding(mixed()), TRAINING)
    assert fitted.categorical["town"] == ("Bonn", "Kiel", "Ulm", None)
    rows = fitted.transform(holding(mixed()), np.array([5, 33]))
    np.testing.assert_equal(rows[:, 2:6], [[0, 0, 0, 1], [0, 0, 0, 1]])


def test_category_absent_in_training_is_all_zeros() -> None:
    rows = fit_preprocessing(holding(mixed()), TRAINING).transform(holding(mixed()), np.array([31]))
    np.testing.assert_equal(rows[0, 2:6], [0, 0, 0, 0])


def test_statistics_restored_from_json_transform_identically() -> None:
    fitted = fit_preprocessing(holding(mixed()), TRAINING)
    stored = json.loads(json.dumps(fitted.statistics(), allow_nan=False, sort_keys=True))
    restored = read_statistics(stored)
    np.testing.assert_allclose(
        restored.transform(holding(mixed()), ALL),
        fitted.transform(holding(mixed()), ALL),
        rtol=0,
        atol=1e-12,
    )
    assert (restored.shape, restored.statistics()) == (fitted.shape, fitted.statistics())


def test_images_pass_unchanged_and_their_shape_is_kept() -> None:
    images = np.random.default_rng(1).random((4, 1, 8, 5), np.float32)
    held = Holding(ids=[b"a", b"b", b"c", b"d"], in_test=np.zeros(4, bool), images=images)
    fitted = read_statistics(
        json.loads(json.dumps(fit_preprocessing(held, np.arange(2)).statistics()))
    )
    assert (fitted.shape, fitted.width) == ((1, 8, 5), 40)
    np.testing.assert_equal(fitted.transform(held, np.array([3, 0])), images[[3, 0]])


def test_party_with_labels_only_has_no_width() -> None:
    fitted = fit_preprocessing(holding(None), TRAINING)
    assert (fitted.shape, fitted.width) == ((0,), 0)
    assert fitted.transform(holding(None), TRAINING).shape == (30, 0)


def test_constant_column_is_scaled_by_one_with_a_warning() -> None:
    table = pd.DataFrame({"x": [7.0] * COUNT, "y": np.arange(COUNT), "c": ["a"] * COUNT})
    table.loc[35, "x"] = 9.0
    fitted = fit_preprocessing(holding(table), TRAINING)
    assert fitted.numeric["x"].scale == 1
    assert [warning.split("'")[1] for warning in fitted.warnings] == ["x", "c"]
    np.testing.assert_equal(fitted.transform(holding(table), np.array([0, 35]))[:, 0], [0, 2])


def test_column_with_missing_values_is_not_reported_as_constant() -> None:
    table = pd.DataFrame({"c": pd.Series(["a", None] * (COUNT // 2), dtype=object)})
    assert fit_preprocessing(holding(table), TRAINING).warnings == ()


def test_repr_shows_no_category() -> None:
    assert "Bonn" not in repr(fit_preprocessing(holding(mixed()), TRAINING))


# Refusals


def test_no_training_rows_are_refused() -> None:
    with pytest.raises(DataError, match="no training rows"):
        fit_preprocessing(holding(mixed()), np.empty(0, np.int64))


def test_column_without_a_value_in_the_training_rows_is_refused() -> None:
    table = mixed()
    table.loc[:29, "age"] = np.nan
    with pytest.raises(DataError, match="no value of column 'age' in the training rows"):
        fit_preprocessing(holding(table), TRAINING)


def test_too_many_categories_are_refused() -> None:
    count = MAX_CATEGORIES + 1
    table = pd.DataFrame({"pid": [f"p{row}" for row in range(count)]})
    with pytest.raises(DataError, match="column 'pid' has 1001 categories, above 1000"):
        fit_preprocessing(holding(table, count), np.arange(count))


def test_number_too_far_from_the_training_rows_is_refused() -> None:
    table = mixed()
    table.loc[35, "pay"] = 1e90
    with pytest.raises(DataError, match="column 'pay' has numbers that are beyond ±1e\\+30"):
        fit_preprocessing(holding(table), TRAINING).transform(holding(table), ALL)


def test_columns_other_than_the_fitted_ones_are_refused() -> None:
    fitted = fit_preprocessing(holding(mixed()), TRAINING)
    with pytest.raises(
        DataError, match="the data has other columns, or images of another shape"
    ) as caught:
        fitted.transform(holding(mixed().drop(columns="sex")), ALL)
    assert "age, pay, town, sex" in caught.value.hint
    with pytest.raises(DataError, match="the data has other columns, or images of another shape"):
        fitted.transform(holding(None), ALL)


@pytest.mark.parametrize(
    "stored", [None, [], {}, {"numeric": [{"column": "x"}], "categorical": [], "image": None}]
)
def test_invalid_statistics_are_refused(stored: object) -> None:
    with pytest.raises(DataError, match="the statistics of the preprocessing are damaged"):
        read_statistics(stored)


# --- declared -------------------------------------------------------------------------------------

DECLARED = CsvData(
    kind="csv",
    path=Path("people.csv"),
    ranges={"age": (0.0, 100.0), "pay": (10.0, 30.0)},
    vocabulary={"town": ("Kiel", "Ulm"), "sex": ("f", "m")},
)


def test_declared_preprocessing_equals_hand_computed_values() -> None:
    rows = pd.DataFrame(
        {
            "age": [0.0, 100.0, np.nan],
            "pay": [20.0, 30.0, 50.0],
            "town": ["Ulm", "Bonn", None],
            "sex": ["f", "m", "m"],
        }
    )
    transformed = declared_preprocessing(holding(rows, 3), DECLARED).transform(
        holding(rows, 3), np.arange(3)
    )
    # age and pay; Kiel, Ulm, absent; f, m, absent
    assert transformed.tolist() == [
        [-1, 0, 0, 1, 0, 1, 0, 0],
        [1, 1, 0, 0, 0, 0, 1, 0],
        [0, 3, 0, 0, 1, 0, 1, 0],
    ]


def test_declared_preprocessing_does_not_depend_on_the_rows() -> None:
    whole, part = mixed(), mixed().iloc[5:20].reset_index(drop=True)
    of_whole, of_part = (
        declared_preprocessing(holding(whole), DECLARED),
        declared_preprocessing(holding(part, 15), DECLARED),
    )
    assert of_whole.statistics() == of_part.statistics()
    assert read_statistics(json.loads(json.dumps(of_whole.statistics()))) == of_whole


def test_columns_without_a_declaration_are_named() -> None:
    bare = DECLARED.model_copy(update={"ranges": {}, "vocabulary": {"sex": ("f", "m")}})
    with pytest.raises(
        DataError, match="the range of 'age', the range of 'pay', the vocabulary of 't"
    ):
        declared_preprocessing(holding(mixed()), bare)


def test_texts_that_no_training_row_had_are_counted() -> None:
    """A code that another program writes as 1.0 is no category 1."""
    fitted = fit_preprocessing(holding(mixed()), TRAINING)
    assert fitted.unknown_texts(holding(mixed()), ALL) == {"town": (1, COUNT - 2)}
    other = mixed().assign(sex=mixed()["sex"].map({"f": "f ", "m": "m"}))
    males = int((mixed()["sex"] == "m").sum())
    found = fitted.unknown_texts(holding(other), TRAINING[:0])
    assert found == {}
    assert fitted.unknown_texts(holding(other), ALL)["sex"] == (COUNT - males, COUNT)


def test_a_column_may_have_the_name_of_an_argument() -> None:
    frame = mixed().rename(columns={"town": "self", "sex": "column"})
    assert [*fit_preprocessing(holding(frame), TRAINING).categorical] == ["self", "column"]
