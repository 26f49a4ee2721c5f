"""Figures: correctness of the hardened intersection, and its time over its group operations."""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha512
from os import urandom
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
from bench.ledger import Row, at_least, at_most, shown
from bench.pairs import PairedRatio, alternate, paired_ratio
from hardened_run import parties, random_case

from parties.cli.modes import SCHEMAS
from parties.common.workers import parallel_workers
from parties.session.simulation import SimulationPlan, simulate_processes
from psi.group import (
    UNIFORM_BYTES,
    add_points,
    hash_to_point,
    multiply_point,
    point_from_uniform,
    scalar_from_uniform,
)
from psi.hardened_oprf import blind_ids
from psi.parallel import CHUNK_POINTS, ParallelMap, serial_map

Clock = Callable[[], float]
CASES, IDS, RUNS, ROUNDS, TRIALS = 200, 20_000, 3, 15, 2000
CONFIG = """
federation = "people"
[parties.hub]
role = "active"
[parties.shop]
role = "passive"
width = 2
[labels]
classes = ["no", "yes"]
[psi]
security = "hardened"
[training]
epochs = 1
batch = 8192
[settings.hub.data]
kind = "csv"
path = "hub.csv"
id = { columns = ["id"] }
label = "label"
numeric = []
[settings.shop.data]
kind = "csv"
path = "shop.csv"
id = { columns = ["id"] }
"""


def hardened(report: Callable[[str], None]) -> Iterator[Row]:
    """Measure correctness, the time of 2e4 IDs, and the speed-up by a second worker."""
    failed = 0
    for case in range(CASES):
        try:
            random_case(case)
        except AssertionError:
            failed += 1
        if case % 20 == 0:
            report(f"hardened: random case {case} of {CASES}")
    yield Row(f"hardened PSI: wrong results in {CASES} random cases", failed, "", "0", failed == 0)
    yield from _work(report)
    yield from _speed(report)
    report("hardened: blinding with one worker and with two")
    name = "hardened PSI: blinding, one worker's {} over that of two"
    yield at_least(name.format("time"), _second_worker(report), 1.8, "")
    yield at_least(name.format("processor time on the longest way"), _longest_path(), 1.8, "")


def _work(report: Callable[[str], None]) -> Iterator[Row]:
    """Compare the processor time of each side with that of its group operations."""
    ratios = []
    for number in range(RUNS):
        report(f"hardened: processor time of both sides, run {number + 1} of {RUNS}")
        ratios.append(_processor_ratios())
    for side in ("leader", "member"):
        name = f"hardened PSI: the {side}'s processor time over its group operations"
        ratio = paired_ratio([each[side] for each in ratios], [1.0] * RUNS)
        yield at_most(name, ratio, 1.1, "")


