"""Record a run of the demo in ``docs/demo.json``, from which docs/pictures.py draws the picture.

Run ``python tests/bench/picture.py`` after the demo's output has changed, then ``make pictures``.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench.scopes import SECTIONS  # noqa: E402

from configs.config_file import read_config  # noqa: E402
from parties.cli.commands.demo import QUICK  # noqa: E402
from parties.cli.modes import SCHEMAS  # noqa: E402
from parties.experiments.provenance import Provenance  # noqa: E402
from parties.session.simulation import SimulationPlan, simulate_processes  # noqa: E402
from parties.vertical.methods.registry import SCHEMA  # noqa: E402

DIGITS = ROOT / "configs" / "vertical" / "digits.toml"
MOMENT = "retrain-2"  # the picture shows the progress in the middle of this phase


def main() -> None:
    """Run the demo and write its record."""
    events: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        metrics = simulate_processes(
            SimulationPlan(DIGITS, QUICK, Path(folder), None, schemas=SCHEMAS), events.append
        )
    section = SECTIONS["demo"]
    record = demo_record(events, metrics, Provenance.here(section.scope))
    (ROOT / section.path).write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n")


def demo_record(
    events: Iterable[dict[str, Any]], metrics: dict[str, Any], provenance: Provenance
) -> dict[str, Any]:
    """Return what the picture shows: the progress of each party at one moment, and the metrics.

    The steps of all methods, and the figures of all methods but the chosen one, are left out.
    """
    agreed = read_config(DIGITS, SCHEMA).agreement
    progress: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["event"] == "progress":
            progress[event["party"]] = event
            if event["phase"] == MOMENT and 2 * event["done"] > (event["total"] or 2):
                break
    metrics = json.loads(json.dumps(metrics))
    metrics["training"]["steps"] = []
    for request in metrics["requests"]:
        for method in request["methods"]:
            method["steps"] = []
            if method["name"] != request["chosen"]:
                method["figures"] = []
    return {
        **asdict(provenance),
        "roles": {name: party.role for name, party in agreed.parties.items()},
        "progress": [progress[name] for name in agreed.parties if name in progress],
        "metrics": metrics,
    }


if __name__ == "__main__":
    main()
