"""Figures: accuracy and time of the server's mean of a hundred clients' updates."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Semaphore, get_ident
from time import thread_time
from typing import Any

import numpy as np
import torch
from bench.ledger import Row, at_most, shown
from bench.pairs import alternate, paired_ratio
from many_clients import ManyClients
from numpy.typing import NDArray

from models.server_optimisers import FedAvg
from parties.horizontal.engine.cohort import Member, WeightedMean
from parties.horizontal.engine.hub_cohort import HubCohort
from parties.horizontal.local.local_task import LocalTask, LocalUpdate
from parties.horizontal.local.networks import initial_parameters
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.envelope import FrameDigest

CLIENTS, ROUNDS = 100, 9
MANY, ENTRIES = 1000, 2000  # number and length of the random vectors
LOCAL_TASK = LocalTask(stream="aggregating", epochs=1, batch=40, learning_rate=0.05)
CONFIG = f"""
federation = "hundred"
mode = "horizontal"
clients = {CLIENTS}
shape = [1, 28, 28]
parties = {{ server = {{ role = "server" }} }}
labels = {{ classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }}
model = {{ kind = "mlp", hidden = [400, 400] }}
partition = {{ kind = "dirichlet", concentration = 0.5 }}
training = {{ epochs = 1, batch = 40, learning_rate = 0.05 }}

[settings.server]
listen = "127.0.0.1:7711"

[settings.client.data]
kind = "idx"
images = "fashion-mnist/train-images-idx3-ubyte.gz"
labels = "fashion-mnist/train-labels-idx1-ubyte.gz"
sample = {{ fraction = 0.2 }}
"""


def aggregating(data: Path, report: Callable[[str], None]) -> Iterator[Row]:
    """Clients over memory lines train an MLP on Fashion-MNIST for one epoch."""
    with TemporaryDirectory() as name:
        path = Path(name) / "hundred.toml"
        path.write_text(CONFIG)
        report("aggregating: setting up the clients")
        many = ManyClients.read(path, Path(name), data)
        model = initial_parameters(many.config.agreement, "original")
        members = [Member(each) for each in many.config.agreement.spokes]
        with many.cohort() as cohort:
            report("aggregating: the clients train")
            updates = dict(cohort.updates(members, LOCAL_TASK, {"model": model}))
            report("aggregating: by math.fsum")
            yield from _exactness(updates)
            yield from _measure_rounds(cohort, model.clone, updates, report)


def _exactness(updates: dict[Member, LocalUpdate]) -> Iterator[Row]:
    name = "horizontal: weighted mean of"
    yield at_most(f"{name} {CLIENTS} clients' updates beside math.fsum's, entry by entry",
                  _relative_error(list(updates.values())), 1e-12, "relative, largest")  # fmt: skip
    random = np.random.default_rng(0)
    wide = [
        10.0 ** random.uniform(-6, 3, ENTRIES) * random.standard_normal(ENTRIES)
        for _ in range(MANY)
    ]
    random_updates = [
        LocalUpdate(
            torch.from_numpy(each.astype(np.float32)), int(random.integers(1, 10_000)), 0.0, 1
        )
        for each in wide
    ]
    title = f"{name} {MANY} vectors over nine decades, which cancel, beside math.fsum's"
    yield shown(f"{title}, entry by entry", _relative_error(random_updates), "relative, largest")


def _relative_error(updates: Sequence[LocalUpdate]) -> float:
    """Return the largest relative error of an entry of the server's mean."""
    total, members = WeightedMean(), [Member(f"client-{place}") for place in range(len(updates))]
    for member, update in zip(members, updates, strict=True):
        total.add(member, update)
    mean, expected = total.result(members, 1.0).delta.numpy(), _by_fsum(updates)
    nonzero = expected != 0
    if mean[~nonzero].any():
        return math.inf
    return float((np.abs(mean - expected)[nonzero] / np.abs(expected[nonzero])).max())


def _by_fsum(updates: Sequence[LocalUpdate]) -> NDArray[np.float64]:
    """Return the mean weighted by rows; each entry is a sum that is rounded once.

    A product of a float32 and a number of rows below 2^29 is exact in float64.
    """
    rows = [each.rows for each in updates]
    weighted = np.stack([each.delta.numpy().astype(np.float64) for each in updates], axis=1)
    weighted *= np.array(rows, np.float64)
    return np.array([math.fsum(entry) for entry in weighted.tolist()]) / sum(rows)


