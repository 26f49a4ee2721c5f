"""``vfl bench horizontal``: the tables of client unlearning."""

from pathlib import Path
from typing import TYPE_CHECKING

from parties.bench.options import (
    AtOnce,
    Docs,
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

LIST = Path(__file__).parents[3] / "configs" / "bench" / "horizontal.toml"
LEAD = (
    "ASR: the part of the leaving client's own rows with the trigger that still follow it. R-Acc: "
    "test accuracy of those who stay, the mean of all clients alike. ¹: after the rounds that "
    "unlearn; ²: after those that recover. The paper trains 2,000 rounds on all rows; here it is "
    "300 (MNIST: 100) on a fifth of them, and a Retrain gets as many rounds as the original had. "
    "Mimir: D_r and D_f are the training rows of C_r, a client that stays, and of C_f, which "
    "leaves, both by the whole model of C_r. Where their classes differ the original by C_r does "
    "not know D_f either, so a low figure there proves nothing."
)


def horizontal(  # noqa: PLR0913  a command has the options that it has
    *,
    data: DataOption = None,
    listed: Listed = LIST,
    out: Out = Path("runs/bench"),
    docs: Docs = None,
    tables: TablesOption = "",
    only: Only = None,
    seeds: Seeds = None,
    workers: AtOnce = None,
    quick: Quick = False,
    only_list: OnlyList = False,
    debug: DebugOption = False,
) -> None:
    """Make the tables of client unlearning that a CPU can make, ours beside the papers'.

    Each run is a process with one worker. What was finished before is not repeated; a run that
    fails is named, the others go on, and the tables are made of what is there.

    Exit codes: 1 a run failed, 2 usage, 3 config, 7 storage.
    """
    told = Teller("vfl", json_lines=False, debug=debug)

    def run() -> None:
        from parties.bench.making import Asked, make
        from parties.bench.plan import Scope

        scope = Scope(words(tables), tuple(only or ()), seeds, gpu=False, quick=quick)
        pages = docs or (out if quick else Path("docs"))
        make(_bench(listed), Asked(data, out, pages, scope, workers, only_list), told)

    told.guard(run)


def _bench(listed: Path) -> "Bench":
    from parties.bench.federated import federated_runs, read_list
    from parties.bench.horizontal.blocks import read_blocks
    from parties.bench.horizontal.harvest import harvest
    from parties.bench.horizontal.verdicts import horizontal_verdicts
    from parties.bench.making import Bench
    from parties.bench.record import Pages

    found, blocks = read_list(listed), read_blocks()
    return Bench(
        name="horizontal",
        runs=lambda scope: federated_runs(found, listed.parent, scope),
        harvest=harvest,
        pages=Pages(
            folder="horizontal",
            rows="horizontal.json",
            tables="client unlearning's tables",
            lead=LEAD,
            source=blocks.source,
            blocks=blocks.block,
            judge=horizontal_verdicts,
        ),
        tables=found.tables,
        experiments=[each.name for each in found.experiment],
    )
