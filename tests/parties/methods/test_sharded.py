"""Shards: what was trained again is, bit for bit, what a run without the rows would have."""

import json
from pathlib import Path
from typing import Any

from runs import QUICK, run

from parties.report.page import page
from parties.save import canonical

PLAN: dict[str, Any] = {
    "preprocessing": "declared",
    "sharding": {"shards": 3},
    "training": {"learning_rate": 0.01, "batch": 16, "epochs": 2},
    "unlearning": QUICK | {"method": "sharded", "compare": ()},
}
GONE = [f"p{number}" for number in range(3)]


def without(folder: Path) -> None:
    """Take the rows out of every party's own data."""
    for path in folder.glob("*.csv"):
        lines = path.read_text().splitlines()
        kept = [line for line in lines if line.split(",")[0] not in GONE]
        path.write_text("\n".join(kept) + "\n")


def digests(metrics: dict[str, Any], when: str) -> dict[int, dict[str, str]]:
    (request,) = metrics["requests"]
    rows = {each["name"]: each for each in request["methods"]}
    return {each["shard"]: each[when] for each in rows["sharded"]["facts"]["sharding"]["digests"]}


def test_a_shard_that_forgot_is_the_shard_that_never_saw(tmp_path: Path) -> None:
    for name in ("saw", "never"):
        (tmp_path / name).mkdir()
    ours = PLAN | {"unlearn": ({"name": "gone"},)}
    saw = run(tmp_path / "saw", ids={"gone": "\n".join(GONE) + "\n"}, **ours)
    # The other run forgets somebody else: it shows the digests of what it had learned before.
    never = run(tmp_path / "never", ids={"gone": "p50\np51\np52\n"}, before=without, **ours)
    before, after, clean = (
        digests(saw, "before"), digests(saw, "after"), digests(never, "before")
    )  # fmt: skip
    touched = saw["requests"][0]["methods"][1]["facts"]["sharding"]["touched"]
    assert 0 < len(touched) < 3
    assert saw["requests"][0]["forgotten"] > 0
    for shard in range(3):
        assert after[shard] == clean[shard]
        assert set(after[shard]) == {"hub", "left", "right"}
        assert (after[shard] == before[shard]) is (shard not in touched)
    assert saw["run"]["guarantee"] == "exact"
    assert "exact" in page(json.loads(canonical(saw)))
