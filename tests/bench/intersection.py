"""Figures: private set intersection, exact, without pairwise residue, and fast."""

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
WORDS = (
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
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Timed:
    """One intersection over real processes."""

    count: int  # IDs a party
    figures: list[dict[str, Any]]  # of the hub, then of the others
    multiplication: float  # seconds, of X25519, before and after

    @property
    def seconds(self) -> float:
        """From the last party's arrival until all know their common rows, in the same order."""
        return max(each["seconds"] for each in self.figures)

    @property
    def over_bound(self) -> float:
        """Over what two X25519 multiplications an ID would take on one core."""
        return self.seconds / (2 * self.count * self.multiplication)

    @property
    def bytes_per_id(self) -> float:
        """On the wire for each passive party, both ways."""
        hub, *others = self.figures
        return float(hub["bytes"]) / self.count / len(others)

    @property
    def memory(self) -> float:
        """Peak resident memory of the largest party, GB."""
        return max(each["rss"] for each in self.figures) / 1e9


def intersection(tell: Tell) -> Iterator[Row]:
    """Exactness, the pairwise residue, the time of small sets, and what forgetting asks for."""
    failed = 0
    for case in range(CASES):
        try:
            random_case(case)
        except AssertionError:
            failed += 1
        if case % 20 == 0:
            tell(f"intersection: random case {case} of {CASES}")
    yield Row(f"PSI: wrong results in {CASES} random cases", failed, "", "0", failed == 0)
    yield _residue()
    small = timed(2, 1000, tell)
    yield at_most("PSI: 1e3 IDs, two processes, base OT included", small.seconds, 0.3, "s")
    for count in (2, 3):
        found = timed(count, 100_000, tell)
        name = f"PSI: 1e5 IDs, {count} processes"
        yield at_most(f"{name}, over 2 X25519 multiplications an ID", found.over_bound, 0.25, "")
        yield shown(f"{name}, wall", found.seconds, "s")
    yield from _forgetting()


def scale(tell: Tell) -> Iterator[Row]:
    """A million and ten million IDs a party: time, bytes and memory."""
    two = timed(2, 1_000_000, tell)
    yield at_most(
        "PSI: 1e6 IDs, 2 processes, over 2 X25519 multiplications an ID", two.over_bound, 0.12, ""
    )
    yield at_most("PSI: 1e6 IDs, bytes per ID and passive party", two.bytes_per_id, 105, "B")
    yield from _seen("1e6", two, 0.3)
    three = timed(3, 1_000_000, tell)
    ratio = three.seconds / two.seconds
    yield at_most("PSI: 1e6 IDs, time of 3 processes over 2", ratio, 2.0, "")
    yield from _seen("1e6", three, 0.3)
    ten = timed(2, 10_000_000, tell)
    yield at_most("PSI: time at 1e7 IDs over 1e6", ten.seconds / two.seconds, 11, "")
    yield from _seen("1e7", ten, 0.7)
    thirty = timed(3, 10_000_000, tell)
    ratio = thirty.seconds / ten.seconds
    yield at_most("PSI: 1e7 IDs, time of 3 processes over 2", ratio, 2.0, "")
    yield from _seen("1e7", thirty, 0.7)


def _seen(size: str, found: Timed, memory: float) -> Iterator[Row]:
    name = f"PSI: {size} IDs, {len(found.figures)} processes"
    yield shown(f"{name}, wall", found.seconds, "s")
    yield at_most(f"{name}, peak memory of a party", found.memory, memory, "GB")


def timed(count: int, ids: int, tell: Tell) -> Timed:
    """Start all parties, which only intersect, and wait for their figures."""
    before = _multiplication()
    with TemporaryDirectory(prefix="vfl-psi-") as folder, reserved_port() as port:
        psi_process.certify(Path(folder), count)
        said: dict[str, dict[str, Any]] = {}

        def follow(name: str) -> None:
            process = psi_process.start(Path(folder), name, count, ids, port)
            for event in psi_process.events(process):
                said[name] = event
                if name == psi_process.HUB and event.get("total"):
                    done = f"{event['phase']}, {event['done']} of {event['total']}"
                    tell(f"intersection: {count} processes, {ids:,} IDs each: {done}")

        names = psi_process.names(count)
        threads = [Thread(target=follow, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    figures = [said[name] for name in names]
    if any(each.get("common") != ids // 2 for each in figures):
        raise RuntimeError(f"the intersection failed: {figures}")
    return Timed(ids, figures, mean([before, _multiplication()]))


def _residue() -> Row:
    """IDs that leader and one member hold, and the other lacks, must leave no trace."""
    shared = [b"shared-%d" % number for number in range(PAIRWISE)]
    other = [b"other-%d" % number for number in range(PAIRWISE)]
    leader, members = parties(shared, {"one": shared, "two": other})
    run_until_stores(leader, members)
    leader.receive_store("one", members["one"].make_store())
    traces = int((~leader._residual.any(axis=1)).sum())
    name = f"PSI: traces of {PAIRWISE} IDs that only two of three parties hold"
    return Row(name, traces, "", "0", traces == 0)


def _forgetting() -> Iterator[Row]:
    """Rows that must go are named by their aligned index: no new intersection."""
    with (
        TemporaryDirectory() as folder,
        three_parties.open_split_model(Path(folder), rows=4000) as (leading, _),
    ):
        before = _messages(leading.party.traffic)
        started = perf_counter()
        three_parties.forget_some(leading, FORGOTTEN)
        seconds = perf_counter() - started
        more = _messages(leading.party.traffic) - before
    name = f"PSI: forgetting {FORGOTTEN} of 4,000 rows, three parties"
    yield Row(f"{name}: messages of the intersection", more, "", "0", more == 0)
    yield at_most(f"{name}: until all know", seconds * 1e3, 10, "ms")


def _messages(ledger: TrafficCounter) -> int:
    return sum(ledger.total(word).messages for word in WORDS)


def _multiplication() -> float:
    """Seconds of one X25519 multiplication on one core."""
    secret = X25519PrivateKey.generate()
    public = X25519PrivateKey.generate().public_key()
    started = perf_counter()
    for _ in range(20_000):
        secret.exchange(public)
    return (perf_counter() - started) / 20_000
