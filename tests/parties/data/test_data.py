"""Tests of the holding: IDs, labels, samples, and errors without values of rows."""

import os
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parties.common.errors import DataError
from parties.data.data_frame import data_frame
from parties.data.holding import Holding, read_holding
from parties.data.sources.csv_source import CsvData
from parties.data.sources.files import MAX_BYTES
from parties.data.sources.idx_source import IdxData
from parties.data.sources.npz_source import NumpyData
from parties.data.sources.sklearn_source import SklearnData
from parties.data.sources.source import DataSettings, IdColumns, SampleSettings
from psi.ids import join_columns

CLASSES = ("no", "yes")
TABLE = """id,age,town,y
a7,30,Bonn,no
b8,,Kiel,yes
c9,50,?,no
"""


def csv(folder: Path, text: str = TABLE, **options: Any) -> CsvData:
    (folder / "rows.csv").write_text(text)
    given: dict[str, Any] = {
        "id": IdColumns(columns=("id",)),
        "label": "y",
        "missing": ("?",),
    } | options
    if "numeric" not in given:
        given.setdefault("categorical", ("town",))
    return CsvData(kind="csv", path=Path("rows.csv"), **given)


def held(folder: Path, data: DataSettings, active: bool = True) -> Holding:
    return read_holding(data, folder=folder, classes=CLASSES, active=active)


def refusal(folder: Path, data: DataSettings, active: bool = True) -> str:
    with pytest.raises(DataError) as caught:
        held(folder, data, active)
    return f"{caught.value} | {caught.value.hint}"


def test_holding_has_ids_features_and_labels(tmp_path: Path) -> None:
    holding = held(tmp_path, csv(tmp_path))
    assert list(holding.ids) == [b"a7", b"b8", b"c9"]
    assert (holding.numeric, holding.categorical) == (("age",), ("town",))
    assert holding.table is not None
    assert holding.labels is not None
    np.testing.assert_equal(data_frame(holding.table)["age"].to_numpy(), [30, np.nan, 50])
    assert data_frame(holding.table)["town"].tolist() == ["Bonn", "Kiel", None]
    assert holding.labels.tolist() == [0, 1, 0]
    assert not holding.in_test.any()
    assert holding.images is None


def test_active_party_may_hold_labels_only(tmp_path: Path) -> None:
    holding = held(tmp_path, csv(tmp_path, numeric=(), label="y"))
    assert holding.table is None
    assert (holding.numeric, holding.categorical) == ((), ())


def test_repr_shows_no_row(tmp_path: Path) -> None:
    shown = repr(held(tmp_path, csv(tmp_path)))
    assert "a7" not in shown
    assert "Bonn" not in shown


def test_rows_without_ids_are_named_by_file_and_line(tmp_path: Path) -> None:
    text = "# 2 rows\nage,y\n\n30,no\n40,yes\n"
    data = csv(tmp_path, text, id="row", categorical=(), comment="#")
    assert list(held(tmp_path, data).ids) == [b"rows.csv:4", b"rows.csv:5"]


def test_generated_ids_of_one_file_are_equal_at_all_parties(tmp_path: Path) -> None:
    text = "age,town,y\n" + "".join(f"{age},x,{CLASSES[age % 2]}\n" for age in range(40))
    ours = csv(
        tmp_path, text, id="row", numeric=("age",), sample=SampleSettings(fraction=0.8, seed=1)
    )
    theirs = csv(tmp_path, text, id="row", numeric=(), sample=SampleSettings(fraction=0.8, seed=2))
    bank, shop = held(tmp_path, ours), held(tmp_path, theirs)
    assert len(bank) == len(shop) == 32
    assert list(bank.ids) != list(shop.ids)
    assert bank.table is not None
    assert shop.labels is not None
    for identity in set(bank.ids) & set(shop.ids):
        age = data_frame(bank.table)["age"].iloc[bank.ids.index(identity)]
        assert identity == f"rows.csv:{age + 2:.0f}".encode()
        assert shop.labels[shop.ids.index(identity)] == age % 2


def test_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    sample = SampleSettings(fraction=0.5, seed=3)
    first, second = (
        held(tmp_path, SklearnData(kind="sklearn", name="digits", sample=sample), active=False)
        for _ in range(2)
    )
    assert list(first.ids) == list(second.ids)
    assert len(first) == round(1797 / 2)


def test_ids_are_read_as_text(tmp_path: Path) -> None:
    ids = ["007", "7", "1e10", "1.0", "2020-01-01", "NA", "true"]
    text = "id,y\n" + "".join(f"{x},{CLASSES[at % 2]}\n" for at, x in enumerate(ids))
    assert list(held(tmp_path, csv(tmp_path, text, numeric=())).ids) == [x.encode() for x in ids]


