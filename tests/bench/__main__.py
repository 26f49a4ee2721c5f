"""``make bench``: measure the promised figures, print a table, write the records in ``docs``.

Without arguments only stale sections are measured: those that depend on code which has changed
since. tests/bench/scopes.py lists the record of each section, and the code that it depends on. The
section ``peers`` needs a second environment, which ``make bench-peers`` installs.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
# Helper modules of these test folders.
SHARED = ("parties", "parties/horizontal", "parties/language", "protocol", "psi", "unlearning")
for folder in (HERE, HERE.parent, HERE.parents[1], *(HERE.parent / name for name in SHARED)):
    sys.path.insert(0, str(folder))

import torch  # noqa: E402
from aggregating import aggregating  # noqa: E402
from bad_input import bad_input  # noqa: E402
from bench.ledger import Row, store  # noqa: E402
from bench.records import Records  # noqa: E402
from bench.scopes import SECTIONS  # noqa: E402
from client_kills import client_kills  # noqa: E402
from commands import commands  # noqa: E402
from correction import correction  # noqa: E402
from equality import equality  # noqa: E402
from estimator import estimator  # noqa: E402
from exact import certified, shards  # noqa: E402
from forgetting import accuracy, adult, cost, digits, fashion  # noqa: E402
from going_on import going_on  # noqa: E402
from growth import growth  # noqa: E402
from hardened import hardened  # noqa: E402
from intersection import intersection, new_rows, scale  # noqa: E402
from language_models import language_models  # noqa: E402
from local_start import local_start  # noqa: E402
from method_kills import method_kills  # noqa: E402
from peers import SPU, peers  # noqa: E402
from people import bank_and_centre, default_auc  # noqa: E402
from requests_bench import request_sections  # noqa: E402
from resume import resume  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from simulated import clients_a_round, simulated  # noqa: E402
from steps import steps  # noqa: E402
from trajectory import trajectory  # noqa: E402
from transport import transport  # noqa: E402
from wrong_orders import wrong_orders  # noqa: E402

from parties.experiments.provenance import Provenance  # noqa: E402

ROOT = HERE.parents[1]
Report = Callable[[str], None]


def sections(data: Path) -> dict[str, Callable[[Report], Iterator[Row]]]:
    """Return the sections by name."""
    return {
        "equality": lambda report: equality(),
        "intersection": intersection,
        "new rows": new_rows,
        "transport": transport,
        "scale": scale,
        "hardened": hardened,
        "peers": peers,
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
        "clients a round": lambda report: clients_a_round(data, report),
        "client kills": client_kills,
        "method kills": method_kills,
        **request_sections(data),
        "going on": lambda report: going_on(data, report),
        "label correction": lambda report: correction(data, report),
        "bank and call centre": bank_and_centre,
        "default AUC": lambda report: default_auc(data, report),
        "estimator": estimator,
        "local start": lambda report: local_start(data, report),
        "language models": lambda report: language_models(data, report),
    }


def main() -> None:
    """Measure the stale sections, the sections given as arguments, or all."""
    options = argparse.ArgumentParser(prog="make bench", description=__doc__)
    options.add_argument("only", nargs="*", help="sections (default: those whose code has changed)")
    options.add_argument("--all", action="store_true", help="measure all sections")
    options.add_argument("--data", type=Path, help="folder of the data sets")
    arguments = options.parse_args()
    # Parties that the sections start find files beside their config, not in this folder.
    given = os.environ.pop("VFL_DATA", ROOT.parent / "shared" / "data")
    data = arguments.data or Path(given)
    torch.set_num_threads(1)
    console = Console()
    known = sections(data)
    if unknown := sorted(set(_parts_of(arguments.only, known)) - set(known)):
        options.error(f"unknown sections: {', '.join(unknown)}; choose from: {', '.join(known)}")
    installed = [name for name in known if name != "peers" or SPU.exists()]
    stale = partial(Records.read().stale_sections, installed, console.print)
    chosen = list(_parts_of(arguments.only, known)) or list(installed if arguments.all else stale())
    measured: list[Row] = []
    with console.status("measuring") as status:
        for name in chosen:
            rows = list(_print_rows(known[name](status.update), console))
            store(name, rows, Provenance.here(SECTIONS[name].scope))
            measured += rows
    console.print(_table(measured))
    sys.exit(any(row.ok is False for row in measured))


def _parts_of(names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield the names of sections; ``requests`` means all sections that begin with "request "."""
    for name in names:
        yield from [each for each in known if each.startswith("request ")] * (name == "requests")
        yield from [name] * (name != "requests")


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
