"""Figures: growth of time and memory with rows and with parties."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pandas as pd
from bench.ledger import Row, at_most, shown
from bench.pairs import alternate, paired_ratio
from steps import open_split_model
from three_parties import start_training
from torch.nn.functional import cross_entropy

from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import DESCEND, BatchLoss, TrainingBatch
from protocol import vfl_pb2

SIZES = (10_000, 100_000, 1_000_000)
COLUMNS, BATCH, MIN_STEPS, PAIRS = 8, 256, 150, 5
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
    (few, many), (low, high) = _measured([(SIZES[0], 1), (SIZES[2], 1)], report)
    yield at_most("growth: time of a step, 1e6 rows over 1e4", paired_ratio(many, few), 1.2, "")
    _, (middle,) = _measured([(SIZES[1], 1)], report)
    peaks = (low, middle, high)
    listed = "; ".join(f"{peak / 1e6:.0f}" for peak in peaks)
    yield shown("growth: peak memory of a passive party at 1e4, 1e5, 1e6 rows", listed, "MB")
    early, late = ((peaks[i + 1] - peaks[i]) / (SIZES[i + 1] - SIZES[i]) for i in (0, 1))
    yield at_most(
        "growth: memory of a further row, above 1e5 rows over below", late / early, 1.2, ""
    )
    (two, eight), _ = _measured([(SIZES[0], 2), (SIZES[0], 8)], report)
    ratio = paired_ratio(eight, two)
    yield at_most("growth: time of a step, 8 passive parties over 2", ratio, 4.0, "")


def _measured(
    cases: Sequence[tuple[int, int]], report: Callable[[str], None]
) -> tuple[list[list[float]], list[float]]:
    """Run cases, each of some rows and passive parties, in turn.

    Return the seconds of a step in each pair, and the peak memory of the first passive party in
    bytes, by case.
    """
    with ExitStack() as stack:
        measures, first = dict[str, Callable[[], float]](), list[int]()
        for rows, passives in cases:
            report(f"growth: {rows} rows, {passives} passive parties")
            name = Path(stack.enter_context(TemporaryDirectory()))
            out = Path(stack.enter_context(TemporaryDirectory()))
            opened = open_split_model(write(name, rows, passives), name, (), out)
            split_model, children = stack.enter_context(opened)
            start_training(split_model, "original")
            measures[f"{rows}, {passives}"] = partial(_epochs, split_model, count(1))
            first.append(children[0])
        seconds = alternate(measures, PAIRS, lambda text: report(f"growth: {text}"), warm_up=1)
        return list(seconds.values()), [_peak(process) for process in first]


def _epochs(split_model: SplitModel, numbers: Iterator[int]) -> float:
    """Return the median seconds of a step over epochs of at least ``MIN_STEPS`` steps in all."""
    epochs = max(1, MIN_STEPS * BATCH // len(split_model.rows.train))
    return median(_epoch(split_model, next(numbers)) for _ in range(epochs))


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
