"""The three benchmarks of ``vfl bench``: their runs and their result pages."""

from pathlib import Path

from configs.experiments import read_experiments
from parties.experiments.bench.blocks import read_fedora_blocks
from parties.experiments.bench.extract import extract_vertical
from parties.experiments.bench.horizontal.blocks import read_horizontal_blocks
from parties.experiments.bench.horizontal.extract import extract_horizontal
from parties.experiments.bench.horizontal.verdicts import horizontal_verdicts
from parties.experiments.bench.language.blocks import read_language_blocks
from parties.experiments.bench.language.extract import extract_language
from parties.experiments.bench.language.verdicts import language_verdicts
from parties.experiments.bench.plan import (
    plan_federated_runs,
    plan_vertical_runs,
    read_federated_experiments,
)
from parties.experiments.bench.record import Pages, fedora_pages
from parties.experiments.bench.run import Bench

HORIZONTAL_LEAD = (
    "ASR: the part of the leaving client's own rows with the trigger that still follow it. R-Acc: "
    "test accuracy of those who stay, the mean of all clients alike. ¹: after the rounds that "
    "unlearn; ²: after those that recover. FedOSD's paper trains 2,000 rounds on all rows; here it "
    "is 300 (MNIST: 100) on a fifth of them. FU-PGA's: 10 rounds, on three tenths. Mimir's: 12 "
    "rounds (Fashion-MNIST 40), on a sixth. A Retrain gets as many rounds as the original had. "
    "Mimir: D_r and D_f are the training rows of C_r, a client that stays, and of C_f, which "
    "leaves, both by the whole model of C_r. Where their classes differ the original by C_r does "
    "not know D_f either, so a low figure there proves nothing."
)

LANGUAGE_LEAD = (
    "MU: model utility. FTR: truth ratio of the forgotten questions, as the paper has it. KS: the "
    "two-sample distance of these ratios to Retrain's, from 0 to 1. Finetune is the model before "
    "unlearning. What the paper does not have: Retrain's own ratios to be near to, RMU and the "
    "primal-dual constraint in a federation. A high FTR is no success by itself: what counts is "
    "how near a method comes to Retrain, and at which utility."
)


def fedora_bench(listed: Path) -> Bench:
    """Return the benchmark of FedORA; ``listed`` is its file of experiments."""
    found = read_experiments(listed)
    return Bench(
        name="fedora",
        runs=lambda scope: plan_vertical_runs(found, listed.parent, scope),
        harvest=extract_vertical,
        pages=fedora_pages(read_fedora_blocks()),
        tables=sorted({table for each in found.experiment for table in each.tables}),
        experiments=[each.name for each in found.experiment],
    )


def horizontal_bench(listed: Path) -> Bench:
    """Return the benchmark of client unlearning; ``listed`` is its file of experiments."""
    found, blocks = read_federated_experiments(listed), read_horizontal_blocks()
    return Bench(
        name="horizontal",
        runs=lambda scope: plan_federated_runs(found, listed.parent, scope),
        harvest=extract_horizontal,
        pages=Pages(
            folder="horizontal",
            rows="horizontal.json",
            tables="client unlearning's tables",
            lead=HORIZONTAL_LEAD,
            source=blocks.source,
            blocks=blocks.block,
            judge=horizontal_verdicts,
        ),
        tables=found.tables,
        experiments=[each.name for each in found.experiment],
    )


def language_bench(listed: Path) -> Bench:
    """Return the benchmark of language models; ``listed`` is its file of experiments."""
    found, blocks = read_federated_experiments(listed), read_language_blocks()
    return Bench(
        name="language",
        runs=lambda scope: plan_federated_runs(found, listed.parent, scope),
        harvest=extract_language,
        pages=Pages(
            folder="llm",
            rows="llm.json",
            tables="language models' tables",
            lead=LANGUAGE_LEAD,
            source=blocks.source,
            blocks=blocks.block,
            judge=language_verdicts,
        ),
        tables=found.tables,
        experiments=[each.name for each in found.experiment],
    )


BENCHES = {"fedora": fedora_bench, "horizontal": horizontal_bench, "language": language_bench}
