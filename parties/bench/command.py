"""``vfl bench fedora``: all runs of the paper's tables, then the tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from parties.bench.options import (
    AtOnce,
    Docs,
    Gpu,
    Listed,
    Only,
    OnlyList,
    Out,
    Quick,
    Seeds,
    TablesOption,
    words,
)
from parties.options import DataOption, DebugOption
from parties.teller import Teller

if TYPE_CHECKING:
    from parties.bench.making import Bench

LIST = Path(__file__).parents[2] / "configs" / "bench" / "fedora.toml"


def fedora(  # noqa: PLR0913  a command has the options that it has
    *,
    data: DataOption = None,
    listed: Listed = LIST,
    out: Out = Path("runs/bench"),
    docs: Docs = None,
    tables: TablesOption = "",
    only: Only = None,
    seeds: Seeds = None,
    workers: AtOnce = None,
    gpu: Gpu = False,
    quick: Quick = False,
    only_list: OnlyList = False,
    debug: DebugOption = False,
) -> None:
    """Make the tables and figures of FedORA that a CPU can make, ours beside the paper's.

    Each run is a process of its own with one thread. What was finished before is not repeated; a
    run that fails is named, the others go on, and the tables are made of what is there.

    Exit codes: 1 a run failed, 2 usage, 3 config, 7 storage.
    """
    told = Teller("vfl", json_lines=False, debug=debug)

    def run() -> None:
        from parties.bench.making import Asked, make
        from parties.bench.plan import Scope

        scope = Scope(words(tables), tuple(only or ()), seeds, gpu, quick)
        pages = docs or (out if quick else Path("docs"))
        make(_bench(listed), Asked(data, out, pages, scope, workers, only_list), told)

    told.guard(run)


def _bench(listed: Path) -> "Bench":
    from configs.experiments import read_experiments
    from parties.bench.blocks import read_blocks
    from parties.bench.harvest import harvest
    from parties.bench.making import Bench
    from parties.bench.plan import runs
    from parties.bench.record import fedora_pages

    found = read_experiments(listed)
    return Bench(
        name="fedora",
        runs=lambda scope: runs(found, listed.parent, scope),
        harvest=harvest,
        pages=fedora_pages(read_blocks()),
        tables=sorted({table for each in found.experiment for table in each.tables}),
        experiments=[each.name for each in found.experiment],
    )
