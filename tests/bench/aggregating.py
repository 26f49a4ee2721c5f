"""Figures: the server's mean of a hundred clients' updates: how exact it is, and what it takes."""

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
from ledger import Row, at_most, shown
from many_clients import Many
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
MANY, ENTRIES = 1000, 2000  # of made vectors
LOCAL_TASK = LocalTask(stream="aggregating", batch=40, learning_rate=0.05, steps=1)
CONFIG = f"""
federation = "hundred"
mode = "horizontal"
clients = {CLIENTS}
shape = [1, 28, 28]
parties = {{ server = {{ role = "server" }} }}
labels = {{ classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }}
model = {{ kind = "mlp", hidden = [400, 400] }}
partition = {{ kind = "dirichlet", concentration = 0.5 }}

[settings.server]
listen = "127.0.0.1:7711"

[settings.client.data]
kind = "idx"
images = "fashion-mnist/train-images-idx3-ubyte.gz"
labels = "fashion-mnist/train-labels-idx1-ubyte.gz"
sample = {{ fraction = 0.2 }}
"""


def aggregating(data: Path, tell: Callable[[str], None]) -> Iterator[Row]:
    """Real clients at lines in memory teach the MLP of Fashion-MNIST one step."""
    with TemporaryDirectory() as name:
        path = Path(name) / "hundred.toml"
        path.write_text(CONFIG)
        tell("aggregating: setting up the clients")
        many = Many.read(path, Path(name), data)
        model = initial_parameters(many.config.agreement, "original")
        members = [Member(each) for each in many.config.agreement.spokes]
        with many.cohort() as cohort:
            tell("aggregating: what the clients learn")
            updates = dict(cohort.updates(members, LOCAL_TASK, {"model": model}))
            tell("aggregating: by math.fsum")
            yield from _exactness(updates)
            yield from _time(cohort, model.clone, updates, tell)


def _exactness(updates: dict[Member, LocalUpdate]) -> Iterator[Row]:
    name = "horizontal: weighted mean of"
    yield at_most(f"{name} {CLIENTS} clients' updates beside math.fsum's, entry by entry",
                  _apart(list(updates.values())), 1e-12, "relative, largest")  # fmt: skip
    random = np.random.default_rng(0)
    wide = [
        10.0 ** random.uniform(-6, 3, ENTRIES) * random.standard_normal(ENTRIES)
        for _ in range(MANY)
    ]
    made = [
        LocalUpdate(
            torch.from_numpy(each.astype(np.float32)), int(random.integers(1, 10_000)), 0.0, 1
        )
        for each in wide
    ]
    title = f"{name} {MANY} vectors over nine decades, which cancel, beside math.fsum's"
    yield shown(f"{title}, entry by entry", _apart(made), "relative, largest")


def _apart(updates: Sequence[LocalUpdate]) -> float:
    """The largest distance of an entry of the server's mean, relative to the exact one's size."""
    total, members = WeightedMean(), [Member(f"client-{place}") for place in range(len(updates))]
    for member, learned in zip(members, updates, strict=True):
        total.add(member, learned)
    found, wanted = total.result(members, 1.0).delta.numpy(), _by_fsum(updates)
    there = wanted != 0
    if found[~there].any():
        return math.inf
    return float((np.abs(found - wanted)[there] / np.abs(wanted[there])).max())


def _by_fsum(updates: Sequence[LocalUpdate]) -> NDArray[np.float64]:
    """The mean by rows, each entry a sum that is rounded once.

    A product of a float32 and a number of rows below 2^29 is exact in float64.
    """
    rows = [each.rows for each in updates]
    weighted = np.stack([each.delta.numpy().astype(np.float64) for each in updates], axis=1)
    weighted *= np.array(rows, np.float64)
    return np.array([math.fsum(entry) for entry in weighted.tolist()]) / sum(rows)


