"""Draw ``docs/demo.svg`` from a run of the demo: its progress at one moment, then its result.

Run it with ``python tests/bench/picture.py`` after the demo's output has changed.
"""

import re
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI

from configs.config_file import read_config
from parties.cli.modes import SCHEMAS
from parties.cli.progress_view import ProgressView
from parties.report.terminal import FULL_WIDTH, report_tables
from parties.session.simulation import SimulationPlan, simulate_processes
from parties.vertical.methods.registry import SCHEMA

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "configs" / "vertical" / "digits.toml"
MOMENT = "retrain-2"


def main() -> None:
    """Run the demo, record its progress once, and draw both."""
    console = Console(record=True, width=FULL_WIDTH, file=StringIO(), force_terminal=True)
    parties = read_config(DIGITS, SCHEMA).agreement.parties
    view = ProgressView(console, {name: party.role for name, party in parties.items()})
    moments: list[Any] = []

    def listen(event: dict[str, Any]) -> None:
        view.show(event)
        halfway = event.get("phase") == MOMENT and event["done"] > event["total"] / 2
        if halfway and not moments:
            moments.append(view._table())

    with TemporaryDirectory() as folder:
        metrics = simulate_processes(
            SimulationPlan(DIGITS, (), Path(folder), None, schemas=SCHEMAS), listen
        )
    console.print("[dim]$[/] make demo\n")
    console.print(moments[0])
    console.print("\n")
    console.print(report_tables(metrics, FULL_WIDTH))
    drawn = console.export_svg(title="make demo", theme=MONOKAI)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # no external fonts
    (ROOT / "docs" / "demo.svg").write_text(svg.replace("Fira Code,", ""))


main()
