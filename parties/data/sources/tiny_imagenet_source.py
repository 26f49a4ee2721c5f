"""Tiny ImageNet source: a folder of JPEG files; its validation images are the test rows.

    train/<class>/images/<class>_<number>.JPEG
    val/images/val_<number>.JPEG and val/val_annotations.txt: file, class and box, separated by tabs

The class names are WordNet IDs such as n01443537. Images have 64 x 64 pixels, and some are grey.
"""

import os
import re
from collections.abc import Sequence
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from configs.table import PathText
from parties.common.errors import DataError
from parties.data.sources.arrays import Array, Images
from parties.data.sources.files import MAX_BYTES, open_data_file, regular_file_path
from parties.data.sources.images import (
    WHITE,
    LabelledImageSettings,
    check_selection,
    crop_slices,
)
from parties.data.sources.records import Records, class_indices, join_records, normalise_ids
from parties.data.sources.source import ReadOptions

SIDE = 64
LARGEST = 1 << 20  # bytes of a file; 64 x 64 pixels without compression have 12 KiB
_NOTES = Path("val", "val_annotations.txt")
_CLASS = re.compile(r"n\d{8}")
_AGAIN = "unpack tiny-imagenet-200.zip again"


class TinyImageNetData(LabelledImageSettings):
    """Folder of Tiny ImageNet; the validation images are the official test rows."""

    kind: Literal["tiny-imagenet"]
    path: PathText

    def files(self) -> list[Path]:
        """Return one file that stands for the folder, in which every image is a file."""
        return [self.path / _NOTES]

    def read(self, options: ReadOptions) -> Records:
        """Read the records; the ID of an image is the name of its file.

        Raises:
            DataError: the folder does not match the party settings.
        """
        check_selection(self, "images in folders have")
        training, test = _training(self, options.folder), _test(self, options.folder)
        parts = {"train": training, "val": test}
        return join_records([_records(self, part, options) for part in parts.items()])


def _training(data: TinyImageNetData, folder: Path) -> dict[Path, str]:
    """Return the class of each training file, sorted by class and number."""
    found: dict[Path, str] = {}
    for name in _listed(data, folder, Path("train")):
        if _CLASS.fullmatch(name):
            inside = Path("train", name, "images")
            found |= {inside / file: name for file in _pictures(data, folder, inside)}
    if not found:
        raise DataError(f"found no class folder with images in {data.path / 'train'}", _AGAIN)
    return found


def _test(data: TinyImageNetData, folder: Path) -> dict[Path, str]:
    """Return the class of each test file, sorted by number.

    Raises ``DataError`` unless images and annotations match.
    """
    inside = Path("val", "images")
    noted = _notes(data, folder)
    found = {inside / file: noted.pop(file, "") for file in _pictures(data, folder, inside)}
    missing = sum(not name for name in found.values())
    if missing or noted:
        raise DataError(
            f"{_NOTES.name} does not list {missing} images of {data.path / inside}, and lists "
            f"{len(noted)} images that do not exist",
            _AGAIN,
        )
    return found


def _notes(data: TinyImageNetData, folder: Path) -> dict[str, str]:
    """Return the annotated class of each image name."""
    with open_data_file(folder, data.path / _NOTES, data.origin) as file:
        content = file.read(LARGEST * 16)
    lines = content.decode("ascii", errors="replace").splitlines()
    cells = [line.split("\t") for line in lines]
    wrong = [at for at, line in enumerate(cells, 1) if len(line) < 2 or not line[1]]
    if wrong:
        raise DataError(f"{_NOTES.name} line {wrong[0]} has no class", _AGAIN)
    noted = {line[0]: line[1] for line in cells}
    if len(noted) < len(cells):
        raise DataError(f"{_NOTES.name} lists an image twice", _AGAIN)
    return noted


def _records(
    data: TinyImageNetData, part: tuple[str, dict[Path, str]], options: ReadOptions
) -> Records:
    name, files = part
    ids, _ = normalise_ids([[path.name for path in files]])
    return Records(
        files=((f"{data.path / name}", len(files)),),
        unit="image",
        numbers=np.arange(len(files)),
        ids=ids,
        images=_images(data, list(files), options) if data.features else None,
        labels=class_indices(list(files.values()), options.classes) if data.label else None,
    )


def _images(data: TinyImageNetData, files: Sequence[Path], options: ReadOptions) -> Images:
    """Return the party's part of each image, ``[rows, 3, h, w]``."""
    rows, columns = crop_slices(SIDE, SIDE, data.part, str(data.path))
    shape = (len(files), 3, rows.stop - rows.start, columns.stop - columns.start)
    if prod(shape) > MAX_BYTES:
        raise DataError(
            f"{len(files)} images of {data.path} need more than {MAX_BYTES >> 30} GiB",
            "select fewer pixels per image with data.part",
        )
    images = np.empty(shape, np.float32)
    for at, path in enumerate(files):
        picture = _pixels(data, options.folder, path)
        np.divide(picture[:, rows, columns], WHITE, out=images[at], dtype=np.float32)
        options.progress(1)
    return images


def _pixels(data: TinyImageNetData, folder: Path, path: Path) -> Array:
    """Return the pixels ``[3, 64, 64]``; the declared size is checked before unpacking."""
    with open_data_file(folder, data.path / path, data.origin) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DataError(f"{path} has more than {LARGEST >> 10} KiB", _AGAIN)
    try:
        with Image.open(BytesIO(content), formats=["JPEG"]) as picture:
            if picture.size != (SIDE, SIDE):
                raise DataError(
                    f"{path} has {picture.height} x {picture.width} pixels",
                    f"expected {SIDE} x {SIDE}, as in all images of Tiny ImageNet",
                )
            return np.moveaxis(np.asarray(picture.convert("RGB")), 2, 0)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not a complete JPEG image", _AGAIN) from error


def _pictures(data: TinyImageNetData, folder: Path, inside: Path) -> list[str]:
    """Return the names of image files, sorted by number."""
    names = [name for name in _listed(data, folder, inside) if name.endswith(".JPEG")]
    return sorted(names, key=lambda name: (len(name), name))


def _listed(data: TinyImageNetData, folder: Path, inside: Path) -> list[str]:
    """Return the names in a folder, sorted."""
    regular_file_path(
        folder, data.path / _NOTES, data.origin
    )  # its error tells where to get the data set
    full = folder / data.path / inside
    try:
        return sorted(os.listdir(full))  # noqa: PTH208  names, not paths, 100,000 of them
    except OSError as error:
        raise DataError(f"cannot read {full}: {error.strerror}", _AGAIN) from None
