"""Figures: correctness, pairwise residue and speed of private set intersection."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter
from typing import Any

import psi_process
import three_parties
from bench.ledger import Row, at_most, shown
from bench.pairs import PairedRatio, alternate, paired_ratio
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from psi_run import parties, random_case, run_until_stores

from parties.common.traffic import TrafficCounter
from parties.session.simulation import reserved_port

CASES, PAIRWISE, FORGOTTEN, PAIRS = 1000, 2000, 1000, 3
MILLION = 1_000_000
# Common rows of a version; rows that are new at all parties, or at one; and rows of a party.
KNOWN, NEW = 100_000, 3_000
LIFE = KNOWN + 2 * NEW
MESSAGES = (
    "StartAlignment",
    "KeyShare",
    "KeyShares",
    "OtOffer",
    "OtAnswer",
    "OprfMatrix",
    "KeyValueStore",
    "MatchTags",
    "Aligned",
)
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Timed:
    """One intersection over real processes."""

    count: int  # IDs a party
    figures: list[dict[str, Any]]  # first of the hub, then of the other parties
    multiplication: float  # seconds of an X25519 multiplication, before and after

    @property
    def seconds(self) -> float:
        """Return the seconds from the last arrival until all parties know their common rows."""
        return max(each["seconds"] for each in self.figures)

    @property
    def bound(self) -> float:
        """Return the seconds of two X25519 multiplications per ID on one core."""
        return 2 * self.count * self.multiplication

    @property
    def bytes_per_id(self) -> float:
        """Return the bytes on the wire per ID and passive party, in both directions."""
        hub, *others = self.figures
        return float(hub["bytes"]) / self.count / len(others)

    @property
    def memory(self) -> float:
        """Return the peak resident memory of the largest party in GB."""
        return max(each["rss"] for each in self.figures) / 1e9


def intersection(report: Report) -> Iterator[Row]:
    """Measure correctness, pairwise residue, the time of small sets and the cost of forgetting."""
    failed = 0
    for case in range(CASES):
        try:
            random_case(case)
        except AssertionError:
            failed += 1
        if case % 20 == 0:
            report(f"intersection: random case {case} of {CASES}")
    yield Row(f"PSI: wrong results in {CASES} random cases", failed, "", "0", failed == 0)
    yield _residue()
    small = timed(2, 1000, report)
    yield at_most("PSI: 1e3 IDs, two processes, base OT included", small.seconds, 0.3, "s")
    for count in (2, 3):
        runs = [timed(count, 100_000, report) for _ in range(PAIRS)]
        name = f"PSI: 1e5 IDs, {count} processes"
        yield at_most(f"{name}, over 2 X25519 multiplications an ID", _over_bound(runs), 0.25, "")
        yield shown(f"{name}, wall", _wall(runs), "s")
    yield from _forgetting()


def scale(report: Report) -> Iterator[Row]:
    """Measure time, bytes and memory with 1e6 and 1e7 IDs per party."""
    runs: dict[tuple[int, int], list[Timed]] = {}

    def seconds(processes: int, ids: int) -> float:
        found = timed(processes, ids, report)
        runs.setdefault((processes, ids), []).append(found)
        return found.seconds

    cases = [(processes, ids) for ids in (MILLION, 10 * MILLION) for processes in (2, 3)]
    measures = {str(case): partial(seconds, *case) for case in cases}
    alternate(measures, PAIRS, lambda text: report(f"scale: {text}"))
    two, three, two_large, three_large = (runs[case] for case in cases)
    name = "PSI: 1e6 IDs, 2 processes, over 2 X25519 multiplications an ID"
    yield at_most(name, _over_bound(two), 0.12, "")
    yield at_most("PSI: 1e6 IDs, bytes per ID and passive party", two[0].bytes_per_id, 105, "B")
    yield from _size_rows("1e6", two, 0.26)
    yield at_most("PSI: 1e6 IDs, time of 3 processes over 2", _over(three, two), 2.0, "")
    yield from _size_rows("1e6", three, 0.26)
    yield at_most("PSI: time at 1e7 IDs over 1e6", _over(two_large, two), 11, "")
    yield from _size_rows("1e7", two_large, 0.7)
    ratio = _over(three_large, two_large)
    yield at_most("PSI: 1e7 IDs, time of 3 processes over 2", ratio, 2.0, "")
    yield from _size_rows("1e7", three_large, 0.7)


def _over(one: Sequence[Timed], other: Sequence[Timed]) -> PairedRatio:
    """Return the ratio of the times of two cases that were run in pairs."""
    return paired_ratio([each.seconds for each in one], [each.seconds for each in other])


def _over_bound(runs: Sequence[Timed]) -> PairedRatio:
    """Return the times over those of two X25519 multiplications per ID, each beside its run."""
    return paired_ratio([each.seconds for each in runs], [each.bound for each in runs])


def _wall(runs: Sequence[Timed]) -> float:
    return median(each.seconds for each in runs)


def _size_rows(size: str, runs: Sequence[Timed], memory: float) -> Iterator[Row]:
    name = f"PSI: {size} IDs, {len(runs[0].figures)} processes"
    yield shown(f"{name}, wall", _wall(runs), "s")
    peak = max(each.memory for each in runs)
    yield at_most(f"{name}, peak memory of a party", peak, memory, "GB")


def new_rows(report: Report) -> Iterator[Row]:
    """Measure an intersection that goes on from a version, against one of all rows."""
    pairs = [
        [timed(2, LIFE, report, common=LIFE - NEW, known=known) for known in (0, KNOWN)]
        for _ in range(PAIRS)
    ]
    whole, going_on = zip(*pairs, strict=True)
    name = "PSI: 1e5 known common rows and 3 % new ones, 2 processes"
    yield at_most(f"{name}: time over that of all rows", _over(going_on, whole), 0.9, "")
    yield shown(f"{name}: wall", _wall(going_on), "s")
    yield shown(f"{name}: wall, all rows", _wall(whole), "s")
    sizes = [each[0].bytes_per_id * LIFE for each in (going_on, whole)]
    yield at_most(f"{name}: bytes over those of all rows", sizes[0] / sizes[1], 0.1, "")
    yield shown(f"{name}: bytes", sizes[0] / 1e6, "MB")
    yield shown(f"{name}: bytes, all rows", sizes[1] / 1e6, "MB")


def timed(
    count: int, ids: int, report: Report, *, common: int | None = None, known: int = 0
) -> Timed:
    """Run an intersection between processes and return its figures.

    ``common``: number of IDs that all parties have; None: half. ``known``: number of those that
    the version has from which the parties go on; 0: they go on from none.
    """
    expected = ids // 2 if common is None else common
    before = _multiplication()
    with TemporaryDirectory(prefix="vfl-psi-") as folder, reserved_port() as port:
        psi_process.certify(Path(folder), count)
        events: dict[str, dict[str, Any]] = {}

        def listen(name: str) -> None:
            process = psi_process.start(
                Path(folder), name, count, ids, port, common=expected, known=known
            )
            for event in psi_process.events(process):
                events[name] = event
                if name == psi_process.HUB and event.get("total"):
                    done = f"{event['phase']}, {event['done']} of {event['total']}"
                    report(f"intersection: {count} processes, {ids:,} IDs each: {done}")

        names = psi_process.names(count)
        threads = [Thread(target=listen, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    figures = [events[name] for name in names]
    if any(each.get("common") != expected for each in figures):
        raise RuntimeError(f"the intersection failed: {figures}")
    return Timed(ids, figures, mean([before, _multiplication()]))


def _residue() -> Row:
    """Count traces of IDs that only the leader and one member have; there must be none."""
    shared = [b"shared-%d" % number for number in range(PAIRWISE)]
    other = [b"other-%d" % number for number in range(PAIRWISE)]
    leader, members = parties(shared, {"one": shared, "two": other})
    run_until_stores(leader, members)
    leader.receive_store("one", members["one"].make_store())
    traces = int((~leader._residual.any(axis=1)).sum())
    name = f"PSI: traces of {PAIRWISE} IDs that only two of three parties hold"
    return Row(name, traces, "", "0", traces == 0)


def _forgetting() -> Iterator[Row]:
    """Rows to forget are named by their aligned index, so no new intersection is needed."""
    with (
        TemporaryDirectory() as folder,
        three_parties.open_split_model(Path(folder), rows=4000) as (split_model, _),
    ):
        before = _messages(split_model.party.traffic)
        started = perf_counter()
        three_parties.forget_some(split_model, FORGOTTEN)
        seconds = perf_counter() - started
        messages = _messages(split_model.party.traffic) - before
    name = f"PSI: forgetting {FORGOTTEN} of 4,000 rows, three parties"
    yield Row(f"{name}: messages of the intersection", messages, "", "0", messages == 0)
    yield at_most(f"{name}: until all know", seconds * 1e3, 10, "ms")


def _messages(traffic: TrafficCounter) -> int:
    return sum(traffic.total(message).messages for message in MESSAGES)


def _multiplication() -> float:
    """Return the seconds of one X25519 multiplication on one core."""
    secret = X25519PrivateKey.generate()
    public = X25519PrivateKey.generate().public_key()
    started = perf_counter()
    for _ in range(20_000):
        secret.exchange(public)
    return (perf_counter() - started) / 20_000
