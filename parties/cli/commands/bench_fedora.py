"""``vfl bench fedora``: all runs of the paper's tables, then the tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from parties.cli.commands.bench_command import command

if TYPE_CHECKING:
    from parties.experiments.bench.run import Bench

SAID = "Make the tables and figures of FedORA that a CPU can make, ours beside the paper's."


def _bench(listed: Path) -> "Bench":
    from configs.experiments import read_experiments
    from parties.experiments.bench.blocks import read_blocks
    from parties.experiments.bench.extract import harvest
    from parties.experiments.bench.plan import runs
    from parties.experiments.bench.record import fedora_pages
    from parties.experiments.bench.run import Bench

    found = read_experiments(listed)
    return Bench(
        name="fedora",
        runs=lambda scope: runs(found, listed.parent, scope),
        harvest=harvest,
        pages=fedora_pages(read_blocks()),
        tables=sorted({table for each in found.experiment for table in each.tables}),
        experiments=[each.name for each in found.experiment],
    )


fedora = command("fedora", SAID, _bench)
