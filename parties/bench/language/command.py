"""``vfl bench language``: the tables of language models that forget."""

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

LIST = Path(__file__).parents[3] / "configs" / "bench" / "language.toml"
LEAD = (
    "MU: model utility. FTR: truth ratio of the forgotten questions, as the paper has it. KS: the "
    "two-sample distance of these ratios to Retrain's, from 0 to 1. Finetune is the model before "
    "unlearning. What the paper does not have: Retrain's own ratios to be near to, RMU and the "
    "primal-dual constraint in a federation. A high FTR is no success by itself: what counts is "
    "how near a method comes to Retrain, and at which utility."
)


def language(  # noqa: PLR0913  a command has the options that it has
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
    """Make the tables of Oblivionis (arXiv 2508.08875), ours beside the paper's.

    On a CPU it is the tiny model of `vfl language tiny`, whose folder is DIR/tiny; with a GPU and
    the weights in DIR, --gpu --tables 2 and so on make one table each. What was finished before is
    not repeated; a run that fails is named, and the tables are made of what is there.

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
    from parties.bench.federated import federated_runs, read_list
    from parties.bench.language.blocks import read_blocks
    from parties.bench.language.harvest import harvest
    from parties.bench.language.verdicts import language_verdicts
    from parties.bench.making import Bench
    from parties.bench.record import Pages

    found, blocks = read_list(listed), read_blocks()
    return Bench(
        name="language",
        runs=lambda scope: federated_runs(found, listed.parent, scope),
        harvest=harvest,
        pages=Pages(
            folder="llm",
            rows="llm.json",
            tables="language models' tables",
            lead=LEAD,
            source=blocks.source,
            blocks=blocks.block,
            judge=language_verdicts,
        ),
        tables=found.tables,
        experiments=[each.name for each in found.experiment],
    )
