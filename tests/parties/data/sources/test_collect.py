"""Tests of the collection of tables: compact columns, limits, changed files, and digests."""

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parties.common.errors import DataError, IntegrityError, PartyError, ResourceError, exit_code
from parties.data.data_frame import data_frame
from parties.data.holding import Holding, read_holding
from parties.data.preprocess import fit_preprocessing
from parties.data.sources import collect
from parties.data.sources.csv_source import CsvData, open_csv
from parties.data.sources.records import Records
from parties.data.sources.source import IdColumns, ReadOptions
from parties.data.sources.store import ArrayStore, IdStore, duplicate_ids

CLASSES = ("no", "yes")


def csv(folder: Path, text: str, **options: Any) -> CsvData:
    (folder / "rows.csv").write_text(text)
    given = {"id": IdColumns(columns=("id",)), "label": "y", **options}
    return CsvData(kind="csv", path=Path("rows.csv"), **given)


def rows(count: int) -> str:
    lines = (f"p{row},{row}.5,town{row % 7},{CLASSES[row % 2]}" for row in range(count))
    return "\n".join(["id,x,town,y", *lines])


def held(folder: Path, data: CsvData, **options: Any) -> Holding:
    return read_holding(data, folder=folder, classes=CLASSES, active=True, **options)


def read(folder: Path, data: CsvData, memory: int) -> Records:
    return collect.collect_records(
        data, [open_csv(data, folder, data.path)], ReadOptions(folder, CLASSES), memory
    )


def unnamed(folder: Path) -> list[str]:
    """Files of a folder that this process has open and that nobody else can open."""
    opened = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    links = [str(each.readlink()) for each in opened]
    return [link for link in links if link.startswith(str(folder)) and link.endswith("(deleted)")]


# Columns


@pytest.mark.parametrize("memory", [0, 100, 1 << 20])
def test_columns_beyond_the_memory_limit_are_stored_in_files_and_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    data = csv(tmp_path, rows(2000), categorical=("town",))
    whole = data.read(ReadOptions(tmp_path, CLASSES))
    monkeypatch.setattr("parties.data.sources.csv_source._BLOCK", 1000)
    records = read(tmp_path, data, memory)
    assert records.table is not None
    assert whole.table is not None
    assert isinstance(records.table.numbers, np.memmap) == (memory < 2000)
    assert data_frame(records.table).equals(data_frame(whole.table))
    assert list(records.ids) == list(whole.ids)
    assert (records.labels == whole.labels).all()  # type: ignore[union-attr,attr-defined]
    assert records.digest == whole.digest


def test_columns_in_files_are_fitted_and_transformed_as_in_memory(tmp_path: Path) -> None:
    data = csv(tmp_path, rows(200), categorical=("town",))
    chosen, results = np.array([5, 190, 7]), []
    for memory in (0, 1 << 20):
        records = read(tmp_path, data, memory)
        holding = Holding(ids=records.ids, in_test=records.in_test(), table=records.table)
        results.append(fit_preprocessing(holding, np.arange(100)).transform(holding, chosen))
    np.testing.assert_array_equal(*results)


def test_column_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(waiting))
    records = read(tmp_path, csv(tmp_path, rows(100), categorical=("town",)), 0)
    assert list(waiting.iterdir()) == []  # while it is in use
    assert unnamed(waiting)
    del records
    gc.collect()
    assert not unnamed(waiting)


def test_full_temporary_folder_is_refused() -> None:
    store = ArrayStore(np.float64, memory=0)
    store._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
    with store._file, pytest.raises(PartyError, match="No space left on device") as caught:
        store.append(np.ones(10))
    assert exit_code(caught.value) == 7


def test_ids_are_a_sequence_of_bytes() -> None:
    parts = [b"a", b"", b"ccc", b"dd"]
    store = IdStore()
    store.append(parts[:1])
    store.append(parts[1:])
    ids = store.ids()
    assert (list(ids), len(ids), ids[2], ids[-1]) == (parts, 4, b"ccc", b"dd")
    assert (ids[1:3], ids.index(b"dd"), b"ccc" in ids, b"x" in ids) == (parts[1:3], 3, True, False)
    with pytest.raises(IndexError):
        ids[4]


