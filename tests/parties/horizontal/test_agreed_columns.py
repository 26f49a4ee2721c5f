"""The agreed columns: what a client's data must have, and their comparison at the handshake."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from five_clients import party_of

from configs.config_file import canonical_agreement, read_config
from configs.errors import ConfigError
from configs.horizontal import HorizontalAgreement
from parties.common.errors import DataError
from parties.data.sources.csv_source import CsvData
from parties.data.sources.sklearn_source import SklearnData
from parties.horizontal.local.client_data import read_client_data
from parties.horizontal.registry import SCHEMA
from parties.session.handshake import accept_spokes, join_hub
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol.errors import Aborted, RemoteProtocolError
from protocol.keyring import issue_certificate, make_authority

ROWS = 200
COLUMNS = """columns = [
    { name = "age", range = [0, 100] },
    { name = "ward", vocabulary = ["icu", "er"] },
    { name = "weight", range = [40, 120] },
]"""
AGREEMENT = """
federation = "wards"
mode = "horizontal"
{columns}
labels = {{ classes = ["ill", "well"] }}
model = {{ kind = "mlp", hidden = [4] }}

[parties.registry]
role = "server"
[parties.north]
role = "client"
[parties.south]
role = "client"

[settings.registry]
listen = "127.0.0.1:7719"
[settings.north]
data = {data}
[settings.south]
data = {data}
"""
DATA = '{ kind = "csv", path = "rows.csv", label = "state" }'


def agreement_of(folder: Path, columns: str = COLUMNS, data: str = DATA) -> HorizontalAgreement:
    path = folder / "wards.toml"
    path.write_text(AGREEMENT.format(columns=columns, data=data))
    return read_config(path, SCHEMA).agreement


def write_rows(folder: Path, header: str = "weight,ward,age,state") -> None:
    draw = np.random.default_rng(0)
    cells: dict[str, Callable[[], Any]] = {
        "age": lambda: draw.integers(0, 101),
        "weight": lambda: draw.integers(40, 121),
        "ward": lambda: draw.choice(["icu", "er", "other", ""]),
        "state": lambda: draw.choice(["ill", "well"]),
    }
    names = header.split(",")
    lines = [",".join(str(cells.get(name, lambda: 1)()) for name in names) for _ in range(ROWS)]
    (folder / "rows.csv").write_text("\n".join([header, *lines]) + "\n")


def read(folder: Path, columns: str = COLUMNS, **settings: Any) -> np.ndarray[Any, Any]:
    """Return all rows of the client north as inputs of the network, ``[rows, features]``."""
    data = CsvData(kind="csv", path=Path("rows.csv"), label="state", **settings)
    agreement = agreement_of(folder, columns)
    found = read_client_data(agreement, "north", data, folder, lambda _: None)
    return found.train.inputs.numpy()


def test_shape_is_worked_out_and_numbers_come_before_texts(tmp_path: Path) -> None:
    write_rows(tmp_path)
    agreement = agreement_of(tmp_path)
    assert agreement.shape == (5,)
    rows = read(tmp_path)
    assert rows.shape[1:] == agreement.shape
    assert (rows[:, :2].min(), rows[:, :2].max()) == (-1.0, 1.0)
    assert set(rows[:, 2:].sum(axis=1)) == {0.0, 1.0}, "a text outside the vocabulary is zeros"
    assert {*rows[:, 4]} == {0.0, 1.0}, "the last place is that of an absent text"


def test_order_in_the_file_does_not_matter(tmp_path: Path) -> None:
    write_rows(tmp_path, "weight,ward,age,state")
    first = read(tmp_path)
    lines = [line.split(",") for line in (tmp_path / "rows.csv").read_text().splitlines()]
    other = [",".join(cells[at] for at in (3, 2, 1, 0)) for cells in lines]
    (tmp_path / "rows.csv").write_text("\n".join(other) + "\n")
    assert np.array_equal(read(tmp_path), first)
    listed = read(tmp_path, numeric=("weight", "age"), categorical=("ward",))
    assert np.array_equal(listed, first)


def test_number_outside_its_range_is_beyond_one_as_with_own_ranges(tmp_path: Path) -> None:
    write_rows(tmp_path)
    narrow = COLUMNS.replace("[0, 100]", "[40, 60]")
    agreed = read(tmp_path, narrow)
    assert agreed[:, 0].max() > 4
    own: dict[str, Any] = {"ranges": {"age": (40, 60), "weight": (40, 120)}}
    own["vocabulary"] = {"ward": ("icu", "er")}
    declared = read(
        tmp_path, "shape = [5]", numeric=("age", "weight"), categorical=("ward",), **own
    )
    assert np.array_equal(agreed, declared)


@pytest.mark.parametrize(
    ("header", "settings", "message"),
    [
        ("ward,age,state", {}, "rows.csv of north lacks column 'weight'"),
        ("weight,ward,age,state,pulse", {}, "of north has column 'pulse' as a feature"),
        ("weight,ward,age,state", {"ranges": {"age": (0.0, 9.0)}}, "north set data.ranges for col"),
        ("weight,ward,age,state", {"vocabulary": {"ward": ("er",)}}, "set data.vocabulary for co"),
        ("weight,ward,age,state", {"numeric": ("age",)}, "[data] of north lacks columns 'ward', "),
        (
            "weight,ward,age,state,pulse",
            {"numeric": ("age", "weight", "pulse"), "categorical": ("ward",)},
            "[data] of north has column 'pulse' as a feature",
        ),
        ("weight,ward,age,state", {"categorical": ("age",)}, "north list column 'age' as categor"),
        ("weight,ward,age,state", {"ranks": True}, "remove data.ranks"),
    ],
)
def test_other_columns_are_refused_by_name(
    tmp_path: Path, header: str, settings: dict[str, Any], message: str
) -> None:
    write_rows(tmp_path, header)
    with pytest.raises(DataError) as refused:
        read(tmp_path, **settings)
    assert message in f"{refused.value} {refused.value.hint}"


def test_label_among_the_agreed_columns_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path)
    more = COLUMNS.replace("[\n", '[\n    { name = "state", vocabulary = ["ill"] },\n', 1)
    with pytest.raises(DataError, match="column 'state' is the label of north"):
        read(tmp_path, more)


def test_data_without_the_columns_are_refused(tmp_path: Path) -> None:
    agreement = agreement_of(tmp_path)
    for name, message in (("digits", "has images"), ("breast_cancer", "north lacks columns 'age'")):
        labels = {"digits": tuple("0123456789"), "breast_cancer": ("malignant", "benign")}[name]
        plan = agreement.model_copy(
            update={"labels": agreement.labels.model_copy(update={"classes": labels})}
        )
        data = SklearnData(kind="sklearn", name=name, label=True)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=message):
            read_client_data(plan, "north", data, tmp_path, lambda _: None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("", "'shape' is missing"),
        (f"shape = [4]\n{COLUMNS}", "shape is [4], but the key 'columns' gives [5]"),
        (COLUMNS.replace("weight", "age"), "columns lists 'age' more than once"),
        (COLUMNS.replace("[0, 100]", "[100, 0]"), "range of 'age' must be [low, high]"),
        (COLUMNS.replace('["icu", "er"]', '["er", "er"]'), "vocabulary of 'ward' repeats 'er'"),
        (COLUMNS.replace(", range = [0, 100]", ""), "column 'age' needs the key 'range'"),
    ],
)
def test_wrong_columns_are_refused(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        agreement_of(tmp_path, columns)
    assert message in str(refused.value)


def test_agreement_without_columns_keeps_its_digest(tmp_path: Path) -> None:
    without = agreement_of(tmp_path, "shape = [5]")
    assert '"columns"' not in canonical_agreement(without)
    assert "columns" not in without.architecture
    assert agreement_of(tmp_path, f"shape = [5]\n{COLUMNS}").architecture["columns"]


def lines_moved(columns: str) -> str:
    """The same columns, the first two in the other order."""
    opening, first, second, *rest = columns.splitlines()
    return "\n".join([opening, second, first, *rest])


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (
            lines_moved(COLUMNS),
            "the order of columns from place 1 is ['age', 'ward', 'weight'] at registry and "
            "['ward', 'age', 'weight'] at north",
        ),
        (
            COLUMNS.replace("[0, 100]", "[0, 110]"),
            "columns['age'].range is [0.0, 100.0] at registry and [0.0, 110.0] at north",
        ),
        (
            COLUMNS.replace('"er"', '"ER"'),
            "columns['ward'].vocabulary is ['icu', 'er'] at registry and ['icu', 'ER'] at north",
        ),
    ],
)
def test_handshake_names_the_column_that_differs(tmp_path: Path, theirs: str, message: str) -> None:
    make_authority(tmp_path / "certs", "wards")
    sides = []
    for name, columns in (("registry", COLUMNS), ("north", theirs)):
        issue_certificate(tmp_path / "certs", "wards", name)
        folder = tmp_path / f"{name}-files"
        folder.mkdir()
        write_rows(folder)
        agreement_of(folder, columns)
        options = StartOptions(folder / "runs", None, tmp_path / "certs")
        sides.append(party_of((read_config(folder / "wards.toml", SCHEMA), options), name, []))
    port = MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(accept_spokes, sides[0], port, 10.0)
        with pytest.raises(Aborted):
            join_hub(sides[1], partial(port.connect, "north"))
        refusal = server.exception(10.0)
    assert isinstance(refusal, RemoteProtocolError)
    assert f"the agreements differ: {message}" in str(refusal)
