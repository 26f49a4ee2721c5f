"""Tables of three parties whose label is a number, or several binary labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_multilabel_classification
from three_parties import PARTIES

NUMBER: dict[str, Any] = {"task": "regression"}
LABELS: dict[str, Any] = {"task": "multilabel", "classes": ["a", "b", "c"]}


def write_diabetes(folder: Path, rows: int = 442) -> None:
    """Write the diabetes data of scikit-learn; the label is the progression of the disease."""
    found = load_diabetes(scaled=False)
    _write(folder, found.data[:rows], ["label"], [[f"{y:.0f}"] for y in found.target[:rows]])


def write_multilabel(folder: Path, rows: int = 300) -> None:
    """Write generated data with three binary labels."""
    values, labels = make_multilabel_classification(
        rows, n_features=9, n_classes=3, n_labels=2, random_state=4
    )
    names = [f"label-{name}" for name in LABELS["classes"]]
    _write(folder, values, names, [[str(each) for each in row] for row in labels.tolist()])


def truth(folder: Path, ids: Sequence[str]) -> NDArray[np.float64]:
    """The labels of some rows in the active party's table, [ids, labels]."""
    header, *lines = (line.split(",") for line in (folder / "hub.csv").read_text().splitlines())
    places = [at for at, name in enumerate(header) if name.startswith("label")]
    known = {cells[0]: [float(cells[at]) for at in places] for cells in lines}
    return np.array([known[each] for each in ids])


def _write(
    folder: Path, values: NDArray[np.float64], names: list[str], labels: list[list[str]]
) -> None:
    generator = np.random.default_rng(3)
    columns = np.array_split(np.arange(values.shape[1]), len(PARTIES))
    for number, (name, own) in enumerate(zip(PARTIES, columns, strict=True)):
        active = name == "hub"
        header = ["id", *(f"x{at}" for at in own), *(names if active else [])]
        lines = [",".join(header)]
        for row in generator.permutation(len(values))[: len(values) - 10 * number]:
            cells = [f"p{row}", *(f"{value:.6g}" for value in values[row, own])]
            lines.append(",".join([*cells, *(labels[row] if active else [])]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
