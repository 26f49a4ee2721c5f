"""``make bench``: measure the promised figures, print a table, write ``docs/bench.json``.

Figures of forgetting are written to ``docs/fedora.json``, of the horizontal mode to
``docs/horizontal.json`` and of language models to ``docs/llm.json``, together with those of
``vfl bench``.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
SHARED = ("parties", "protocol", "psi", "unlearning")  # helper modules of these test folders
for folder in (HERE, HERE.parents[1], *(HERE.parent / name for name in SHARED)):
    sys.path.insert(0, str(folder))

import torch  # noqa: E402
from aggregating import aggregating  # noqa: E402
from bad_input import bad_input  # noqa: E402
from client_kills import client_kills  # noqa: E402
from commands import commands  # noqa: E402
from equality import equality  # noqa: E402
from exact import certified, shards  # noqa: E402
from forgetting import accuracy, adult, cost, digits, fashion  # noqa: E402
from growth import growth  # noqa: E402
from hardened import hardened  # noqa: E402
from intersection import intersection, scale  # noqa: E402
from language_models import language_models  # noqa: E402
from ledger import Row, write  # noqa: E402
from method_kills import method_kills  # noqa: E402
from resume import resume  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from simulated import simulated  # noqa: E402
from steps import steps  # noqa: E402
from trajectory import trajectory  # noqa: E402
from transport import transport  # noqa: E402
from wrong_orders import wrong_orders  # noqa: E402

from parties.experiments.bench.record import merge_rows  # noqa: E402

ROOT = HERE.parents[1]
FORGETTING = ("certified", "shards", "cost")  # sections whose rows are those of docs/fedora.json
HORIZONTAL = ("aggregating", "simulated", "client kills")  # and of docs/horizontal.json
Report = Callable[[str], None]


def sections(data: Path) -> dict[str, Callable[[Report], Iterator[Row]]]:
    """Return the sections by name."""
    return {
        "equality": lambda report: equality(),
        "intersection": intersection,
        "transport": transport,
        "scale": scale,
        "hardened": hardened,
        "commands": commands,
        "bad input": bad_input,
        "wrong orders": wrong_orders,
        "trajectory": trajectory,
        "steps": lambda report: steps(data, report),
        "growth": growth,
        "resume": resume,
        "accuracy": lambda report: accuracy(data, report),
        "digits": lambda report: digits(data, report),
        "adult": lambda report: adult(data, report),
        "certified": lambda report: certified(data, report),
        "shards": lambda report: shards(data, report),
        "fashion": lambda report: fashion(data, report),
        "cost": lambda report: cost(data, report),
        "aggregating": lambda report: aggregating(data, report),
        "simulated": lambda report: simulated(data, report),
        "client kills": client_kills,
        "method kills": method_kills,
        "language models": lambda report: language_models(data, report),
    }


def main() -> None:
    """Measure all sections, or the sections given as arguments."""
    options = argparse.ArgumentParser(prog="make bench", description=__doc__)
    options.add_argument("only", nargs="*", help="sections (default: all)")
    options.add_argument("--data", type=Path, help="folder of the data sets")
    arguments = options.parse_args()
    data = arguments.data or Path(os.environ.get("VFL_DATA", ROOT.parent / "shared" / "data"))
    torch.set_num_threads(1)
    console = Console()
    measured: dict[str, list[Row]] = {}
    with console.status("measuring") as status:
        for name, measure in sections(data).items():
            if not arguments.only or name in arguments.only:
                measured[name] = list(_print_rows(measure(status.update), console))
                _store(name, measured[name])
    rows = [row for rows in measured.values() for row in rows]
    console.print(_table(rows))
    sys.exit(any(row.ok is False for row in rows))


def _store(section: str, rows: list[Row]) -> None:
    """Write the rows of a section to their file in ``docs``."""
    if section in FORGETTING:
        merge_rows(ROOT / "docs" / "fedora.json", [asdict(row) for row in rows])
    elif section in HORIZONTAL:
        merge_rows(ROOT / "docs" / "horizontal.json", [asdict(row) for row in rows])
    elif section == "language models":
        merge_rows(ROOT / "docs" / "llm.json", [asdict(row) for row in rows])
    else:
        write({section: rows}, ROOT / "docs" / "bench.json")


def _print_rows(rows: Iterator[Row], console: Console) -> Iterator[Row]:
    for row in rows:
        console.print(f"{_mark(row)} {row.name}: {_value(row)} {row.unit}", highlight=False)
        yield row


def _table(rows: list[Row]) -> Table:
    table = Table(title="Limits", title_justify="left")
    for heading in ("", "figure", "value", "limit"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        if row.ok is not None:
            table.add_row(_mark(row), row.name, f"{_value(row)} {row.unit}", row.wanted)
    return table


def _mark(row: Row) -> str:
    return {True: "yes", False: "NO ", None: "   "}[row.ok]


def _value(row: Row) -> str:
    return row.value if isinstance(row.value, str) else f"{row.value:.4g}"


main()
