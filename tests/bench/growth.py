"""Figures: growth of time and memory with rows and with parties."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pandas as pd
from bench.ledger import Row, at_most, shown
from steps import open_split_model
from three_parties import start_training
from torch.nn.functional import cross_entropy

from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import DESCEND, BatchLoss, TrainingBatch
from protocol import vfl_pb2

SIZES = (10_000, 100_000, 1_000_000)
COLUMNS, BATCH, MIN_STEPS = 8, 256, 600
HEAD = """
federation = "growth"
[labels]
classes = ["no", "yes"]
[training]
batch = {batch}
[limits]
checkpoint_seconds = 1e6
join_seconds = 600
[parties.hub]
role = "active"
[settings.hub.data]
kind = "csv"
path = "hub.csv"
id = {{ columns = ["id"] }}
label = "label"
numeric = []
"""
PASSIVE = """
[parties.p{number}]
role = "passive"
width = 16
bottom = {{ kind = "mlp", hidden = [32] }}
[settings.p{number}.data]
kind = "csv"
path = "features.csv"
id = {{ columns = ["id"] }}
"""


def growth(report: Callable[[str], None]) -> Iterator[Row]:
    """Measure 1e4 to 1e6 rows with one passive party, and 2 and 8 passive parties with 1e4 rows."""
    seconds, peaks = [], []
    for rows in SIZES:
        report(f"growth: {rows} rows")
        second, peak = _measured(rows, 1, report)
        seconds.append(second)
        peaks.append(peak)
    yield at_most("growth: time of a step, 1e6 rows over 1e4", seconds[2] / seconds[0], 1.2, "")
    listed = "; ".join(f"{peak / 1e6:.0f}" for peak in peaks)
    yield shown("growth: peak memory of a passive party at 1e4, 1e5, 1e6 rows", listed, "MB")
    early, late = ((peaks[i + 1] - peaks[i]) / (SIZES[i + 1] - SIZES[i]) for i in (0, 1))
    yield at_most(
        "growth: memory of a further row, above 1e5 rows over below", late / early, 1.2, ""
    )
    two, eight = (_measured(SIZES[0], passives, report)[0] for passives in (2, 8))
    yield at_most("growth: time of a step, 8 passive parties over 2", eight / two, 4.0, "")


def _measured(rows: int, passives: int, report: Callable[[str], None]) -> tuple[float, float]:
    """Return the seconds of a step and the peak memory of the first passive party in bytes."""
    report(f"growth: {rows} rows, {passives} passive parties")
    with TemporaryDirectory() as name, TemporaryDirectory() as out:
        config = write(Path(name), rows, passives)
        with open_split_model(config, Path(name), (), Path(out)) as (split_model, children):
            start_training(split_model, "original")
            epochs = max(1, MIN_STEPS * BATCH // len(split_model.rows.train))
            times = [_epoch(split_model, epoch) for epoch in range(1, 3 + epochs)]
            return median(times[1:]), _peak(children[0])


def _epoch(split_model: SplitModel, number: int) -> float:
    """Return the seconds of a step, including the shuffling of the epoch."""
    steps = 0

    def act(batch: TrainingBatch) -> BatchLoss:
        nonlocal steps
        steps += 1
        return BatchLoss(cross_entropy(batch.logits, batch.labels), DESCEND)

    started = perf_counter()
    split_model.loop.run_epoch(vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, number, BATCH, act)
    return (perf_counter() - started) / steps


def _peak(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return 1024.0 * int(status.split("VmHWM:")[1].split()[0])


def write(folder: Path, rows: int, passives: int) -> Path:
    """Write a config and its data: all parties have all rows, passive parties the same features."""
    generator = np.random.default_rng(rows)
    label = generator.integers(0, 2, rows)
    values = generator.normal(size=(rows, COLUMNS)) + label[:, None]
    numbers = [f"p{number:08}" for number in range(rows)]
    frame = pd.DataFrame({"id": numbers, "label": np.where(label, "yes", "no")})
    frame.to_csv(folder / "hub.csv", index=False)
    features = pd.DataFrame(values, columns=[f"x{column}" for column in range(COLUMNS)])
    features.insert(0, "id", numbers)
    features.to_csv(folder / "features.csv", index=False, float_format="%.5f")
    text = HEAD.format(batch=BATCH)
    text += "".join(PASSIVE.format(number=number) for number in range(1, passives + 1))
    (folder / "growth.toml").write_text(text)
    return folder / "growth.toml"
