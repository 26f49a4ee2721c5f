"""Converts recorded benchmark runs to the present names of config keys; values stay untouched.

    python tests/bench/convert_records.py

``docs/*/runs.json`` names each run by a digest of its settings. When config keys are renamed, the
same settings have another digest. This command finds the run of the same title in the present
experiments and gives the record its digest. It changes nothing where all digests are right.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from parties.experiments.bench.benches import BENCHES  # noqa: E402
from parties.experiments.bench.cache import read_cache, write_cache  # noqa: E402
from parties.experiments.bench.plan import Scope  # noqa: E402


def convert(name: str) -> str:
    """Convert the record of benchmark ``name``; return one line for the terminal.

    Raises:
        LookupError: a recorded title names no experiment, or several.
    """
    bench = BENCHES[name](ROOT / "configs" / "bench" / f"{name}.toml")
    folder = ROOT / "docs" / bench.pages.folder
    records = read_cache(folder)
    digests: dict[str, list[str]] = {}
    for run in bench.runs(Scope(gpu=True)):
        digests.setdefault(run.title, []).append(run.digest)
    unclear = [each.title for each in records.values() if len(digests.get(each.title, ())) != 1]
    if unclear:
        raise LookupError(f"{folder}: no single experiment for {', '.join(unclear)}")
    converted = {digests[each.title][0]: each for each in records.values()}
    changed = sum(old not in converted for old in records)
    if changed:
        write_cache(folder, converted)
    return f"{name}: {len(records)} runs, {changed} renamed"


if __name__ == "__main__":
    for each in ("horizontal", "language"):
        sys.stdout.write(convert(each) + "\n")
