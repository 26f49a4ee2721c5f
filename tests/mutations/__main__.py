"""``python tests/mutations [NAME…]``: plant faults in the product, and show that the tests fail.

For each fault of ``faults.toml``, the tracked files are copied to a temporary folder, the fault is
planted in the copy, and the tests that are expected to catch the fault run there. The same tests
run once in a copy without a fault, where all must pass. The results go to
``docs/house-mutations.json``, from which ``make house`` takes its row.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copy2
from tempfile import TemporaryDirectory
from time import monotonic

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent, HERE.parents[1]):
    sys.path.insert(0, str(folder))

from faults import ROOT, Fault, read_faults  # noqa: E402
from structure.rows import MUTATIONS  # noqa: E402

FAST = "not slow or smoke"  # the tests that `make test` runs
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
PASSED, TESTS_FAILED = 0, 1  # exit codes of pytest


@dataclass(frozen=True, slots=True)
class Result:
    """Whether the tests catch a fault, and the test that fails first."""

    name: str
    caught: bool
    by: str | None


def main() -> None:
    """Plant all faults, or those given as arguments; exit with 1 if one survives."""
    options = argparse.ArgumentParser(prog="python tests/mutations", description=__doc__)
    options.add_argument("only", nargs="*", metavar="NAME", help="faults (default: all)")
    names, faults = options.parse_args().only, read_faults()
    if unknown := {*names} - {each.name for each in faults}:
        options.error(f"no such fault: {', '.join(sorted(unknown))}")
    chosen = [each for each in faults if not names or each.name in names]
    _require_passing(sorted({path for each in chosen for path in each.tests}))
    results = [_try_fault(each) for each in chosen]
    _store(results, [each.name for each in faults])
    caught = sum(each.caught for each in results)
    print(f"{caught} of {len(results)} planted faults are caught")
    sys.exit(caught < len(results))


def _try_fault(fault: Fault) -> Result:
    """Run the tests of a fault, and print and return the result."""
    began = monotonic()
    with _copy() as folder:
        fault.plant(folder)
        by = _first_failure(folder, fault.tests)
    state, seconds = "caught" if by else "SURVIVED", monotonic() - began
    print(f"{state} {fault.name} ({seconds:.0f} s): {by or 'no test fails'}", flush=True)
    return Result(fault.name, by is not None, by)


def _require_passing(tests: Sequence[str]) -> None:
    """Check that the tests pass in a copy of the product without a fault."""
    began = monotonic()
    with _copy() as folder:
        by = _first_failure(folder, tests)
    if by:
        sys.exit(f"{by} fails without a fault; all tests must pass before faults are planted")
    seconds = monotonic() - began
    print(f"without a fault, {len(tests)} files of tests pass ({seconds:.0f} s)", flush=True)


@contextmanager
def _copy() -> Iterator[Path]:
    """A temporary folder with the tracked files, as they are in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    with TemporaryDirectory() as name:
        for path in filter(None, listed.split("\0")):
            if (ROOT / path).is_file():  # a deleted file is listed until the next commit
                (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                copy2(ROOT / path, Path(name) / path)
        yield Path(name)


def _first_failure(folder: Path, tests: Sequence[str]) -> str | None:
    """The first test that fails in a copy of the product; None if all tests pass."""
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-m", FAST, "--color=no",
        "-p", "no:cacheprovider", f"--basetemp={folder / 'tmp'}", *tests,
    ]  # fmt: skip
    paths = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "500"}
    done = subprocess.run(
        command, check=False, cwd=folder, env=os.environ | paths, capture_output=True, text=True
    )
    failed = FAILED.search(done.stdout)
    if done.returncode == PASSED:
        return None
    if done.returncode != TESTS_FAILED or failed is None:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return failed[1]


def _store(results: Sequence[Result], names: Sequence[str]) -> None:
    """Write the results in the order of ``names``; earlier results of other faults stay."""
    path = ROOT / MUTATIONS
    rows = {each["name"]: each for each in json.loads(path.read_text())} if path.exists() else {}
    rows |= {each.name: asdict(each) for each in results}
    kept = [rows[name] for name in names if name in rows]
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
