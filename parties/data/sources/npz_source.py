"""NumPy source: plain arrays of an .npz archive; pickled objects are refused."""

import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np

from configs.table import PathText
from parties.common.errors import DataError
from parties.data.sources.arrays import Array
from parties.data.sources.files import read_file_bytes, refuse_large_unpacked_size
from parties.data.sources.records import (
    Records,
    class_indices,
    describe_rows,
    join_records,
    normalise_ids,
    row_ids,
)
from parties.data.sources.source import DataSettings, IdColumns, ReadOptions, data_paths
from parties.data.sources.table import Table, numeric_table


class NumpyData(DataSettings):
    """An .npz archive with an array of features, `[rows, width]`, and arrays of IDs and labels."""

    kind: Literal["numpy"]
    path: PathText
    test_path: PathText | None = None
    features: str | None = "features"  # array with the features
    label: str | None = None  # array with the labels; only for the active party and for clients

    def read(self, options: ReadOptions) -> Records:
        """Read the records of the archive, and of the test archive if there is one.

        Raises:
            DataError: the archives do not match the party settings.
        """
        paths = data_paths(self.path, self.test_path, self.id)
        return join_records([_records(self, path, options) for path in paths])


def _records(data: NumpyData, path: Path, options: ReadOptions) -> Records:
    file, content = path.name, read_file_bytes(options.folder, path, data.origin)
    columns = data.id.columns if isinstance(data.id, IdColumns) else ()
    arrays = read_npz_arrays(file, content, {*columns, *filter(None, (data.features, data.label))})
    parts = [_texts(file, column, arrays[column]) for column in columns]
    numbers = np.arange(_rows(file, arrays))
    ids, empty = normalise_ids(parts) if parts else (row_ids(file, numbers), [])
    if empty:
        raise DataError(
            f"found no ID in {describe_rows(file, 'row', empty)}",
            "give each row an ID, or remove the row",
        )
    labels = None if data.label is None else _texts(file, data.label, arrays[data.label])
    return Records(
        files=((file, len(numbers)),),
        unit="row",
        numbers=numbers,
        ids=ids,
        table=None if data.features is None else _table(file, data.features, arrays[data.features]),
        labels=None if labels is None else class_indices(labels, options.classes),
    )


def read_npz_arrays(file: str, content: bytes, wanted: set[str]) -> dict[str, Array]:
    """Return the ``wanted`` arrays of an archive by name, each ``[...]`` of any shape.

    Before an array is read, the unpacked size of the archive is checked.

    Raises:
        DataError: the file is not an archive of plain arrays, is too large, or lacks an array.
    """
    try:
        with zipfile.ZipFile(BytesIO(content)) as members:
            size = sum(member.file_size for member in members.infolist())
        refuse_large_unpacked_size(file, len(content), size)
        with np.load(BytesIO(content), allow_pickle=False) as archive:
            for name in wanted - set(archive.files):
                raise DataError(
                    f"{file} has no array {name!r}", f"the archive has {', '.join(archive.files)}"
                )
            return {name: archive[name] for name in sorted(wanted)}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{file} is not an archive of plain arrays",
            "write the file with numpy.savez, from arrays of numbers or text without objects",
        ) from error


def _rows(file: str, arrays: dict[str, Array]) -> int:
    """Return the common number of rows of all arrays; IDs and labels are ``[rows]`` already."""
    sizes = {name: array.shape[:1] for name, array in arrays.items()}
    if len(set(sizes.values())) != 1 or set(sizes.values()) & {(), (0,)}:
        listed = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise DataError(
            f"the arrays of {file} differ in length, or are empty: {listed or 'none named'}",
            "expected one row per record in every array",
        )
    return len(next(iter(arrays.values())))


def _texts(file: str, name: str, array: Array) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise DataError(
            f"array {name!r} of {file} cannot be used: it has type {array.dtype} and shape "
            f"{list(array.shape)}",
            "IDs and labels must be text or integers of shape [rows]",
        )
    return [str(value).strip() for value in array.tolist()]


def _table(file: str, name: str, array: Array) -> Table:
    if array.ndim != 2 or array.dtype.kind not in "fiub" or not array.shape[1]:
        raise DataError(
            f"array {name!r} of {file} cannot be used: it has type {array.dtype} and shape "
            f"{list(array.shape)}",
            "features must be numbers of shape [rows, columns]",
        )
    rows = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(rows):
        raise DataError(
            f"array {name!r} has NaN or infinity in {describe_rows(file, 'row', rows)}",
            "fill or remove these values; only csv, parquet and sql support absent values",
        )
    return numeric_table(tuple(f"x{at}" for at in range(array.shape[1])), array)
