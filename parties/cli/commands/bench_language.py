"""``vfl bench language``: the tables of language models that forget."""

from pathlib import Path
from typing import TYPE_CHECKING

from parties.cli.commands.bench_command import command

if TYPE_CHECKING:
    from parties.experiments.bench.run import Bench

SAID = """Make the tables of Oblivionis (arXiv 2508.08875), ours beside the paper's.

On a CPU it is the tiny model of `vfl language tiny`, whose folder is DIR/tiny; with a GPU and the
weights in DIR, --gpu --tables 2 and so on make one table each."""

LEAD = (
    "MU: model utility. FTR: truth ratio of the forgotten questions, as the paper has it. KS: the "
    "two-sample distance of these ratios to Retrain's, from 0 to 1. Finetune is the model before "
    "unlearning. What the paper does not have: Retrain's own ratios to be near to, RMU and the "
    "primal-dual constraint in a federation. A high FTR is no success by itself: what counts is "
    "how near a method comes to Retrain, and at which utility."
)


def _bench(listed: Path) -> "Bench":
    from parties.experiments.bench.federated import federated_runs, read_list
    from parties.experiments.bench.language.blocks import read_blocks
    from parties.experiments.bench.language.extract import harvest
    from parties.experiments.bench.language.verdicts import language_verdicts
    from parties.experiments.bench.record import Pages
    from parties.experiments.bench.run import Bench

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


language = command("language", SAID, _bench)
