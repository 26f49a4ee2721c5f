"""Predictions as they leave us: one row a requested ID, in CSV, Parquet or JSON."""

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

PREDICTED, NOT_HELD = "predicted", "not held by all parties"  # by whom not is nobody's business
SUFFIXES = (".csv", ".parquet")
Probabilities: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Predictions:
    """What the model says of every requested ID.

    Attributes:
        texts: the IDs as they were asked.
        classes: names, in the agreement's order.
        probabilities: [rows, classes], NaN where the row is not held by all parties.
    """

    texts: Sequence[str]
    classes: Sequence[str]
    probabilities: Probabilities

    @property
    def held(self) -> NDArray[np.bool_]:
        """[rows], whether all parties hold the row."""
        return np.isfinite(self.probabilities[:, 0])

    def rows(self) -> Iterator[tuple[str, str | None, Sequence[float] | None]]:
        """ID, most probable class and probabilities; None where it is not held by all."""
        for text, held, row in zip(self.texts, self.held, self.probabilities, strict=True):
            yield (text, self.classes[int(row.argmax())], row.tolist()) if held else (
                text, None, None,
            )  # fmt: skip

    def as_json(self) -> list[dict[str, Any]]:
        """One object an ID."""
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
    """Refuse before any work what cannot be written after it.

    Raises:
        ConfigError: its ending is no format of ours.
        StorageError: it exists, or its folder does not.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path} ends in neither {' nor '.join(SUFFIXES)}", "--out says which")
    if path.exists() and not force:
        raise StorageError(f"{path} exists", "choose another file, or overwrite it with --force")
    if not path.parent.is_dir():
        raise StorageError(f"no folder {path.parent}", "make it first")


def write_predictions(path: Path, found: Predictions) -> None:
    """Write the file as a whole; raises ``StorageError``."""
    write_atomically(path, _parquet(found) if path.suffix.lower() == ".parquet" else _csv(found))


def _csv(found: Predictions) -> bytes:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["id", "status", "class", *(f"p_{name}" for name in found.classes)])
    for identity, name, row in found.rows():
        if row is None:
            table.writerow([identity, NOT_HELD, *[""] * (1 + len(found.classes))])
        else:  # nine digits tell any two float32 apart
            table.writerow([identity, PREDICTED, name, *(f"{value:.9g}" for value in row)])
    return text.getvalue().encode()


def _parquet(found: Predictions) -> bytes:
    rows = list(found.rows())
    columns: dict[str, Any] = {
        "id": pa.array([identity for identity, *_ in rows], pa.string()),
        "status": pa.array([PREDICTED if row else NOT_HELD for *_, row in rows], pa.string()),
        "class": pa.array([name for _, name, _ in rows], pa.string()),
    }
    absent = ~found.held
    for at, name in enumerate(found.classes):
        columns[f"p_{name}"] = pa.array(found.probabilities[:, at], pa.float64(), mask=absent)
    content = BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()
