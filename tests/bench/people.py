"""Figures: what a newcomer reaches with defaults throughout.

``bank and call centre``: from two generated tables to a trained federation, by the commands that
two persons type. ``default AUC``: tables of three data sets, split over two parties; settings from
``vfl init``, and beside the model logistic regression and gradient boosting of scikit-learn, fitted
on all columns of the training and validation rows. All are tested on the same rows.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from bench.ledger import Row, at_most, shown
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from two_organisations import TwoOrganisations

from configs.config_file import read_any
from parties.cli.modes import SCHEMAS
from parties.experiments.provenance import ROOT
from parties.vertical.alignment.row_order import order_ids
from parties.vertical.engine.rows import split_rows

SEEDS = range(int(os.environ.get("VFL_BENCH_SEEDS", "3")))
PEOPLE = 45_000
MOST_COMMANDS, MOST_SECONDS = 6, 180.0
NEAR = 0.01  # largest loss of AUC against the better rival
LARGEST_LEARNER = 3000  # iterations of logistic regression
Report = Callable[[str], None]
Table = tuple[pd.DataFrame, list[str], list[str], str]  # rows, two lists of columns, label


def bank_and_centre(report: Report) -> Iterator[Row]:
    """Measure commands, time and result of the generated bank and call centre."""
    report("bank and call centre")
    with TemporaryDirectory() as folder:
        found = TwoOrganisations(Path(folder), PEOPLE).federate()
    title = f"bank and call centre, {PEOPLE:,} people"
    model = found.metrics["model"]
    yield at_most(f"{title}: commands of a party", found.commands, MOST_COMMANDS, "")
    yield at_most(f"{title}: time from the tables to the report", found.seconds, MOST_SECONDS, "s")
    _, sent, minutes = found.told
    run = found.metrics["run"]["seconds"] / 60
    yield shown(f"{title}: minutes of the run that vfl init tells", minutes, "min")
    yield shown(f"{title}: minutes of the run", run, "min")
    crossed = sum(each["bytes"] for each in found.metrics["traffic"]) / 1e6
    yield shown(f"{title}: MB of the run that vfl init tells", sent, "MB")
    yield shown(f"{title}: MB of the run", crossed, "MB")
    yield shown(f"{title}: AUC of the model", model["auc"], "")
    yield shown(f"{title}: AUC of the bank's columns alone", model["alone"]["auc"], "")


def default_auc(data: Path, report: Report) -> Iterator[Row]:
    """Compare the AUC of a model with default settings with that of two learners."""
    for name, table in {"credit": _credit, "income": _income, "breast": _breast}.items():
        found = []
        for seed in SEEDS:
            report(f"default AUC: {name}, seed {seed}")
            found.append(_aucs(table(data), seed))
        for title in ("the split model", "own columns alone", *_LEARNERS):
            yield shown(f"default AUC: {name}, {title}", _spread([e[title] for e in found]), "")
        better = max(_LEARNERS, key=lambda each: mean(one[each] for one in found))
        gaps = [one["the split model"] - one[better] for one in found]
        yield Row(
            f"default AUC: {name}, the split model minus the better learner",
            _spread(gaps, "+.4f"), f"{better}, {len(gaps)} seeds", f"at most {NEAR} below",
            mean(gaps) >= -NEAR,
        )  # fmt: skip


def _spread(values: list[float], form: str = ".4f") -> str:
    return f"{mean(values):{form}} ± {stdev(values) if len(values) > 1 else 0.0:.4f}"


def _credit(data: Path) -> Table:
    return _fate(data, "default_credit")


def _breast(data: Path) -> Table:
    return _fate(data, "breast")


def _fate(data: Path, name: str) -> Table:
    """A data set whose columns are split over two files; both files have the same rows."""
    own, other = (
        pd.read_csv(data / "vfl-fate" / f"{name}_hetero_{part}.csv") for part in ("guest", "host")
    )
    other = other.rename(columns={each: f"host_{each}" for each in other if each != "id"})
    columns = list(other.columns.drop("id"))
    return own.merge(other, on="id"), list(own.columns.drop(["id", "y"])), columns, "y"


def _income(data: Path) -> Table:
    """Adult: the employer has education and work, the bank all other columns."""
    shipped = tomllib.loads((ROOT / "configs" / "vertical" / "income.toml").read_text())
    names = shipped["settings"]["bank"]["data"]["names"]
    options: dict[str, Any] = {"skipinitialspace": True, "na_values": ["?"], "comment": "|"}
    rows = pd.read_csv(data / "adult" / "adult.data", names=names, **options)
    rows.insert(0, "id", [f"P{number:06d}" for number in range(len(rows))])
    other = ["education-num", "hours-per-week", "workclass", "education", "occupation"]
    own = [name for name in names if name not in (*other, "fnlwgt", "income")]
    return rows, own, other, "income"


def _aucs(table: Table, seed: int) -> dict[str, float]:
    """The AUC of every model on the test rows of one federation."""
    rows, own, other, label = table
    with TemporaryDirectory() as folder:
        home = Path(folder)
        shuffled = rows.sample(frac=1, random_state=seed)
        shuffled[["id", label, *own]].to_csv(home / "own.csv", index=False)
        rows.sample(frac=1, random_state=seed + 1)[["id", *other]].to_csv(
            home / "partner.csv", index=False
        )
        active = ("--role", "active", "own.csv", "--label", label, "--partner", "partner")
        _vfl(home, "init", *active, "--id", "id")
        _vfl(home, "init", "--join", "agreement.toml", "partner.csv", "--id", "id")
        _vfl(home, "simulate", "agreement.toml", "--in-process", "--set", f"seed={seed}")
        (path,) = (home / "runs").glob("*/metrics.json")
        model = json.loads(path.read_text())["model"]
        test = _test_rows(home / "agreement.toml", seed, rows["id"])
    found = {"the split model": model["auc"], "own columns alone": model["alone"]["auc"]}
    positive = (rows[label] == sorted(rows[label].unique())[1]).to_numpy()
    return found | {
        name: _auc_of(learner(), rows[own + other], positive, test)
        for name, learner in _LEARNERS.items()
    }


def _vfl(folder: Path, *words: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "parties.cli", *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if run.returncode != 0:
        raise RuntimeError(f"vfl {words[0]}: {run.stdout[-2000:]}{run.stderr[-2000:]}")


def _test_rows(path: Path, seed: int, ids: pd.Series) -> NDArray[np.bool_]:
    """Whether each row is one of the run's test rows: [rows]."""
    agreement = read_any(path, SCHEMAS, [f"seed={seed}"]).agreement
    named = [str(each).encode() for each in ids]
    order = order_ids(agreement, named)
    sets = split_rows(agreement, [named[at] for at in order], np.zeros(len(named), np.bool_))
    chosen = np.zeros(len(named), np.bool_)
    chosen[order[sets.test]] = True
    return chosen


def _logistic_regression() -> Any:
    number = make_pipeline(SimpleImputer(), StandardScaler())
    prepared = make_column_transformer(
        (number, _numeric), (OneHotEncoder(handle_unknown="ignore"), _other)
    )
    return make_pipeline(prepared, LogisticRegression(max_iter=LARGEST_LEARNER))


def _gradient_boosting() -> Any:
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)


_LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic regression": _logistic_regression, "gradient boosting": _gradient_boosting,
}  # fmt: skip


def _numeric(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]


def _other(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if name not in _numeric(frame)]


def _auc_of(
    learner: Any, frame: pd.DataFrame, positive: NDArray[np.bool_], test: NDArray[np.bool_]
) -> float:
    """Fit on all rows that are no test rows; return the AUC on the test rows."""
    frame = frame.astype(dict.fromkeys(_other(frame), "category"))
    learner.fit(frame[~test], positive[~test])
    return float(roc_auc_score(positive[test], learner.predict_proba(frame[test])[:, 1]))
