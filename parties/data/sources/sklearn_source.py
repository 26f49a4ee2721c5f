"""Scikit-learn source: the data sets bundled with scikit-learn, without files or downloads."""

from typing import Any, ClassVar, Literal

import numpy as np

from configs.targets import Task
from parties.common.errors import DataError
from parties.data.sources.arrays import Images, Labels
from parties.data.sources.images import ImagePart, ImageSettings, crop_images, require_row_ids
from parties.data.sources.records import Records, class_indices, join_records, row_ids
from parties.data.sources.source import ReadOptions
from parties.data.sources.table import Table, numeric_table

DARKEST = 16  # largest pixel value of the digits


class SklearnData(ImageSettings):
    """A data set that comes with scikit-learn."""

    kind: Literal["sklearn"]
    tasks: ClassVar[tuple[Task, ...]] = ("classification", "regression")

    # Data set; the label of diabetes is a number, the label of the others a class.
    name: Literal["digits", "breast_cancer", "iris", "wine", "diabetes"]
    features: bool = True  # whether the party has the features
    columns: tuple[int, ...] | None = None  # indices of the columns of a table; absent: all
    label: bool = False  # whether the party has the labels

    def read(self, options: ReadOptions) -> Records:
        """Read the records; an ID is the set's name and the row (from 0), such as ``digits:17``.

        Raises:
            DataError: the party settings do not match the data set.
        """
        require_row_ids(self, f"{self.name} has")
        from sklearn import datasets  # noqa: PLC0415  large, and few parties need it

        bundled = getattr(datasets, f"load_{self.name}")()
        numbers = np.arange(len(bundled.target))
        pictures = self.name == "digits"
        records = Records(
            files=((self.name, len(numbers)),),
            unit="row",
            numbers=numbers,
            ids=row_ids(self.name, numbers),
            images=_images(self, bundled) if self.features and pictures else None,
            table=_table(self, bundled) if self.features and not pictures else None,
            labels=_labels(self, bundled, options) if self.label else None,
        )
        return join_records([records])

    @property
    def label_columns(self) -> tuple[str, ...]:
        """``target``, the name that scikit-learn gives the label; empty without labels."""
        return ("target",) if self.label else ()


def _labels(data: SklearnData, bundled: Any, options: ReadOptions) -> Labels:
    """The labels of the data set, ``[rows]``: class indices, or numbers."""
    names = getattr(bundled, "target_names", None)
    if (names is None) is not (options.task == "regression"):
        kind, task = ("a number", "regression") if names is None else ("a class", "classification")
        raise DataError(
            f"the label of the data set {data.name} is {kind}", f"set labels.task = {task!r}"
        )
    if names is None:
        return np.asarray(bundled.target, np.float64)
    return class_indices([str(names[label]) for label in bundled.target], options.classes)


def _images(data: SklearnData, bundled: Any) -> Images:
    if data.columns is not None:
        raise DataError(
            f"the data set {data.name} has images, not columns",
            "replace the key 'columns' by part = {...} to select pixels",
        )
    return crop_images(bundled.images.astype(np.uint8)[:, None], data.part, DARKEST, data.name)


def _table(data: SklearnData, bundled: Any) -> Table:
    if data.part != ImagePart():
        raise DataError(
            f"the data set {data.name} has columns, not images",
            "replace the key 'part' by columns = [...] to select features",
        )
    names = [str(name) for name in bundled.feature_names]
    chosen = list(range(len(names)) if data.columns is None else data.columns)
    if not chosen or len(set(chosen)) < len(chosen) or set(chosen) - set(range(len(names))):
        raise DataError(
            f"columns = {chosen} is invalid for {data.name}: expected a list of different column "
            f"indices from 0 to {len(names) - 1}",
            "list the columns that this party uses, or set features = false if it uses none",
        )
    return numeric_table(tuple(names[at] for at in chosen), bundled.data[:, chosen])
