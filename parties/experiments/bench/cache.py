"""Cache of finished benchmark runs: ``runs.json`` beside the result pages.

A run takes minutes to hours, and the folder of a run takes gigabytes. The values for the tables
take only a few kilobytes. Runs in the cache are not repeated, even if a benchmark continues on
another machine or with more seeds. To repeat a run, remove the line of the run from ``runs.json``.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs.errors import ConfigError
from parties.common.atomic_file import write_atomically
from parties.experiments.bench.plan import Extract, PlannedRun, Values
from parties.experiments.provenance import Provenance

FILE = "runs.json"


@dataclass(frozen=True, slots=True)
class CachedRun:
    """The values of one finished run."""

    title: str  # readable name of the run
    commit: str  # provenance of the run: commit, machine, and digest of the code
    machine: str
    code: str
    seconds: float  # duration of the run
    values: dict[str, Values]  # the values by method and measure
    base: str = ""  # LLM mode: digest of the base model; empty: not recorded

    @property
    def provenance(self) -> Provenance:
        """Commit, machine and digest of the code."""
        return Provenance(self.commit, self.machine, self.code)


def extract_records(
    runs: Iterable[PlannedRun], records: Mapping[str, Any], read: Extract
) -> dict[str, CachedRun]:
    """Return the values of every run in ``records``.

    The keys of ``records`` and of the result are digests of runs.
    """
    found: dict[str, CachedRun] = {}
    for run in runs:
        if run.digest in records:
            metrics = records[run.digest]
            about = metrics["bench"]
            found[run.digest] = CachedRun(
                run.title,
                **about["provenance"],
                seconds=about["seconds"],
                values=read(run, metrics),
                base=metrics["run"].get("base") or "",
            )
    return found


def read_cache(folder: Path) -> dict[str, CachedRun]:
    """Return the cached runs in ``folder``, by run digest; empty if there is no cache file.

    Raises:
        ConfigError: the file was not written by ``write_cache``.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        return {digest: CachedRun(**each) for digest, each in json.loads(path.read_bytes()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}", "restore the file from the repository, or delete it"
        ) from error


@contextmanager
def lock_pages(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``folder`` in a ``with`` block; other processes wait."""
    folder.mkdir(parents=True, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def write_cache(folder: Path, runs: Mapping[str, CachedRun]) -> None:
    """Write the cached runs to ``folder``, sorted by title."""
    ordered = sorted(runs.items(), key=lambda each: (each[1].title, each[0]))
    lines = [
        f"{json.dumps(digest)}: {json.dumps(_as_json(each), ensure_ascii=False)}"
        for digest, each in ordered
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(
        folder / FILE, ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    )  # one line a run
    (folder / FILE).chmod(0o644)


def _as_json(run: CachedRun) -> dict[str, Any]:
    """Return a run as a JSON object, without an empty digest of the base model."""
    return {name: value for name, value in asdict(run).items() if name != "base" or value}
