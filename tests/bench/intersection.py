"""Figures: private set intersection, exact, without pairwise residue, and fast."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from ledger import Row, at_most
from psi_run import absorbed, parties, random_case

from parties.simulate import Plan, processes

CASES, IDS, PAIRWISE = 1000, 100_000, 2000
CONFIG = """
federation = "people"
[parties.hub]
role = "active"
[parties.left]
role = "passive"
width = 2
[parties.right]
role = "passive"
width = 2
[labels]
classes = ["no", "yes"]
[training]
epochs = 1
batch = 8192
"""
SEAT = """
[seats.{name}.data]
kind = "csv"
path = "{name}.csv"
id = {{ columns = ["id"] }}
"""


def intersection(tell: Callable[[str], None]) -> Iterator[Row]:
    """Exactness, the pairwise residue, and the time at 1e5 IDs."""
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
    yield from _speed(tell)


def _residue() -> Row:
    """IDs that leader and one member hold, and the other lacks, must leave no trace."""
    shared = [b"shared-%d" % number for number in range(PAIRWISE)]
    other = [b"other-%d" % number for number in range(PAIRWISE)]
    leader, members = parties(shared, {"one": shared, "two": other})
    absorbed(leader, members)
    leader.store("one", members["one"].store())
    traces = int((~leader._residual.any(axis=1)).sum())
    name = f"PSI: traces of {PAIRWISE} IDs that only two of three parties hold"
    return Row(name, traces, "", "0", traces == 0)


def _speed(tell: Callable[[str], None]) -> Iterator[Row]:
    before = _multiplication()
    with TemporaryDirectory() as folder:
        _write(Path(folder))
        tell(f"intersection: three processes, {IDS} IDs each")
        plan = Plan(Path(folder) / "people.toml", (), Path(folder) / "runs", Path(folder))
        metrics = processes(plan, lambda event: None)
    bound = 2 * IDS * median([before, _multiplication()])
    phase = next(each for each in metrics["traffic"] if each["phase"] == "psi")
    assert metrics["run"]["common_rows"] == IDS // 2
    yield at_most(
        f"PSI: {IDS} IDs, three processes, over 2 X25519 multiplications an ID",
        phase["seconds"] / bound, 0.25, "",
    )  # fmt: skip
    yield Row("PSI: bytes per ID and passive party", phase["bytes"] / IDS / 2, "B")


def _multiplication() -> float:
    """Seconds of one X25519 multiplication on one core."""
    secret = X25519PrivateKey.generate()
    public = X25519PrivateKey.generate().public_key()
    started = perf_counter()
    for _ in range(20_000):
        secret.exchange(public)
    return (perf_counter() - started) / 20_000


def _write(folder: Path) -> None:
    """Half of everybody's IDs are common to all three."""
    generator = np.random.default_rng(1)
    text = CONFIG
    for number, name in enumerate(("hub", "left", "right")):
        people = np.r_[0 : IDS // 2, IDS * (number + 1) : IDS * (number + 1) + IDS // 2]
        generator.shuffle(people)
        head = "id,label" if name == "hub" else "id,x"
        rows = [
            f"{who},{'yes' if who % 2 else 'no'}" if name == "hub" else f"{who},{who % 7}"
            for who in people
        ]
        (folder / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
        text += SEAT.format(name=name)
        text += 'label = "label"\nnumeric = []\n' if name == "hub" else ""
    (folder / "people.toml").write_text(text)
