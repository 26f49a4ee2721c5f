"""Predictions for requested IDs, written as CSV, Parquet or JSON with one row per ID."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from configs.errors import ConfigError
from configs.targets import Task
from parties.common.atomic_file import write_atomically
from parties.common.errors import StorageError

PREDICTED, NOT_HELD = (
    "predicted",
    "not held by all parties",
)  # does not reveal which party lacks the row
SUFFIXES = (".csv", ".parquet")
Probabilities: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Predictions:
    """The model's prediction for every requested ID.

    Attributes:
        texts: the IDs as written in the request.
        classes: names of the classes or labels, in the order in which the agreement lists them;
            empty for a number.
        probabilities: probability of each class or label, ``[rows, classes]``, or the number,
            ``[rows, 1]``; NaN for a row that any party lacks.
        task: what the model predicts.
    """

    texts: Sequence[str]
    classes: Sequence[str]
    probabilities: Probabilities
    task: Task = "classification"

    @property
    def held(self) -> NDArray[np.bool_]:
        """Mask ``[rows]``: True for rows that all parties have."""
        return np.isfinite(self.probabilities[:, 0])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of numbers in a file, one for each of ``probabilities``."""
        return tuple(f"p_{name}" for name in self.classes) or ("value",)

    def rows(self) -> Iterator[tuple[str, str | None, Sequence[float] | None]]:
        """Yield the ID, most probable class and probabilities, or the number, of each row.

        The class and the probabilities of a row are None if any party lacks the row; the class is
        also None if the model does not predict one of several classes.
        """
        single = self.task == "classification"
        for text, held, row in zip(self.texts, self.held, self.probabilities, strict=True):
            best = self.classes[int(row.argmax())] if held and single else None
            yield text, best, row.tolist() if held else None

    def as_json(self) -> list[dict[str, Any]]:
        """Return one JSON object per ID."""
        return [
            {"id": text, "status": NOT_HELD}
            if row is None
            else {"id": text, "status": PREDICTED} | self._prediction(name, row)
            for text, name, row in self.rows()
        ]

    def _prediction(self, name: str | None, row: Sequence[float]) -> dict[str, Any]:
        """The prediction of one row: class and probabilities, probabilities, or a number."""
        if not self.classes:
            return {"value": row[0]}
        best = {} if name is None else {"class": name}
        return {**best, "probabilities": dict(zip(self.classes, row, strict=True))}


def check_output_path(path: Path, *, force: bool) -> None:
    """Check an output path before the predictions are computed.

    Raises:
        ConfigError: the file extension is unknown.
        StorageError: the file exists and ``force`` is not set, or its folder does not exist.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"the file name {path} has an unknown ending",
            f"with --out, choose a name that ends in {' or '.join(SUFFIXES)}",
        )
    if path.exists() and not force:
        raise StorageError(
            f"{path} already exists",
            f"choose another file, or use --force to overwrite {path.name}",
        )
    if not path.parent.is_dir():
        raise StorageError(f"folder {path.parent} does not exist", "create the folder first")


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write the predictions to a file atomically. Raises ``StorageError`` if writing fails."""
    write_atomically(
        path, _parquet(predictions) if path.suffix.lower() == ".parquet" else _csv(predictions)
    )


def _csv(predictions: Predictions) -> bytes:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    single = ["class"] if predictions.task == "classification" else []
    table.writerow(["id", "status", *single, *predictions.columns])
    for identity, name, row in predictions.rows():
        if row is None:
            table.writerow([identity, NOT_HELD, *[""] * (len(single) + len(predictions.columns))])
        else:  # nine digits distinguish any two float32
            best = [] if name is None else [name]
            table.writerow([identity, PREDICTED, *best, *(f"{value:.9g}" for value in row)])
    return text.getvalue().encode()


def _parquet(predictions: Predictions) -> bytes:
    rows = list(predictions.rows())
    columns: dict[str, Any] = {
        "id": pa.array([identity for identity, *_ in rows], pa.string()),
        "status": pa.array([PREDICTED if row else NOT_HELD for *_, row in rows], pa.string()),
    }
    if predictions.task == "classification":
        columns["class"] = pa.array([name for _, name, _ in rows], pa.string())
    absent = ~predictions.held
    for at, name in enumerate(predictions.columns):
        columns[name] = pa.array(predictions.probabilities[:, at], pa.float64(), mask=absent)
    content = BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()
