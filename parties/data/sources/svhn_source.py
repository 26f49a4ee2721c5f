"""SVHN source: cropped digits in the original MATLAB files, such as ``train_32x32.mat``.

A file has uint8 images X ``[32, 32, 3, rows]`` and labels y ``[rows, 1]``. Label 10 means digit 0.
"""

import zlib
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from configs.table import PathText
from parties.common.errors import DataError, ResourceError
from parties.data.sources.arrays import Array
from parties.data.sources.files import read_file_bytes
from parties.data.sources.images import (
    LabelledImageSettings,
    check_selection,
    image_records,
    read_image_files,
)
from parties.data.sources.records import Records
from parties.data.sources.source import ReadOptions

SIDE, ZERO = 32, 10
MOST = 2 << 30  # largest size of the images of one file, in bytes
_BROKEN = (ValueError, TypeError, KeyError, OSError, zlib.error, NotImplementedError)


class SvhnData(LabelledImageSettings):
    """Cropped digits of SVHN in their MATLAB files."""

    kind: Literal["svhn"]
    train: Annotated[tuple[PathText, ...], Field(min_length=1)]  # files with the training rows
    test: PathText | None = None  # file with the official test rows

    def read(self, options: ReadOptions) -> Records:
        """Read the records; an ID is file name and row (from 0), such as ``train_32x32:17``.

        Raises:
            DataError: the files do not match the party settings.
            ResourceError: a file declares more than 2 GiB of images.
        """
        check_selection(self, "SVHN's files have")
        return read_image_files(
            self.train, self.test, "files", lambda path: _records(self, path, options)
        )


def _records(data: SvhnData, path: Path, options: ReadOptions) -> Records:
    images, labels = _arrays(path.name, read_file_bytes(options.folder, path, data.origin))
    pixels = np.transpose(images, (3, 2, 0, 1))  # rows, colours, height, width
    digits = np.where(labels == ZERO, 0, labels).astype(np.int64)
    held = pixels if data.features else None, digits if data.label else None
    return image_records(data, (path.name, path.stem), *held, options.classes)


def _arrays(file: str, content: bytes) -> tuple[Array, Array]:
    """Return images ``[32, 32, 3, rows]`` and labels ``[rows]``; sizes are checked first."""
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import MatReadError

    hint = (
        "choose cropped digits of SVHN, format 2: train_32x32.mat, test_32x32.mat, extra_32x32.mat"
    )
    try:
        shapes = {name: tuple(shape) for name, shape, _ in whosmat(BytesIO(content))}
        x, y = shapes.get("X", ()), shapes.get("y", ())
        rows = x[3] if len(x) == 4 else 0
        if x[:3] != (SIDE, SIDE, 3) or not rows or y != (rows, 1):
            raise DataError(
                f"{file} has an array X of shape {list(x)} and an array y of shape {list(y)}; "
                f"expected [{SIDE}, {SIDE}, 3, rows] for X and [rows, 1] for y",
                hint,
            )
        if SIDE * SIDE * 3 * rows > MOST:
            raise ResourceError(f"{file} declares {rows} images, which is more than 2 GiB")
        arrays = loadmat(BytesIO(content), variable_names=["X", "y"])
    except (MatReadError, *_BROKEN) as error:
        raise DataError(f"{file} is not a MATLAB file of images", hint) from error
    images, labels = arrays["X"], arrays["y"]
    if images.dtype != np.uint8 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{file} has an array X of type {images.dtype} and an array y of type {labels.dtype}; "
            "expected uint8 for X and integers for y",
            hint,
        )
    return images, labels.reshape(-1)