def _processor_ratios() -> dict[str, float]:
    """Return each side's processor time over that of its group operations."""
    ids = [b"person %d" % number for number in range(IDS)]
    leader, members = parties(ids[IDS // 4 :], {"shop": ids[: IDS - IDS // 4]})
    shop, sides = members["shop"], {"leader": 0.0, "member": 0.0}
    costs = [_primitives(process_time)]  # beside every step

    def timed(side: str, step: Callable[..., Any], *arguments: Any) -> Any:
        started = process_time()
        result = step(*arguments)
        sides[side] += process_time() - started
        costs.append(_primitives(process_time))
        return result

    shares = {"shop": shop.start()}
    blinded = timed("leader", lambda: list(leader.blind()))
    timed("member", lambda: [shop.receive_blinded(block) for block in blinded])
    evaluated = timed("member", lambda: list(shop.evaluate(shares)))
    timed("leader", lambda: [leader.receive_evaluated("shop", block) for block in evaluated])
    timed("leader", leader.verify_proof, "shop", *timed("member", shop.prove))
    timed("leader", leader.receive_store, "shop", timed("member", shop.make_store))
    assert len(leader.finish().rows) == IDS // 2
    hashing, product, addition = (median(each) for each in zip(*costs, strict=True))
    bounds = {
        "leader": hashing + 4 * product + 2 * addition,
        "member": hashing + 3 * product + addition,
    }
    return {side: sides[side] / bound / (IDS - IDS // 4) for side, bound in bounds.items()}


def _speed(report: Callable[[str], None]) -> Iterator[Row]:
    seconds, costs, size = list[float](), list[tuple[float, float, float]](), 0
    for number in range(RUNS):
        report(f"hardened: two processes, {IDS} IDs each, run {number + 1} of {RUNS}")
        before, phase, after = _primitives(), _run(), _primitives()
        seconds.append(phase["seconds"])
        hashing, product, addition = map(mean, zip(before, after, strict=True))
        costs.append((hashing, product, addition))
        size = phase["bytes"]
    # The leader has the most to do: blind, unblind, and two weighted sums of the proof.
    leader = [IDS * (hashing + 4 * product + 2 * addition) for hashing, product, addition in costs]
    name = f"hardened PSI: {IDS} IDs, two processes, over the leader's group operations"
    yield at_most(name, paired_ratio(seconds, leader), 1.5, "")
    bare = [IDS * (hashing + 2 * product) for hashing, product, _ in costs]
    name = "hardened PSI: the same over one hash and two multiplications an ID"
    yield shown(name, paired_ratio(seconds, bare), "")
    yield shown("hardened PSI: time an ID", median(seconds) / IDS * 1e6, "us")
    yield shown("hardened PSI: bytes per ID", size / IDS, "B")


def _run() -> dict[str, Any]:
    """Return the traffic record of an intersection between two processes."""
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        _write(data)
        plan = SimulationPlan(
            data / "people.toml", (), Path(folder) / "runs", data, schemas=SCHEMAS
        )
        metrics = simulate_processes(plan, lambda event: None)
    assert metrics["run"]["common_rows"] == IDS // 2
    return next(each for each in metrics["traffic"] if each["phase"] == "psi")


def _primitives(clock: Clock = perf_counter) -> tuple[float, float, float]:
    """Return the seconds of one hash to the group, one multiplication and one addition."""
    points = [point_from_uniform(urandom(UNIFORM_BYTES)) for _ in range(TRIALS)]
    scalars = [scalar_from_uniform(urandom(UNIFORM_BYTES)) for _ in range(TRIALS)]
    texts = [sha512(point).digest() for point in points]
    return (
        _seconds_per_call(clock, hash_to_point, texts),
        _seconds_per_call(clock, multiply_point, scalars, points),
        _seconds_per_call(clock, add_points, points, points[1:] + points[:1]),
    )


def _seconds_per_call(clock: Clock, work: Callable[..., bytes], *arguments: list[bytes]) -> float:
    started = clock()
    for each in zip(*arguments, strict=True):
        work(*each)
    return (clock() - started) / TRIALS


def _second_worker(report: Callable[[str], None]) -> PairedRatio:
    """Return the time with one worker over the time with two workers."""
    ids = [b"person %d" % number for number in range(32 * CHUNK_POINTS)]

    def seconds(parallel_map: ParallelMap) -> float:
        started = perf_counter()
        blind_ids(ids, b"session", urandom, parallel_map)
        return perf_counter() - started

    with parallel_workers(1, int) as one, parallel_workers(2, int) as two:
        blind_ids(
            ids[: 4 * CHUNK_POINTS], b"session", urandom, two
        )  # wait until both workers have started
        measures = {"one": partial(seconds, one), "two": partial(seconds, two)}
        times = alternate(measures, ROUNDS, lambda text: report(f"hardened: {text}"))
    return paired_ratio(times["one"], times["two"])


def _longest_path() -> float:
    """Return the speed-up on two free cores: this process and half of the workers' time."""
    ids = [b"person %d" % number for number in range(64 * CHUNK_POINTS)]

    def spent(count: int) -> tuple[float, float]:
        ours, theirs = process_time(), _child_seconds()
        with parallel_workers(2, int) as parallel_map:
            blind_ids(ids[:count], b"session", urandom, parallel_map)
        return process_time() - ours, _child_seconds() - theirs

    start = 4 * CHUNK_POINTS  # enough work that both workers start
    started = process_time()
    blind_ids(ids[start:], b"session", urandom, serial_map)
    one = process_time() - started
    ours, theirs = (
        whole - before for whole, before in zip(spent(len(ids)), spent(start), strict=True)
    )
    return one / (ours + theirs / 2)


def _child_seconds() -> float:
    """Return the processor seconds of ended child processes."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(folder: Path) -> None:
    """Write the IDs of both parties; half of them are common."""
    generator = np.random.default_rng(1)
    for number, name in enumerate(("hub", "shop")):
        people = np.r_[0 : IDS // 2, IDS * (number + 1) : IDS * (number + 1) + IDS // 2]
        generator.shuffle(people)
        head = "id,label" if name == "hub" else "id,x"
        value = ("no", "yes") if name == "hub" else ("0", "1")
        rows = [f"{person},{value[person % 2]}" for person in people]
        (folder / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "people.toml").write_text(CONFIG)
