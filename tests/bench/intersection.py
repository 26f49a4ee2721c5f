"""Figures: correctness, pairwise residue and speed of private set intersection."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter
from typing import Any

import psi_process
import three_parties
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from ledger import Row, at_most, shown
from psi_run import parties, random_case, run_until_stores

from parties.common.traffic import TrafficCounter
from parties.session.simulation import reserved_port

CASES, PAIRWISE, FORGOTTEN = 1000, 2000, 1000
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
    multiplication: float  # seconds of an X25519 multiplication

    @property
    def seconds(self) -> float:
        """Return the seconds from the last arrival until all parties know their common rows."""
        return max(each["seconds"] for each in self.figures)

    @property
    def over_bound(self) -> float:
        """Return the time over that of two X25519 multiplications per ID on one core."""
        return self.seconds / (2 * self.count * self.multiplication)

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
        result = timed(count, 100_000, report)
        name = f"PSI: 1e5 IDs, {count} processes"
        yield at_most(f"{name}, over 2 X25519 multiplications an ID", result.over_bound, 0.25, "")
        yield shown(f"{name}, wall", result.seconds, "s")
    yield from _forgetting()


def scale(report: Report) -> Iterator[Row]:
    """Measure time, bytes and memory with 1e6 and 1e7 IDs per party."""
    two = timed(2, 1_000_000, report)
    yield at_most(
        "PSI: 1e6 IDs, 2 processes, over 2 X25519 multiplications an ID", two.over_bound, 0.12, ""
    )
    yield at_most("PSI: 1e6 IDs, bytes per ID and passive party", two.bytes_per_id, 105, "B")
    yield from _size_rows("1e6", two, 0.26)
    three = timed(3, 1_000_000, report)
    ratio = three.seconds / two.seconds
    yield at_most("PSI: 1e6 IDs, time of 3 processes over 2", ratio, 2.0, "")
    yield from _size_rows("1e6", three, 0.26)
    two_large = timed(2, 10_000_000, report)
    yield at_most("PSI: time at 1e7 IDs over 1e6", two_large.seconds / two.seconds, 11, "")
    yield from _size_rows("1e7", two_large, 0.7)
    three_large = timed(3, 10_000_000, report)
    ratio = three_large.seconds / two_large.seconds
    yield at_most("PSI: 1e7 IDs, time of 3 processes over 2", ratio, 2.0, "")
    yield from _size_rows("1e7", three_large, 0.7)


def _size_rows(size: str, result: Timed, memory: float) -> Iterator[Row]:
    name = f"PSI: {size} IDs, {len(result.figures)} processes"
    yield shown(f"{name}, wall", result.seconds, "s")
    yield at_most(f"{name}, peak memory of a party", result.memory, memory, "GB")


def timed(count: int, ids: int, report: Report) -> Timed:
    """Run an intersection between processes and return its figures."""
    before = _multiplication()
    with TemporaryDirectory(prefix="vfl-psi-") as folder, reserved_port() as port:
        psi_process.certify(Path(folder), count)
        events: dict[str, dict[str, Any]] = {}

        def listen(name: str) -> None:
            process = psi_process.start(Path(folder), name, count, ids, port)
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
    if any(each.get("common") != ids // 2 for each in figures):
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
