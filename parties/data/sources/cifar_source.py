"""CIFAR source: batches of CIFAR-10 and CIFAR-100 in binary or pickled form.

Binary: a sequence of records. Each record has one byte for the label (CIFAR-100: two bytes, the
coarse and the fine label) and 3,072 pixel values: a red, a green and a blue plane of 32 x 32 each.
Pickled: the same pixels as one array, and the labels as a list; ``cifar_pickle`` reads the pickle
without executing any of its code.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from configs.table import PathText
from parties.common.errors import DataError
from parties.data.sources.arrays import Array
from parties.data.sources.cifar_pickle import is_pickle, read_pickle
from parties.data.sources.files import read_file_bytes
from parties.data.sources.images import (
    WHITE,
    LabelledImageSettings,
    check_selection,
    image_records,
    read_image_files,
)
from parties.data.sources.records import Records
from parties.data.sources.source import ReadOptions

SIDE, PIXELS = 32, 3 * 32 * 32
_LABELS = {"cifar10": 1, "cifar100": 2}  # bytes before the pixels; the last is the label
_KEYS = {"cifar10": "labels", "cifar100": "fine_labels"}


class CifarData(LabelledImageSettings):
    """CIFAR batches, binary or pickled; pickles are parsed and never executed."""

    kind: Literal["cifar"]
    name: Literal["cifar10", "cifar100"]  # data set; for cifar100 the fine labels are used
    train: Annotated[tuple[PathText, ...], Field(min_length=1)]  # files with the training rows
    test: PathText | None = None  # file with the official test rows

    def read(self, options: ReadOptions) -> Records:
        """Read the records; an ID is batch name and row (from 0), such as ``data_batch_1:17``.

        A batch has the same name in both forms, so one party may use the binary form and another
        the pickled form.

        Raises:
            DataError: the files do not match the party settings.
        """
        check_selection(self, "CIFAR's batches have")
        return read_image_files(
            self.train, self.test, "batches", lambda path: _records(self, path, options)
        )


def _records(data: CifarData, path: Path, options: ReadOptions) -> Records:
    content = read_file_bytes(options.folder, path, data.origin)
    read = _read_pickled if is_pickle(content) else _read_binary
    pixels, labels = read(data.name, path.name, content)
    images = pixels.reshape(-1, 3, SIDE, SIDE)
    held = images if data.features else None, labels if data.label else None
    return image_records(data, (path.name, path.stem), *held, options.classes)


def _read_binary(name: str, file: str, content: bytes) -> tuple[Array, Array]:
    """Return pixels ``[rows, 3072]`` and labels ``[rows]`` of a batch."""
    before = _LABELS[name]
    rows, rest = divmod(len(content), before + PIXELS)
    if rest or not rows:
        raise DataError(
            f"{file} has {len(content)} bytes; expected {name} records of {before + PIXELS} bytes",
            "the file is truncated, or is a batch of the other CIFAR data set",
        )
    records = np.frombuffer(content, np.uint8).reshape(rows, -1)
    return records[:, before:], records[:, before - 1]


def _read_pickled(name: str, file: str, content: bytes) -> tuple[Array, Array]:
    """Return pixels ``[rows, 3072]`` and labels ``[rows]`` of a batch."""
    key = _KEYS[name]
    batch = read_pickle(file, content)
    pixels, labels = batch.get("data"), batch.get(key)
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        raise DataError(
            f"{file} has no array 'data' or no list {key!r}", f"choose a batch of {name}"
        )
    if pixels.shape != (len(labels), PIXELS) or not labels:
        raise DataError(
            f"{file} has unusable labels or pixels: {len(labels)} labels, and pixels of shape "
            f"{list(pixels.shape)}",
            f"expected pixels of shape [rows, {PIXELS}] and one label per row",
        )
    if any(type(label) is not int or not 0 <= label < WHITE for label in labels):
        raise DataError(f"{file} has labels that are not integers from 0 to {WHITE - 1}")
    return pixels, np.array(labels, np.int64)
