"""Two sharded runs: one forgets rows, and the parties of the other never had these rows."""

from pathlib import Path
from typing import Any

from whole_run import QUICK, run

PLAN: dict[str, Any] = {
    "preprocessing": "declared",
    "sharding": {"shards": 3},
    "training": {"learning_rate": 0.01, "batch": 16, "epochs": 2},
    "unlearning": QUICK | {"method": "sharded", "compare": ()},
}
GONE = [f"p{number}" for number in range(3)]


def remove_rows(folder: Path) -> None:
    """Remove the rows from every party's data."""
    for path in folder.glob("*.csv"):
        lines = path.read_text().splitlines()
        kept = [line for line in lines if line.split(",")[0] not in GONE]
        path.write_text("\n".join(kept) + "\n")


def digests(metrics: dict[str, Any], when: str) -> dict[int, dict[str, str]]:
    (request,) = metrics["requests"]
    rows = {each["name"]: each for each in request["methods"]}
    return {each["shard"]: each[when] for each in rows["sharded"]["details"]["sharding"]["digests"]}


def run_with_and_without_rows(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metrics of both runs; the second run forgets another row.

    So the original model of the second run is in its report.
    """
    for name in ("saw", "never"):
        (folder / name).mkdir()
    ours = PLAN | {"unlearn": ({"name": "gone"},)}
    saw = run(folder / "saw", ids={"gone": "\n".join(GONE) + "\n"}, **ours)
    never = run(folder / "never", ids={"gone": "p50\np51\np52\n"}, before=remove_rows, **ours)
    return saw, never