def test_duplicates_are_pairs_of_the_first_and_each_later_row() -> None:
    assert duplicate_ids([b"a", b"b", b"a", b"c", b"b", b"a"]) == [(0, 2), (1, 4), (0, 5)]
    assert duplicate_ids([b"a", b"b"]) == duplicate_ids([]) == []


def test_equal_hashes_of_different_ids_are_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parties.data.sources.store.hash", lambda identity: 7, raising=False)
    assert duplicate_ids([b"a", b"b", b"a"]) == [(0, 2)]


def test_first_row_of_each_id_is_kept_when_the_settings_say_so(tmp_path: Path) -> None:
    text = "id,x,y\na,1,no\nb,2,yes\na ,3,yes\nc,4,no\n"
    holding = held(tmp_path, csv(tmp_path, text, dedupe="first"))
    assert list(holding.ids) == [b"a", b"b", b"c"]
    assert holding.table is not None
    assert data_frame(holding.table)["x"].tolist() == [1, 2, 4]
    assert holding.labels is not None
    assert holding.labels.tolist() == [0, 1, 0]


# Text, block by block


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_blocks_do_not_split_lines_or_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str
) -> None:
    lines = ["id,x,town,y", 'ä,1,"€ ""x"", y",no', "", "# 1", "😀,2,Kiel ,yes", "c,3,,no"]
    content = ("\ufeff" + end.join(lines)).encode()
    data = csv(tmp_path, "", categorical=("town",), comment="#")
    (tmp_path / "rows.csv").write_bytes(content)
    whole = data.read(ReadOptions(tmp_path, CLASSES))
    monkeypatch.setattr("parties.data.sources.csv_source._BLOCK", block)
    records = data.read(ReadOptions(tmp_path, CLASSES))
    assert records.numbers.tolist() == [2, 5, 6]
    assert list(records.ids) == ["ä".encode(), "😀".encode(), b"c"]
    assert records.table is not None
    assert data_frame(records.table)["town"].tolist() == ['€ "x", y', "Kiel", None]
    assert records.digest == whole.digest


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("block", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("bad", "named"), [(b"\xff", "not UTF-8"), (b"\0", "a zero byte"), (b'"', "quoted field")]
)
def test_text_errors_have_the_right_line_for_every_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: bytes, bad: bytes, named: str
) -> None:
    monkeypatch.setattr("parties.data.sources.csv_source._BLOCK", block)
    data = csv(tmp_path, "")
    (tmp_path / "rows.csv").write_bytes(end.join([b"id,x,y", b"a,1,no", b"", bad, b"c,1,no"]))
    with pytest.raises(DataError, match=f"rows.csv: line 4.*{named}"):
        data.read(ReadOptions(tmp_path, CLASSES))


def test_errors_are_counted_over_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.data.sources.csv_source._BLOCK", 50)
    text = "id,x,y\n" + "".join(f"p{row},SECRET,no\n" for row in range(100))
    with pytest.raises(DataError) as caught:
        held(tmp_path, csv(tmp_path, text))
    error = str(caught.value)
    assert error == "text in numeric column 'x': 100 lines of rows.csv (2, 3, 4, 5, 6, ...)"


# Limits


def test_more_rows_than_the_settings_allow_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="more rows than max_rows = 2"):
        held(tmp_path, csv(tmp_path, rows(3), numeric=("x",), max_rows=2))
    assert len(held(tmp_path, csv(tmp_path, rows(3), numeric=("x",), max_rows=3))) == 3


def test_more_columns_than_the_settings_allow_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="has 4 columns, more than max_columns = 3") as caught:
        held(tmp_path, csv(tmp_path, rows(3), numeric=("x",), max_columns=3))
    assert exit_code(caught.value) == 7


