"""Figures: training steps a second over mutual TLS, against the same model in one process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from bench.ledger import Row, at_least, shown
from bench.pairs import alternate, paired_ratio
from one_process import OneProcess, one_process
from three_parties import start_training
from torch.nn.functional import cross_entropy

from parties.cli.modes import SCHEMAS
from parties.session import handshake
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan, _start, reserved_port, trial_certificates
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import ACCUMULATE, DESCEND, BatchLoss, TrainingBatch
from parties.vertical.resume import start_split_model
from parties.vertical.run_party import open_line_server
from parties.vertical.setup import set_up_party
from protocol import vfl_pb2

ROOT = Path(__file__).parents[2]
INCOME = ROOT / "configs" / "vertical" / "income.toml"
BATCH, ROUNDS = 256, 7  # a round is an epoch of 114 steps
NUMERIC = '"education-num", "hours-per-week"'  # of the employer
CATEGORICAL = 'categorical = ["workclass", "education", "occupation"]\nmissing = ["?"]'
SETTINGS = (
    f"training.batch={BATCH}", "unlearn=[]", "limits.checkpoint_seconds=1e6",
)  # fmt: skip


def steps(data: Path, report: Callable[[str], None]) -> Iterator[Row]:
    """Compare with one process, for one and for two passive parties."""
    for name, passives, overlap, minimum in (
        ("exact, one passive party", 1, "none", 0.75),
        ("exact, two passive parties", 2, "none", 0.6),
        ("micro-batches, one passive party", 1, "microbatch", None),
        ("pipeline, one passive party", 1, "pipeline", 0.95),
    ):
        report(f"steps: {name}")
        with TemporaryDirectory() as folder:
            changes = (*SETTINGS, f'training.overlap="{overlap}"')
            ours, single = _measure(_config(Path(folder), passives), data, changes, report)
        title, ratio = (
            f"training: steps a second over those of one process, {name}",
            paired_ratio(ours, single),
        )
        yield at_least(title, ratio, minimum, "") if minimum else shown(title, ratio, "")
        rates = f"{median(ours):.0f} / {median(single):.0f}"
        yield shown(f"training: steps a second, {name} / one process", rates, "")


def _config(folder: Path, passives: int) -> Path:
    """The shipped income run with a top of one layer of 64.

    With one passive party, the active party also has the columns of the employer.
    """
    text = INCOME.read_text().replace("hidden = [256]", "hidden = [64]")
    if passives == 1:
        for table, following in (
            ("parties", "[parties.registry]"),
            ("settings", "[settings.registry"),
        ):
            start = text.index(f"[{table}.employer")
            text = text[:start] + text[text.index(following) :]
        own = '"capital-gain", "capital-loss"'
        text = text.replace(f"numeric = [{own}]", f"numeric = [{own}, {NUMERIC}]\n{CATEGORICAL}")
        assert NUMERIC in text
    path = folder / "income.toml"
    path.write_text(text)
    return path


def _measure(
    config: Path, data: Path, changes: Sequence[str], report: Callable[[str], None]
) -> tuple[list[float], list[float]]:
    """Return steps per second of the parties and of one process, measured in pairs.

    One process has as many threads, one or two, as make it faster.
    """
    single = one_process(config, data, tuple(changes))
    parameters = [p for net in single.networks.values() for p in net.parameters()]
    descent = torch.optim.Adam(parameters)
    with (
        TemporaryDirectory() as out,
        open_split_model(config, data, changes, Path(out)) as (split_model, _),
    ):
        start_training(split_model, "original")
        epochs = {name: count(1) for name in ("ours", "one", "two")}

        def alone(name: str, threads: int) -> float:
            torch.set_num_threads(threads)
            rate = _one_process(single, descent, next(epochs[name]))
            torch.set_num_threads(1)
            return rate

        measures: dict[str, Callable[[], float]] = {
            "ours": lambda: _parties(split_model, next(epochs["ours"])),
            "one": partial(alone, "one", 1),
            "two": partial(alone, "two", 2),
        }
        rates = alternate(measures, ROUNDS, lambda text: report(f"steps: {text}"), warm_up=2)
    return rates["ours"], max(rates["one"], rates["two"], key=median)


def _parties(split_model: SplitModel, epoch: int) -> float:
    done = [0]

    def act(batch: TrainingBatch) -> BatchLoss:
        loss = cross_entropy(batch.logits, batch.labels)
        loss.item()
        done[0] += batch.last
        return BatchLoss(loss * batch.share, DESCEND if batch.last else ACCUMULATE)

    started = perf_counter()
    split_model.loop.run_epoch(vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, epoch, BATCH, act)
    return done[0] / (perf_counter() - started)


def _one_process(model: OneProcess, descent: torch.optim.Optimizer, epoch: int) -> float:
    order = model.rows.shuffled(vfl_pb2.TRAIN_ROWS, "original", epoch)
    started, steps_done = perf_counter(), 0
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        descent.zero_grad()
        loss = cross_entropy(model.logits(batch), model.labels[batch])
        loss.item()
        loss.backward()
        descent.step()
        steps_done += 1
    return steps_done / (perf_counter() - started)


@contextmanager
def open_split_model(
    config: Path, data: Path, changes: Sequence[str], out: Path
) -> Iterator[tuple[SplitModel, list[int]]]:
    """Yield the split model of the active party, and the process IDs of the passive parties."""
    plan = SimulationPlan(config, tuple(changes), out, data, schemas=SCHEMAS)
    with trial_certificates(plan) as (config_file, pinned, keys), reserved_port() as port:
        address = f"127.0.0.1:{port}"
        active = config_file.agreement.active
        children = [
            _start(plan, name, pinned, keys, address, "passive")
            for name in config_file.agreement.passive
        ]
        party = set_up_party(config_file, active, StartOptions(out, data, keys), lambda event: None)
        try:
            with open_line_server(party, address) as server:
                hub, offers = handshake.accept_spokes(party, server)
                yield start_split_model(party, hub, offers), [child.pid for child in children]
                hub.abort("over", "measured")
                hub.close()
        finally:
            for child in children:
                child.kill()
                child.wait()
                child.stdout.close()
