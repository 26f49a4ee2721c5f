"""Three tables of scikit-learn's breast cancer data, one per ward, each written in its own way."""

from pathlib import Path

import pandas as pd
from sklearn.datasets import load_breast_cancer

WARDS = ("north", "south", "west")


def write_wards(folder: Path) -> dict[str, Path]:
    """Write ``NAME.csv`` of each ward, with ID ``patient`` and label ``diagnosis``; return paths.

    south has semicolons, decimal commas, and its columns in another order.
    """
    data = load_breast_cancer(as_frame=True)
    rows = data.frame.drop(columns="target").assign(diagnosis=data.target_names[data.target])
    rows.insert(0, "patient", [f"P{number:04d}" for number in range(len(rows))])
    found = {name: folder / f"{name}.csv" for name in WARDS}
    for at, path in enumerate(found.values()):
        own: pd.DataFrame = rows[at :: len(WARDS)]
        if path.stem == "south":
            own[own.columns[::-1]].to_csv(path, index=False, sep=";", decimal=",")
        else:
            own.to_csv(path, index=False)
    return found
