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
    """Class probabilities for every requested ID.

    Attributes:
        texts: the IDs as written in the request.
        classes: names of the classes, in the order in which the agreement lists them.
        probabilities: ``[rows, classes]``, NaN for a row that any party lacks.
    """

    texts: Sequence[str]
    classes: Sequence[str]
    probabilities: Probabilities

    @property
    def held(self) -> NDArray[np.bool_]:
        """Mask ``[rows]``: True for rows that all parties have."""
        return np.isfinite(self.probabilities[:, 0])

    def rows(self) -> Iterator[tuple[str, str | None, Sequence[float] | None]]:
        """Yield the ID, most probable class and class probabilities of each row.

        The class and the probabilities of a row are None if any party lacks the row.
        """
        for text, held, row in zip(self.texts, self.held, self.probabilities, strict=True):
            yield (text, self.classes[int(row.argmax())], row.tolist()) if held else (
                text, None, None,
            )  # fmt: skip

    def as_json(self) -> list[dict[str, Any]]:
        """Return one JSON object per ID."""
        return [
            {"id": text, "status": NOT_HELD}
            if row is None
            else {
                "id": text,
                "status": PREDICTED,
                "class": name,
                "probabilities": dict(zip(self.classes, row, strict=True)),
            }
            for text, name, row in self.rows()
        ]


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
    table.writerow(["id", "status", "class", *(f"p_{name}" for name in predictions.classes)])
    for identity, name, row in predictions.rows():
        if row is None:
            table.writerow([identity, NOT_HELD, *[""] * (1 + len(predictions.classes))])
        else:  # nine digits distinguish any two float32
            table.writerow([identity, PREDICTED, name, *(f"{value:.9g}" for value in row)])
    return text.getvalue().encode()


def _parquet(predictions: Predictions) -> bytes:
    rows = list(predictions.rows())
    columns: dict[str, Any] = {
        "id": pa.array([identity for identity, *_ in rows], pa.string()),
        "status": pa.array([PREDICTED if row else NOT_HELD for *_, row in rows], pa.string()),
        "class": pa.array([name for _, name, _ in rows], pa.string()),
    }
    absent = ~predictions.held
    for at, name in enumerate(predictions.classes):
        columns[f"p_{name}"] = pa.array(predictions.probabilities[:, at], pa.float64(), mask=absent)
    content = BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()