def _measure_rounds(
    cohort: HubCohort,
    model: Callable[[], Any],
    updates: dict[Member, LocalUpdate],
    report: Callable[[str], None],
) -> Iterator[Row]:
    members, arrays = list(updates), [each.delta.numpy() for each in updates.values()]
    parts: list[dict[str, float]] = []

    def ours() -> float:
        start = model()  # a copy that no client has received yet
        with _clocked() as clock:
            mean = cohort.mean_update(members, LOCAL_TASK, {"model": start})
            FedAvg().step(start, mean.delta.to(start.dtype))
        parts.append(clock.spent)
        return sum(clock.spent.values())

    measures: dict[str, Callable[[], float]] = {
        "ours": ours,
        "float64": lambda: _sum_seconds(arrays, np.float64),
        "float32": lambda: _sum_seconds(arrays, np.float32),
        "np.sum": lambda: _list_sum_seconds(arrays),
    }
    times = alternate(measures, ROUNDS, lambda text: report(f"aggregating: {text}"))
    yield from _time_rows(parts, times)


def _time_rows(parts: Sequence[dict[str, float]], times: dict[str, list[float]]) -> Iterator[Row]:
    adding = [each["adding"] for each in parts]
    in_memory = [each["adding"] + each["taking in"] for each in parts]
    title = f"horizontal: server's time of a round of {CLIENTS} clients, 784-400-400-10"
    over = "over NumPy's float64 sum of the same arrays"
    yield at_most(f"{title}: weighting, adding, mean and step, {over}",
                  paired_ratio(adding, times["float64"]), 1.5, "x")  # fmt: skip
    yield at_most(f"{title}: the same with decoding and checking every frame, {over}",
                  paired_ratio(in_memory, times["float64"]), 2.4, "x")  # fmt: skip
    yield shown(f"{title}: the same over NumPy's sum in float32, in place",
                paired_ratio(in_memory, times["float32"]), "x")  # fmt: skip
    yield shown(f"{title}: the same over numpy.sum of a list",
                paired_ratio(in_memory, times["np.sum"]), "x")  # fmt: skip
    yield shown(f"{title}: all of it, with the model's way out and SHA-256 over all frames, {over}",
                paired_ratio(times["ours"], times["float64"]), "x")  # fmt: skip
    durations = {name: median(each[name] for each in parts) for name in parts[0]}
    sums = {name: median(each) for name, each in times.items() if name != "ours"}
    durations |= {f"NumPy, {name}": each for name, each in sums.items()}
    text = "; ".join(f"{name} {1e3 * each:.1f}" for name, each in durations.items())
    yield shown(f"{title}: its parts", text, "ms of its thread, medians")


def _sum_seconds(arrays: Sequence[NDArray[Any]], dtype: Any) -> float:
    """Return the time of this thread in seconds."""
    started = thread_time()
    total = np.zeros(len(arrays[0]), dtype)
    for each in arrays:
        total += each
    return thread_time() - started


def _list_sum_seconds(arrays: Sequence[NDArray[Any]]) -> float:
    """Return the time of this thread in seconds for NumPy's sum of a list."""
    started = thread_time()
    np.sum(arrays, axis=0)
    return thread_time() - started


@dataclass
class _Clock:
    """Time of this thread in some functions, without the time of the nested ones.

    The replies are received once all clients have sent them: real clients run on other machines
    and do not use the cores and caches of the server.
    """

    spent: dict[str, float] = field(default_factory=dict)
    inside: list[str] = field(default_factory=lambda: ["adding"])
    since: float = field(default_factory=thread_time)
    thread: int = field(default_factory=get_ident)
    replies: Semaphore = field(default_factory=lambda: Semaphore(0))
    waited: bool = False

    def record(self) -> None:
        """Add the time since the last call to the current function."""
        now, name = thread_time(), self.inside[-1]
        self.spent[name] = self.spent.get(name, 0.0) + now - self.since
        self.since = now

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function ``work``, timed under ``name``."""

        def clocked(*given: Any, **named: Any) -> Any:
            if get_ident() != self.thread:  # a thread of a client
                done = work(*given, **named)
                if name == "sending" and isinstance(given[1], vfl_pb2.LocalUpdate):
                    self.replies.release()
                return done
            self.record()
            self.inside.append(name)
            try:
                if name == "taking in":
                    self._wait()
                return work(*given, **named)
            finally:
                self.record()
                self.inside.pop()

        return clocked

    def _wait(self) -> None:
        for _ in range(0 if self.waited else CLIENTS):
            self.replies.acquire()
        self.waited = True


@contextmanager
def _clocked() -> Iterator[_Clock]:
    clock = _Clock()
    places: list[tuple[type, str, str]] = [
        (HubCohort, "_send", "sending"),  # with the choice of the vectors to send
        (Channel, "send", "sending"),
        (HubCohort, "_reply", "taking in"),  # with the decoding of vectors and messages
        (Channel, "receive", "taking in"),
        (FrameDigest, "value", "hashing"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, part in places:
        setattr(owner, name, clock.timed(part, getattr(owner, name)))
    try:
        yield clock
    finally:
        clock.record()
        for owner, name, work in originals:
            setattr(owner, name, work)