def test_categorical_values_are_read_as_text(tmp_path: Path) -> None:
    text = "id,town,y\n1,01,no\n2,1.0,yes\n"
    table = held(tmp_path, csv(tmp_path, text)).table
    assert table is not None
    assert data_frame(table)["town"].tolist() == ["01", "1.0"]


def test_several_id_columns_are_joined_with_lengths(tmp_path: Path) -> None:
    text = "first,last,y\nab,c,no\na,bc,yes\n"
    data = csv(tmp_path, text, id=IdColumns(columns=("first", "last")), numeric=())
    assert list(held(tmp_path, data).ids) == [
        join_columns([b"ab", b"c"]),
        join_columns([b"a", b"bc"]),
    ]


def test_blanks_around_labels_and_texts_are_removed(tmp_path: Path) -> None:
    text = "id,age,town,y\n1,3, Bonn ,no \n2,4,Bonn, yes\n"
    holding = held(tmp_path, csv(tmp_path, text))
    assert holding.labels is not None
    assert holding.table is not None
    assert holding.labels.tolist() == [0, 1]
    assert data_frame(holding.table)["town"].tolist() == ["Bonn", "Bonn"]


def test_test_file_rows_are_marked(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("town,y,age,id\nBonn,yes,20,d1\n")
    holding = held(tmp_path, csv(tmp_path, test_path=Path("test.csv")))
    assert holding.in_test.tolist() == [False, False, False, True]
    assert holding.table is not None
    assert data_frame(holding.table)["age"].iloc[3] == 20


def test_sample_keeps_features_and_labels_of_a_row_together(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("id,age,town,y\nd1,20,Bonn,yes\n")
    data = csv(tmp_path, test_path=Path("test.csv"), sample=SampleSettings(seed=5))
    holding = held(tmp_path, data)
    row = holding.ids.index(b"d1")
    assert holding.table is not None
    assert holding.labels is not None
    assert (data_frame(holding.table)["age"].iloc[row], holding.in_test[row]) == (20, True)
    assert (holding.labels[row], sorted(holding.ids)) == (1, [b"a7", b"b8", b"c9", b"d1"])


# Refused files


def test_absent_file_is_refused_with_where_to_get_it(tmp_path: Path) -> None:
    data = CsvData(
        kind="csv", path=Path("adult/adult.data"), label="y", origin="https://uci.example"
    )
    error = refusal(tmp_path, data)
    assert f"there is no file adult/adult.data: vfl looked for {tmp_path}/adult/adult.data" in error
    assert "https://uci.example" in error
    assert "--data DIR" in error


def test_folder_pipe_and_device_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        data = CsvData(kind="csv", path=path, label="y")
        assert "is not a regular file" in refusal(tmp_path, data)


def test_file_that_is_read_whole_is_refused_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "rows.npz").touch()
    os.truncate(tmp_path / "rows.npz", MAX_BYTES + 1)  # sparse
    data = NumpyData(kind="numpy", path=Path("rows.npz"), label="y")
    assert "more than 2 GiB" in refusal(tmp_path, data)


# Refused IDs


def test_duplicate_ids_are_refused_with_lines(tmp_path: Path) -> None:
    text = TABLE + "a7,1,x,no\nb8,1,x,no\n"
    error = refusal(tmp_path, csv(tmp_path, text))
    assert "2 duplicate IDs: " in error
    assert "rows.csv line 2 and rows.csv line 5; rows.csv line 3 and rows.csv line 6" in error


def test_duplicate_ids_across_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("id,age,town,y\na7,20,Bonn,yes\n")
    error = refusal(tmp_path, csv(tmp_path, test_path=Path("test.csv")))
    assert "rows.csv line 2 and test.csv line 2" in error


def test_train_and_test_file_of_one_name_cannot_name_rows(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rows.csv").write_text(TABLE)
    data = csv(tmp_path, id="row", numeric=(), test_path=Path("sub/rows.csv"))
    assert "both files are named rows.csv" in refusal(tmp_path, data)


@pytest.mark.parametrize(
    "pair", [("1", "１"), ("é", "e\u0301"), ("ﬁ", "fi"), ("x", '"x "'), ("x", "\u00a0x")]
)
def test_two_raw_forms_of_one_normal_form_are_refused(
    tmp_path: Path, pair: tuple[str, str]
) -> None:
    text = f"id,y\n{pair[0]},no\n{pair[1]},yes\n"
    error = refusal(tmp_path, csv(tmp_path, text, numeric=()))
    assert "1 duplicate IDs" in error
    assert "line 2 and rows.csv line 3" in error


def test_ids_that_look_alike_stay_distinct(tmp_path: Path) -> None:
    text = "id,y\n1,no\n01,yes\n1.0,no\nA,no\na,no\n"
    assert len(held(tmp_path, csv(tmp_path, text, numeric=()))) == 5


@pytest.mark.parametrize("empty", ["", '""', "   ", "\u00a0"])
def test_empty_ids_are_refused_with_lines(tmp_path: Path, empty: str) -> None:
    error = refusal(tmp_path, csv(tmp_path, TABLE + f"{empty},1,x,no\n"))
    assert "no ID in 1 line of rows.csv (5)" in error


# Refused labels and features


def test_label_at_a_passive_party_is_refused(tmp_path: Path) -> None:
    assert "the data of a passive party has labels" in refusal(
        tmp_path, csv(tmp_path), active=False
    )
    digits = SklearnData(kind="sklearn", name="digits", label=True)
    assert "the data of a passive party has labels" in refusal(tmp_path, digits, active=False)
    idx = IdxData(kind="idx", images=Path("i"), test_labels=Path("l"))
    assert "the data of a passive party has labels" in refusal(tmp_path, idx, active=False)


def test_active_party_without_label_is_refused(tmp_path: Path) -> None:
    assert "set data.label in the party settings" in refusal(tmp_path, csv(tmp_path, label=None))
    assert "set data.labels in the party settings" in refusal(
        tmp_path, IdxData(kind="idx", images=Path("i"))
    )


def test_passive_party_without_features_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, csv(tmp_path, label=None, numeric=()), active=False)
    assert "a passive party needs features" in error


def test_missing_labels_are_refused_with_lines(tmp_path: Path) -> None:
    error = refusal(tmp_path, csv(tmp_path, TABLE + "d1,1,x,\nd2,1,x,?\n"))
    assert "no label in 2 lines of rows.csv (5, 6)" in error


def test_unknown_labels_are_refused_with_count_and_first_lines(tmp_path: Path) -> None:
    extra = "".join(f"d{at},1,x,perhaps\n" for at in range(8))
    error = refusal(tmp_path, csv(tmp_path, TABLE + extra))
    assert "an unknown label in 8 lines of rows.csv (5, 6, 7, 8, 9, ...)" in error
    assert "use one of the classes no, yes" in error


def test_labels_of_one_class_are_refused(tmp_path: Path) -> None:
    assert "same label" in refusal(tmp_path, csv(tmp_path, "id,y\n1,no\n2,no\n", numeric=()))


def test_label_strip_removes_the_full_stop(tmp_path: Path) -> None:
    text = "id,y\n1,no.\n2,yes\n"
    labels = held(tmp_path, csv(tmp_path, text, numeric=(), label_strip=".")).labels
    assert labels is not None
    assert labels.tolist() == [0, 1]


def test_column_without_values_is_refused(tmp_path: Path) -> None:
    text = "id,age,town,y\n1,,x,no\n2,?,x,yes\n"
    assert "no value in any row of column 'age'" in refusal(tmp_path, csv(tmp_path, text))
    text = "id,age,town,y\n1,3,,no\n2,4,?,yes\n"
    assert "no value in any row of column 'town'" in refusal(tmp_path, csv(tmp_path, text))


# Errors contain no values of rows

FAULTY = {
    "duplicate": "id,age,y\nSECRET,5150,no\nSECRET,5151,yes\n",
    "empty id": "id,age,y\n,5150,no\nSECRET,5151,yes\n",
    "text": "id,age,y\nSECRET,SECRET,no\n",
    "infinity": "id,age,y\nSECRET,inf,no\nSECRET2,5150,no\n",
    "ragged": "id,age,y\nSECRET,5150,no,SECRET\n",
    "open quote": 'id,age,y\n"SECRET,5150,no\nSECRET,5150,no\n',
    "text after quote": 'id,age,y\n"SECRET"5150,5150,no\n',
    "no class": "id,age,y\nSECRET,5150,SECRET\n",
    "no label": "id,age,y\nSECRET,5150,\n",
    "zero byte": "id,age,y\nSECRET\0,5150,\n",
    "no header": "SECRET,5150,no\nSECRET2,5151,yes\n",
}


@pytest.mark.parametrize("text", FAULTY.values(), ids=FAULTY)
def test_errors_contain_no_values_or_ids(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError) as caught:
        held(tmp_path, csv(tmp_path, text, categorical=()))
    error = "".join(traceback.format_exception_only(caught.value)) + caught.value.hint
    chained = caught.value.__cause__
    error += "" if chained is None else str(chained)
    assert "SECRET" not in error
    assert "515" not in error