def _time(
    cohort: HubCohort,
    model: Callable[[], Any],
    updates: dict[Member, LocalUpdate],
    tell: Callable[[str], None],
) -> Iterator[Row]:
    members, arrays = list(updates), [each.delta.numpy() for each in updates.values()]
    parts: list[dict[str, float]] = []
    sums: dict[str, list[float]] = {"float64": [], "float32": [], "np.sum": []}
    for number in range(ROUNDS):
        tell(f"aggregating: round {number + 1} of {ROUNDS}")
        start = model()  # nobody holds it yet: it is sent
        with _clocked() as clock:
            mean = cohort.mean_update(members, LOCAL_TASK, {"model": start})
            FedAvg().step(start, mean.delta.to(start.dtype))
        parts.append(clock.spent)
        sums["float64"].append(_summed(arrays, np.float64))
        sums["float32"].append(_summed(arrays, np.float32))
        began = thread_time()
        np.sum(arrays, axis=0)
        sums["np.sum"].append(thread_time() - began)
    yield from _times(parts, {name: median(each) for name, each in sums.items()})


def _times(parts: Sequence[dict[str, float]], numpy: dict[str, float]) -> Iterator[Row]:
    mine = {name: median(each[name] for each in parts) for name in parts[0]}
    in_memory = mine["adding"] + mine["taking in"]
    title = f"horizontal: server's time of a round of {CLIENTS} clients, 784-400-400-10"
    over = "over NumPy's float64 sum of the same arrays"
    yield at_most(f"{title}: weighting, adding, mean and step, {over}",
                  mine["adding"] / numpy["float64"], 2.0, "x")  # fmt: skip
    yield at_most(f"{title}: the same with decoding and checking every frame, {over}",
                  in_memory / numpy["float64"], 2.0, "x")  # fmt: skip
    yield shown(f"{title}: the same over NumPy's sum in float32, in place",
                in_memory / numpy["float32"], "x")  # fmt: skip
    yield shown(f"{title}: the same over numpy.sum of a list",
                in_memory / numpy["np.sum"], "x")  # fmt: skip
    whole = sum(mine.values())
    yield shown(f"{title}: all of it, with the model's way out and SHA-256 over all frames, {over}",
                whole / numpy["float64"], "x")  # fmt: skip
    told = {**mine, **{f"NumPy, {name}": each for name, each in numpy.items()}}
    listed = "; ".join(f"{name} {1e3 * each:.1f}" for name, each in told.items())
    yield shown(f"{title}: its parts", listed, "ms of its thread, medians")


def _summed(arrays: Sequence[NDArray[Any]], dtype: Any) -> float:
    """Seconds of this thread."""
    began = thread_time()
    total = np.zeros(len(arrays[0]), dtype)
    for each in arrays:
        total += each
    return thread_time() - began


@dataclass
class _Clock:
    """This thread's time in some functions, each without what it calls of the others.

    What came is taken in once all clients have answered: theirs are other machines, and would not
    take this one's cores and caches.
    """

    spent: dict[str, float] = field(default_factory=dict)
    inside: list[str] = field(default_factory=lambda: ["adding"])
    since: float = field(default_factory=thread_time)
    thread: int = field(default_factory=get_ident)
    answers: Semaphore = field(default_factory=lambda: Semaphore(0))
    waited: bool = False

    def turn(self) -> None:
        """Book what passed since the last turn."""
        now, name = thread_time(), self.inside[-1]
        self.spent[name] = self.spent.get(name, 0.0) + now - self.since
        self.since = now

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, whose time goes to ``name``."""

        def clocked(*given: Any, **named: Any) -> Any:
            if get_ident() != self.thread:  # a client's
                done = work(*given, **named)
                if name == "sending" and isinstance(given[1], vfl_pb2.LocalUpdate):
                    self.answers.release()
                return done
            self.turn()
            self.inside.append(name)
            try:
                if name == "taking in":
                    self._wait()
                return work(*given, **named)
            finally:
                self.turn()
                self.inside.pop()

        return clocked

    def _wait(self) -> None:
        for _ in range(0 if self.waited else CLIENTS):
            self.answers.acquire()
        self.waited = True


@contextmanager
def _clocked() -> Iterator[_Clock]:
    clock = _Clock()
    places: list[tuple[type, str, str]] = [
        (Channel, "send", "sending"),
        (Channel, "receive", "taking in"),
        (FrameDigest, "value", "hashing"),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, part in places:
        setattr(owner, name, clock.around(part, getattr(owner, name)))
    try:
        yield clock
    finally:
        clock.turn()
        for owner, name, work in before:
            setattr(owner, name, work)
