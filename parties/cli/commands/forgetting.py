"""``vfl bench forgetting``: membership audits of the unlearning methods, on many models at once."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.console import Console
from parties.cli.options import DataOption, DebugOption

if TYPE_CHECKING:
    from parties.experiments.population.plan import Study
    from parties.experiments.population.study import Record

STUDY = Path(__file__).parents[3] / "configs" / "bench" / "forgetting.toml"
MIXED = "**Mixed:** the parts were computed by more than one version of the program.\n\n"


@dataclass(frozen=True, slots=True)
class ForgettingOptions:
    """The options of ``vfl bench forgetting``."""

    study: Path
    data: Path | None
    out: Path
    docs: Path
    seeds: int
    only: tuple[str, ...]
    threads: int


def forgetting_command(  # noqa: PLR0913  one parameter per option
    *,
    data: DataOption = None,
    study: Annotated[
        Path,
        typer.Option(
            help="Read the study (the populations of models, and the methods) from this TOML file."
        ),
    ] = STUDY,
    out: Annotated[
        Path,
        typer.Option(
            help="Store finished parts of the study in this folder; stored parts are not repeated."
        ),
    ] = Path("runs/forgetting"),
    docs: Annotated[
        Path,
        typer.Option(
            help="Write the page with the results, its plot and its JSON file into this folder."
        ),
    ] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per population.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run only the population with this name; may be repeated."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Number of threads that torch uses.")] = 2,
    debug: DebugOption = False,
) -> None:
    """Audit unlearning methods with a likelihood-ratio test on many models.

    The command trains dozens of models at once, and each method unlearns different rows in each
    model. For each row, a likelihood-ratio test then tries to distinguish models that unlearned the
    row from models that were trained without the row. An AUC of 0.5 means that the test cannot
    distinguish the two kinds of models. If the command is repeated, it reads finished results from
    their files.

    Exit codes: 2 usage, 3 config, 4 data, 7 storage.
    """
    options = ForgettingOptions(study, data, out, docs, seeds, tuple(only or ()), threads)
    console = Console("vfl", json_lines=False, debug=debug)
    console.run(lambda: _run(options, console))


def _run(options: ForgettingOptions, console: Console) -> None:
    import torch

    from parties.experiments.bench.record import merge_rows
    from parties.experiments.population.checks import (
        draw_study,
        study_checks,
        study_points,
        study_table,
    )
    from parties.experiments.population.plan import read_study
    from parties.experiments.population.study import summarise_study
    from parties.experiments.provenance import Provenance

    torch.set_num_threads(options.threads)
    study = read_study(options.study)
    records = _records(study, options, console)
    summaries = list(summarise_study(records))
    options.docs.mkdir(parents=True, exist_ok=True)
    (options.docs / "forgetting.md").write_text(
        _page(study, records, options, study_table(summaries))
    )
    measured = Provenance.common(Provenance(**record["provenance"]) for record in records)
    points = study_points(summaries)
    content = {**asdict(measured), "points": [asdict(each) for each in points]}
    (options.docs / "forgetting.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    )
    draw_study(points, options.docs / "forgetting.png")
    rows = [asdict(check) for check in study_checks(summaries)]
    merge_rows(options.docs / "fedora.json", "forgetting", rows, measured)
    console.print(f"page:    {options.docs / 'forgetting.md'}", event="result")
    console.print(f"figures: {options.docs / 'fedora.json'}", event="result")


def _records(study: "Study", options: ForgettingOptions, console: Console) -> "Sequence[Record]":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from parties.experiments.population.study import StudyPlace, run_study_parts

    place = StudyPlace(options.study.parent, options.data, options.out)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console.terminal) as progress:
        work = list(run_study_parts(study, study.chosen(options.only), place, options.seeds))
        bar = progress.add_task("populations", total=len(work))

        def describe(text: str) -> None:
            progress.update(bar, description=text)

        return [_run_part(part, describe, lambda: progress.advance(bar)) for part in work]


def _run_part(
    part: "Callable[[Callable[[str], None]], Record]",
    describe: Callable[[str], None],
    advance: Callable[[], None],
) -> "Record":
    record = part(describe)
    advance()
    return record


def _page(
    study: "Study", records: "Sequence[Record]", options: ForgettingOptions, tables: str
) -> str:
    from datetime import UTC, datetime
    from importlib.metadata import version

    when = datetime.now(UTC).date().isoformat()
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "scikit-learn"))
    return (
        "# Forgetting, measured per example\n\n"
        f"Written by `vfl bench forgetting --seeds {options.seeds} --data DIR` on {when} "
        f"with {versions}, in {sum(record['seconds'] for record in records) / 3600:.1f} h. "
        f"The tables show means over seeds {study.first} to {study.first + options.seeds - 1} "
        "with one standard error. An AUC of 0.5 means that attacks cannot distinguish a model "
        "from a model that was never trained on the rows.\n\n"
        f"{MIXED if len({record['provenance']['code'] for record in records}) > 1 else ''}"
        "*Equivalent* means that two one-sided tests at the 5 % level, over all models, show "
        "that the test accuracy differs from the mean of the Retrain models by less than one "
        "standard deviation of their accuracies. For the last column, an "
        "attack decides for each model as a whole, by all forgotten rows together, whether the "
        "model is an unlearned model or a Retrain. The attack's true and false positive rates give "
        "a lower bound for the ε of every (ε, δ) guarantee that could be claimed (δ = 0, "
        "Clopper-Pearson, all seeds pooled). The second number of the column is the "
        "bound that a perfect attack would reach with the same number of models. A bound of 0 "
        "excludes no value of ε. No method on this page claims an ε.\n\n"
        "![AUC of both audits for every method](forgetting.png)\n\n"
        "<!-- state: forgetting -->\n<!-- end -->\n\n"  # `make docs` fills it in
        f"{tables}"
    )
