"""``vfl bench horizontal``: the tables of client unlearning."""

from pathlib import Path
from typing import TYPE_CHECKING

from parties.cli.commands.bench_command import command

if TYPE_CHECKING:
    from parties.experiments.bench.run import Bench

SAID = "Make the tables of client unlearning that a CPU can make, ours beside the papers'."

LEAD = (
    "ASR: the part of the leaving client's own rows with the trigger that still follow it. R-Acc: "
    "test accuracy of those who stay, the mean of all clients alike. ¹: after the rounds that "
    "unlearn; ²: after those that recover. FedOSD's paper trains 2,000 rounds on all rows; here it "
    "is 300 (MNIST: 100) on a fifth of them. FU-PGA's: 10 rounds, on three tenths. Mimir's: 12 "
    "rounds (Fashion-MNIST 40), on a sixth. A Retrain gets as many rounds as the original had. "
    "Mimir: D_r and D_f are the training rows of C_r, a client that stays, and of C_f, which "
    "leaves, both by the whole model of C_r. Where their classes differ the original by C_r does "
    "not know D_f either, so a low figure there proves nothing."
)


def _bench(listed: Path) -> "Bench":
    from parties.experiments.bench.federated import federated_runs, read_list
    from parties.experiments.bench.horizontal.blocks import read_blocks
    from parties.experiments.bench.horizontal.extract import harvest
    from parties.experiments.bench.horizontal.verdicts import horizontal_verdicts
    from parties.experiments.bench.record import Pages
    from parties.experiments.bench.run import Bench

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


horizontal = command("horizontal", SAID, _bench)
