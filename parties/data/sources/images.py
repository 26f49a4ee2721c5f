"""Image sources: the settings that they share, checks, and the records of one file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from configs.table import ConfigTable, Fraction
from parties.common.errors import DataError
from parties.data.sources.arrays import Array, Images
from parties.data.sources.records import Records, check_class_indices, join_records, row_ids
from parties.data.sources.source import DataSettings

WHITE = 255  # largest value of a pixel


class ImagePart(ConfigTable):
    """The rectangle of each image that this party holds."""

    rows: tuple[int, int] | None = None  # first row, and the row after the last; absent: all
    # First column, and the column after the last; absent: all.
    columns: tuple[int, int] | None = None

    @field_validator("rows", "columns")
    @classmethod
    def _is_ordered(cls, span: tuple[int, int] | None) -> tuple[int, int] | None:
        if span is not None and not 0 <= span[0] < span[1]:
            raise ValueError("the value must be [first, end] with 0 <= first < end")
        return span


class FeatureNoise(ConfigTable):
    """Gaussian noise on this party's pixels, so that the parties' images differ in quality."""

    sigma: Fraction  # standard deviation, for pixels from 0 to 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class ImageSettings(DataSettings):
    """Keys that all image data sets have."""

    part: ImagePart = ImagePart()
    noise: FeatureNoise | None = None


class LabelledImageSettings(ImageSettings):
    """Keys of image data sets that have images and labels in the same files."""

    features: bool = True  # whether the party has the images
    label: bool = False  # whether the party has the labels


def require_row_ids(data: DataSettings, source: str) -> None:
    """Check that an ID is a row; ``source`` begins the message, such as ``idx files have``.

    Raises:
        DataError: the party settings name ID columns.
    """
    if data.id != "row":
        raise DataError(f"{source} no ID columns", "set id = 'row'")


def check_selection(data: LabelledImageSettings, source: str) -> None:
    """Check that an ID is a row, and that the party has images or labels.

    Raises:
        DataError: the party settings name ID columns, or select neither images nor labels.
    """
    require_row_ids(data, source)
    if not (data.features or data.label):
        raise DataError(
            "the party settings select neither images nor labels",
            "set data.features or data.label to true",
        )


def read_image_files(
    train: Sequence[Path], test: Path | None, unit: str, read: Callable[[Path], Records]
) -> Records:
    """Read the training files and the test file with ``read``; a message calls a file ``unit``.

    Raises:
        DataError: two files have the same name.
    """
    paths = [*train, *([] if test is None else [test])]
    if len({path.stem for path in paths}) < len(paths):
        raise DataError(f"two {unit} have the same name, so their rows would have the same IDs")
    return join_records([read(path) for path in paths], len(train))


def image_records(
    data: ImageSettings,
    names: tuple[str, str],
    pixels: Array | None,
    labels: Array | None,
    classes: Sequence[str],
) -> Records:
    """Return the records of one file of images.

    Args:
        data: the part of each image that the party holds.
        names: the file in error messages, and the text before the row number in IDs.
        pixels: ``[rows, channels, h, w]`` from 0 to ``WHITE``; None without images.
        labels: class indices, ``[rows]``; None without labels. At least one of the two arrays is
            given, and both have equally many rows.
        classes: names of all classes.

    Raises:
        DataError: the party's part is not inside the images.
    """
    file, prefix = names
    size = max(len(array) for array in (pixels, labels) if array is not None)
    numbers = np.arange(size)
    return Records(
        files=((file, size),),
        unit="row",
        numbers=numbers,
        ids=row_ids(prefix, numbers),
        images=None if pixels is None else crop_images(pixels, data.part, WHITE, file),
        labels=None if labels is None else check_class_indices(labels, len(classes)),
    )


def crop_images(images: Array, part: ImagePart, scale: int, file: str) -> Images:
    """Cut the party's rectangle out of each image, and divide its pixels by ``scale``.

    ``images`` and the result have shape ``[rows, channels, h, w]``.

    Raises:
        DataError: the rectangle is not inside the images.
    """
    rows, columns = crop_slices(images.shape[-2], images.shape[-1], part, file)
    return np.divide(images[..., rows, columns], scale, dtype=np.float32)


def crop_slices(height: int, width: int, part: ImagePart, file: str) -> tuple[slice, slice]:
    """Return the party's rectangle as a slice of pixel rows and a slice of pixel columns.

    Raises:
        DataError: the rectangle is not inside the images.
    """
    rows, columns = part.rows or (0, height), part.columns or (0, width)
    if rows[1] > height or columns[1] > width:
        raise DataError(
            f"data.part (rows {list(rows)}, columns {list(columns)}) is outside the images of "
            f"{file}",
            f"the images have {height} rows and {width} columns",
        )
    return slice(*rows), slice(*columns)
