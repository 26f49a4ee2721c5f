"""``make house``: measure the structure of the product, or list what breaks a rule.

Without an option: print a table and write ``docs/house.json``.
``python tests/structure --list raises --path psi/`` prints a line for each place.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[place]) for place in (1, 2))

from bench.ledger import Row, store
from bench.scopes import SECTIONS
from rich.console import Console
from rich.table import Table

from parties.experiments.provenance import Provenance
from structure.docstrings import references, without_raises, without_shapes
from structure.duplicates import unlisted_duplicates
from structure.imports import breaches, longest_chain
from structure.rows import rows
from structure.source import Culprit, Source, module_name, read_source


def chain(source: Source) -> list[Culprit]:
    """The files of the longest chain of top-level imports."""
    return [
        Culprit(path, 1, module_name(path), f"link {number}")
        for number, path in enumerate(longest_chain(source), 1)
    ]


LISTS: dict[str, Callable[[Source], list[Culprit]]] = {
    "raises": without_raises,
    "shapes": without_shapes,
    "names": unlisted_duplicates,
    "see": references,
    "breaches": breaches,
    "chain": chain,
}


def main() -> None:
    """List the places that break one rule, or measure everything."""
    options = argparse.ArgumentParser(prog="make house", description=__doc__)
    options.add_argument("--list", choices=LISTS, help="print the places that break this rule")
    options.add_argument("--path", default="", help="print only files whose path begins with this")
    given = options.parse_args()
    source = read_source()
    if given.list:
        found = [each for each in LISTS[given.list](source) if each.path.startswith(given.path)]
        sys.stdout.writelines(f"{each}\n" for each in found)
        print(f"{len(found)} in all")
        return
    measured = [*rows(source)]
    store("house", measured, Provenance.here(SECTIONS["house"].scope))
    Console().print(_table(measured))
    sys.exit(any(row.ok is False for row in measured))


def _table(measured: list[Row]) -> Table:
    table = Table(title="The structure of the product", title_justify="left")
    for heading in ("", "figure", "value", "wanted"):
        table.add_column(heading, overflow="fold")
    for row in measured:
        table.add_row("yes" if row.ok else "NO", row.name, f"{row.value} {row.unit}", row.wanted)
    return table


if __name__ == "__main__":
    main()