def test_too_many_distinct_texts_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MAX_TEXTS", 5)
    with pytest.raises(ResourceError, match="column 'town' has more than 5 different texts"):
        held(tmp_path, csv(tmp_path, rows(10), categorical=("town",)))


def test_progress_counts_rows(tmp_path: Path) -> None:
    counts: list[int] = []
    held(tmp_path, csv(tmp_path, rows(50), categorical=("town",)), progress=counts.append)
    assert sum(counts) == 50


# Changes


def test_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    data = csv(tmp_path, rows(50), categorical=("town",))

    def write(count: int) -> None:
        with (tmp_path / "rows.csv").open("a") as file:
            file.write("late,1,x,no\n")

    def replace(count: int) -> None:
        (tmp_path / "new.csv").write_text((tmp_path / "rows.csv").read_text())
        (tmp_path / "new.csv").replace(tmp_path / "rows.csv")

    def remove(count: int) -> None:
        (tmp_path / "rows.csv").unlink()

    for change in (write, replace, remove):
        with pytest.raises(IntegrityError, match=r"rows\.csv changed while it was read") as caught:
            held(tmp_path, data, progress=change)
        assert exit_code(caught.value) == 9


def test_digest_covers_the_bytes_that_were_read(tmp_path: Path) -> None:
    before = held(tmp_path, csv(tmp_path, rows(50), categorical=("town",))).digest
    assert held(tmp_path, csv(tmp_path, rows(50) + "\n", categorical=("town",))).digest == before
    for old, new in (("p7,", "p70,"), (",7.5", ",7.6"), ("town3", "town4"), ("yes", "no")):
        text = rows(50).replace(old, new, 1)
        assert held(tmp_path, csv(tmp_path, text, categorical=("town",))).digest != before
    swapped = rows(50).replace("town0", "-").replace("town1", "town0").replace("-", "town1")
    assert held(tmp_path, csv(tmp_path, swapped, categorical=("town",))).digest != before


def test_digest_of_arrays_covers_the_bytes_that_were_read_and_the_sample(tmp_path: Path) -> None:
    from parties.data.sources.npz_source import NumpyData  # noqa: PLC0415
    from parties.data.sources.source import SampleSettings  # noqa: PLC0415

    features = np.arange(6.0).reshape(3, 2)
    digests = []
    for change, seed in ((0, None), (1, None), (0, None), (0, 1), (0, 1), (0, 3)):
        features[0, 0] = change
        np.savez(tmp_path / "a.npz", features=features)
        sample = None if seed is None else SampleSettings(fraction=0.9, seed=seed)
        data = NumpyData(kind="numpy", path=Path("a.npz"), sample=sample)
        digests.append(read_holding(data, folder=tmp_path, classes=(), active=False).digest)
    whole, changed, again, one, same, other = digests
    assert whole == again
    assert one == same
    assert len({whole, changed, one, other}) == 4


def test_a_text_of_missing_is_no_id_but_a_number_is_one(tmp_path: Path) -> None:
    text = "id,x,y\n999,999,yes\n1,2,no\n"
    holding = held(tmp_path, csv(tmp_path, text, missing=("999",)))
    assert [*holding.ids] == [b"999", b"1"]
    for mark in ("NA", "NaN", "inf"):
        data = csv(tmp_path, text.replace("999,", f"{mark},", 1), missing=(mark,))
        with pytest.raises(DataError, match=r"found no ID in .* also where it is a text of the"):
            held(tmp_path, data)


# Places


def test_links_and_dots_that_leave_the_data_folder_are_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    data = csv(tmp_path, rows(5), categorical=("town",))
    (inner / "link.csv").symlink_to(tmp_path / "rows.csv")
    (inner / "own.csv").write_text(rows(5))
    (inner / "good.csv").symlink_to("own.csv")
    for path in ("link.csv", "../rows.csv"):
        with pytest.raises(DataError, match="is outside the data folder"):
            held(inner, data.model_copy(update={"path": Path(path)}))
    for path in ("good.csv", str(tmp_path / "rows.csv")):
        assert len(held(inner, data.model_copy(update={"path": Path(path)}))) == 5
