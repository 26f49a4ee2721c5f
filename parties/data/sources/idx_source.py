"""Idx source: images and labels in the format of MNIST, plain or gzip.

An idx file is big-endian: a magic number (0x0803 for images, 0x0801 for labels), the size of each
dimension in 32 bits, then one byte per pixel or label. The size of the file must match its header
exactly.
"""

import gzip
import struct
import zlib
from io import BytesIO
from math import prod
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from configs.table import PathText
from parties.common.errors import DataError
from parties.data.sources.files import MAX_BYTES, read_file_bytes, refuse_large_unpacked_size
from parties.data.sources.images import ImageSettings, image_records, require_row_ids
from parties.data.sources.records import Records, join_records
from parties.data.sources.source import ReadOptions

Bytes: TypeAlias = npt.NDArray[np.uint8]

_GZIP = b"\x1f\x8b"


class IdxData(ImageSettings):
    """Images and labels in the idx format of MNIST."""

    label_keys: ClassVar[tuple[str, ...]] = ("labels", "test_labels")

    kind: Literal["idx"]
    images: PathText | None = None  # file with the images
    test_images: PathText | None = None  # file with the official test images
    labels: PathText | None = None  # file with the labels; only for the active party and clients
    test_labels: PathText | None = None  # file with the labels of the official test images

    def read(self, options: ReadOptions) -> Records:
        """Read the records; an ID is file and row (from 0), such as ``train:17`` or ``test:17``.

        A label is the index of its class.

        Raises:
            DataError: the files do not match the party settings.
        """
        require_row_ids(self, "idx files have")
        train, test = (self.images, self.labels), (self.test_images, self.test_labels)
        if not any(train):
            raise DataError(
                "the party settings name no idx file", "set data.images, data.labels or both"
            )
        if any(test) and [path is None for path in test] != [path is None for path in train]:
            raise DataError(
                "the test files do not match the training files: images or labels are set for only "
                "one of the two",
                "set 'test_images' if and only if 'images' is set, and 'test_labels' if and only "
                "if 'labels' is set",
            )
        parts = {"train": train, "test": test} if any(test) else {"train": train}
        return join_records([_records(self, name, of, options) for name, of in parts.items()])


def _records(
    data: IdxData, name: str, paths: tuple[Path | None, Path | None], options: ReadOptions
) -> Records:
    arrays = [
        None
        if path is None
        else _unpacked(path.name, read_file_bytes(options.folder, path, data.origin), rank)
        for path, rank in zip(paths, (3, 1), strict=True)
    ]
    sizes = {
        path.name: len(array)
        for path, array in zip(paths, arrays, strict=True)
        if path is not None and array is not None
    }
    if len(set(sizes.values())) > 1:
        listed = " and ".join(f"{file} has {size} records" for file, size in sizes.items())
        raise DataError(listed, "choose both files from the same set")
    [*_, file] = sizes
    images, labels = arrays
    pixels = None if images is None else images[:, None]
    return image_records(data, (file, name), pixels, labels, options.classes)


def _unpacked(file: str, content: bytes, rank: int) -> Bytes:
    """Return the array of an idx file: ``[rows, h, w]`` for rank 3, ``[rows]`` for rank 1.

    The declared size is checked before data of that size is read.
    """
    plain = BytesIO(content)
    try:
        with gzip.GzipFile(fileobj=plain) if content.startswith(_GZIP) else plain as stream:
            shape = _shape(file, stream.read(4 + 4 * rank), rank)
            refuse_large_unpacked_size(file, len(content), prod(shape))
            body = stream.read(prod(shape) + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{file} is truncated or damaged: {error}", "download the file again"
        ) from error
    if len(body) != prod(shape):
        actual = "more" if len(body) > prod(shape) else f"only {len(body)}"
        raise DataError(
            f"the header of {file} states the shape {list(shape)}, which needs {prod(shape)} "
            f"bytes after the header, but the file has {actual}",
            "the file is truncated or damaged; download it again",
        )
    return np.frombuffer(body, np.uint8).reshape(shape)


def _shape(file: str, header: bytes, rank: int) -> tuple[int, ...]:
    kind = {3: "images", 1: "labels"}[rank]
    if header[:4] != bytes([0, 0, 8, rank]):
        raise DataError(
            f"{file} is not an IDX file of {kind}: its first four bytes are "
            f"{header[:4].hex() or 'missing'}",
            f"the first four bytes of an IDX file of {kind} are 0000080{rank}",
        )
    if len(header) < 4 + 4 * rank:
        raise DataError(f"the header of {file} is truncated", "download the file again")
    shape = struct.unpack(f">{rank}I", header[4:])
    if not 0 < prod(shape) <= MAX_BYTES:
        raise DataError(
            f"the header of {file} states the shape {list(shape)}, which has too few or "
            "too many elements",
            f"expected 1 to {MAX_BYTES} elements in total",
        )
    return shape
