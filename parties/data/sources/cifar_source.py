"""CIFAR source: batches of CIFAR-10 and CIFAR-100 in their binary and in their pickled form.

Binary: one record after the other, the label in one byte (CIFAR-100: the coarse, then the fine
label) and 3,072 pixels in planes of red, green and blue, each 32 rows of 32. Pickled: the same
pixels as one array, and the labels as a list; ``cifar_pickle`` takes it apart without running it.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from configs.party_settings import CifarData
from parties.common.errors import DataError
from parties.data.sources.cifar_pickle import is_pickle, read_pickle
from parties.data.sources.files import read_file_bytes
from parties.data.sources.records import (
    Array,
    Records,
    check_class_indices,
    crop_images,
    join_records,
    row_ids,
)

WHITE, SIDE, PIXELS = 255, 32, 3 * 32 * 32
_LABELS = {"cifar10": 1, "cifar100": 2}  # bytes before the pixels; the last is the label
_KEYS = {"cifar10": "labels", "cifar100": "fine_labels"}


def read_cifar(data: CifarData, folder: Path, classes: Sequence[str]) -> Records:
    """The records, with IDs like ``data_batch_1:17``: name of the batch, row counted from 0.

    A batch has one name in both forms, so parties may hold different ones.

    Raises:
        DataError: the files cannot be used as the party settings say.
    """
    if data.id != "row":
        raise DataError("CIFAR's batches have no ID columns", "rows are named with id = 'row'")
    if not (data.features or data.label):
        raise DataError(
            "the party settings take neither images nor labels", "set features or label"
        )
    paths = [*data.train, *([] if data.test is None else [data.test])]
    if len({path.stem for path in paths}) < len(paths):
        raise DataError("two batches bear one name, so their rows would have the same IDs")
    return join_records([_records(data, folder, path, classes) for path in paths], len(data.train))


def _records(data: CifarData, folder: Path, path: Path, classes: Sequence[str]) -> Records:
    content = read_file_bytes(folder, path, data.origin)
    read = _unpickled if is_pickle(content) else _binary
    pixels, labels = read(data.name, path.name, content)
    images = pixels.reshape(-1, 3, SIDE, SIDE)
    return Records(
        files=((path.name, len(labels)),),
        unit="row",
        numbers=np.arange(len(labels)),
        ids=row_ids(path.stem, np.arange(len(labels))),
        images=crop_images(images, data.part, WHITE, path.name) if data.features else None,
        labels=check_class_indices(labels, len(classes)) if data.label else None,
    )


def _binary(name: str, file: str, content: bytes) -> tuple[Array, Array]:
    """Pixels [rows, 3072] and labels [rows]."""
    before = _LABELS[name]
    rows, rest = divmod(len(content), before + PIXELS)
    if rest or not rows:
        raise DataError(
            f"{file} has {len(content)} bytes, no whole number of {name} records",
            f"each has {before + PIXELS} bytes; is it cut off, or of the other CIFAR?",
        )
    records = np.frombuffer(content, np.uint8).reshape(rows, -1)
    return records[:, before:], records[:, before - 1]


def _unpickled(name: str, file: str, content: bytes) -> tuple[Array, Array]:
    """Pixels [rows, 3072] and labels [rows]."""
    key = _KEYS[name]
    batch = read_pickle(file, content)
    pixels, labels = batch.get("data"), batch.get(key)
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        raise DataError(f"{file} has no 'data' or no {key!r}", f"is it a batch of {name}?")
    if pixels.shape != (len(labels), PIXELS) or not labels:
        raise DataError(
            f"{file} has {len(labels)} labels and pixels {list(pixels.shape)}",
            f"pixels are [rows, {PIXELS}]",
        )
    if any(type(label) is not int or not 0 <= label < WHITE for label in labels):
        raise DataError(f"{file} has labels that are no class numbers")
    return pixels, np.array(labels, np.int64)
