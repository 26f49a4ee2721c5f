"""Draw the pictures of the pages from the records; ``make pictures`` runs it.

``docs/demo.svg`` is drawn from docs/demo.json, and ``docs/*/figure-*.png`` from the ``tables.json``
beside them; docs/generate.py draws the figure of the forgetting study. A PNG contains the digest of
the drawn values in the text chunk ``Record``; tests/test_figures.py compares it with the record.
"""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI

from parties.cli.progress_view import ProgressView
from parties.experiments.bench.benches import BENCHES
from parties.experiments.bench.record import draw_pictures
from parties.report.terminal import FULL_WIDTH, report_tables

DOCS = Path(__file__).parent
BAR = 3  # column of the progress bars
LISTS = DOCS.parent / "configs" / "bench"  # the experiments of each benchmark


def main() -> None:
    """Draw all pictures."""
    (DOCS / "demo.svg").write_text(demo_picture(read(DOCS / "demo.json")))
    for name, bench in BENCHES.items():
        draw_pictures(bench(LISTS / f"{name}.toml").pages, DOCS)


def read(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text())


def demo_picture(record: Any) -> str:
    """The terminal of the demo as SVG: its progress at one moment, then its result."""
    console = Console(record=True, width=FULL_WIDTH, file=StringIO(), force_terminal=True)
    view = ProgressView(console, record["roles"])
    for event in record["progress"]:
        view.show(event)
    console.print("[dim]$[/] make demo\n")
    table = view._table()
    for bar in table.columns[BAR].cells:
        bar.animation_time = 0.0  # the picture does not depend on the time
    console.print(table)
    console.print("\n")
    console.print(report_tables(record["metrics"], FULL_WIDTH))
    drawn = console.export_svg(title="make demo", theme=MONOKAI)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # no external fonts
    return svg.replace("Fira Code,", "")


if __name__ == "__main__":
    main()
