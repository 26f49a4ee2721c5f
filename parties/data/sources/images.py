"""Steps that the image sources share: checks of the party settings, and the records of a file."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from configs.party_settings import (
    CifarData,
    DataSettings,
    ImageSettings,
    MedMnistData,
    SvhnData,
    TinyImageNetData,
)
from parties.common.errors import DataError
from parties.data.sources.arrays import Array
from parties.data.sources.records import (
    Records,
    check_class_indices,
    crop_images,
    join_records,
    row_ids,
)

WHITE = 255  # largest value of a pixel


def require_row_ids(data: DataSettings, source: str) -> None:
    """Check that an ID is a row; ``source`` begins the message, such as ``idx files have``.

    Raises:
        DataError: the party settings name ID columns.
    """
    if data.id != "row":
        raise DataError(f"{source} no ID columns", "set id = 'row'")


def check_selection(
    data: CifarData | SvhnData | MedMnistData | TinyImageNetData, source: str
) -> None:
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
    data: CifarData | SvhnData, unit: str, read: Callable[[Path], Records]
) -> Records:
    """Read the training files and the test file with ``read``; a message calls a file ``unit``.

    Raises:
        DataError: two files have the same name.
    """
    paths = [*data.train, *([] if data.test is None else [data.test])]
    if len({path.stem for path in paths}) < len(paths):
        raise DataError(f"two {unit} have the same name, so their rows would have the same IDs")
    return join_records([read(path) for path in paths], len(data.train))


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
