"""MedMNIST source: images and labels as plain arrays in one .npz archive.

Each part (train, val, test) has images and labels. ``<part>_images`` are unsigned bytes of shape
[rows, h, w] or [rows, h, w, 3]. ``<part>_labels`` are integers of shape [rows, 1] or [rows].
"""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field, field_validator

from configs.table import PathText
from parties.common.errors import DataError
from parties.data.sources.arrays import Array
from parties.data.sources.files import read_file_bytes
from parties.data.sources.images import LabelledImageSettings, check_selection, image_records
from parties.data.sources.npz_source import read_npz_arrays
from parties.data.sources.records import Records, join_records
from parties.data.sources.source import ReadOptions

Part: TypeAlias = tuple[str, Array | None, Array | None]  # name, images, labels


class MedMnistData(LabelledImageSettings):
    """Images and labels in one .npz archive, by default with the array names of MedMNIST."""

    kind: Literal["medmnist"]
    path: PathText
    # Parts of the archive whose rows are not test rows.
    train: Annotated[tuple[str, ...], Field(min_length=1)] = ("train", "val")
    test: str | None = "test"  # part of the archive with the official test rows
    # Names of the arrays with the images and the labels; {} stands for the part.
    names: tuple[str, str] = ("{}_images", "{}_labels")

    @field_validator("names")
    @classmethod
    def _have_a_placeholder(cls, names: tuple[str, str]) -> tuple[str, str]:
        if any(name.count("{}") != 1 for name in names):
            raise ValueError(
                "each entry of the key 'names' must contain {} exactly once; {} stands for a part "
                "of the archive, such as train"
            )
        return names

    def read(self, options: ReadOptions) -> Records:
        """Read the records; an ID is part and row (from 0), such as ``train:17`` or ``val:17``.

        A label is the index of its class.

        Raises:
            DataError: the archive does not match the party settings.
        """
        check_selection(self, "image archives have")
        parts = [*self.train, *([] if self.test is None else [self.test])]
        if len(set(parts)) < len(parts):
            raise DataError(
                "data.train and data.test name the same part of the archive more than once",
                "name each part only once",
            )
        content = read_file_bytes(options.folder, self.path, self.origin)
        arrays = [_part(self, content, name) for name in parts]
        return join_records([_records(self, part, options) for part in arrays], len(self.train))


def _part(data: MedMnistData, content: bytes, name: str) -> Part:
    images, labels = (pattern.format(name) for pattern in data.names)
    wanted = {*([images] if data.features else []), *([labels] if data.label else [])}
    arrays = read_npz_arrays(data.path.name, content, wanted)
    return name, arrays.get(images), arrays.get(labels)


def _records(data: MedMnistData, part: Part, options: ReadOptions) -> Records:
    name, images, labels = part
    file = f"part {name!r} of {data.path.name}"
    pixels = None if images is None else _channels_first(file, images)
    indices = None if labels is None else _flat(file, labels)
    sizes = {len(array) for array in (pixels, indices) if array is not None}
    if len(sizes) > 1 or 0 in sizes:
        raise DataError(
            f"the images and labels of {file} have no rows or different numbers of rows: "
            f"{' and '.join(map(str, sorted(sizes)))}",
            "expected one label per image, and at least one row",
        )
    return image_records(data, (file, name), pixels, indices, options.classes)


def _channels_first(file: str, images: Array) -> Array:
    """Return images ``[rows, h, w]`` or ``[rows, h, w, 3]`` as ``[rows, 1 or 3, h, w]``."""
    grey, colour = images.ndim == 3, images.ndim == 4 and images.shape[3] == 3
    if images.dtype != np.uint8 or not (grey or colour) or not images.size:
        raise DataError(
            f"the images of {file} cannot be used: they have type {images.dtype} and shape "
            f"{list(images.shape)}",
            "expected uint8 of shape [rows, height, width] or [rows, height, width, 3]",
        )
    return images[:, None] if grey else np.moveaxis(images, 3, 1)


def _flat(file: str, labels: Array) -> Array:
    """Return labels ``[rows, 1]`` or ``[rows]`` as ``[rows]``."""
    column = labels.ndim == 2 and labels.shape[1] == 1
    if labels.dtype.kind not in "iu" or not (labels.ndim == 1 or column):
        raise DataError(
            f"the labels of {file} cannot be used: they have type {labels.dtype} and shape "
            f"{list(labels.shape)}",
            "expected integers of shape [rows] or [rows, 1]: one class per row",
        )
    return labels.reshape(-1)
