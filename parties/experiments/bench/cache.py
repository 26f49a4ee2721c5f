"""The figures of finished runs beside a bench's pages, so that they outlive the machine.

A run takes minutes to hours and its folder gigabytes; what the tables read of it takes a few
kilobytes. Whoever goes on elsewhere, or with more seeds, need not make it again. To make one anew,
take it out of the file.
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
from parties.common.atomic_file import write
from parties.experiments.bench.extract import Harvest, Values
from parties.experiments.bench.plan import Run

FILE = "runs.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """One run.

    Attributes:
        title: for people.
        sources: the digest of the program that made it.
        seconds: that it took.
        values: figures by method, as ``harvest`` has them.
    """

    title: str
    sources: str
    seconds: float
    values: dict[str, Values]


def reaped(runs: Iterable[Run], records: Mapping[str, Any], read: Harvest) -> dict[str, Stored]:
    """What the records of runs say, by the runs' digests; several runs may share one."""
    found: dict[str, Stored] = {}
    for run in runs:
        if run.digest in records:
            metrics = records[run.digest]
            about = metrics["bench"]
            found[run.digest] = Stored(
                run.title, about["sources"], about["seconds"], read(run, metrics)
            )
    return found


def kept(folder: Path) -> dict[str, Stored]:
    """The runs whose figures lie beside the pages in ``folder``; none where there is no file.

    Raises:
        ConfigError: the file is not one that ``keep`` wrote.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        return {digest: Stored(**each) for digest, each in json.loads(path.read_bytes()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}", "take it from the repository again, or remove it"
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else publishes into ``folder``; whoever comes second waits for the first."""
    folder.mkdir(parents=True, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def keep(folder: Path, runs: Mapping[str, Stored]) -> None:
    """Write them, in the order of their titles."""
    ordered = sorted(runs.items(), key=lambda each: (each[1].title, each[0]))
    lines = [
        f"{json.dumps(digest)}: {json.dumps(asdict(each), ensure_ascii=False)}"
        for digest, each in ordered
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / FILE, ("{\n" + ",\n".join(lines) + "\n}\n").encode())  # one line a run
    (folder / FILE).chmod(0o644)
