"""``vfl bench forgetting``: membership audits of the unlearning methods, on many models at once."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from parties.cli.console import Console
from parties.cli.options import DataOption, DebugOption, RayOption

if TYPE_CHECKING:
    from parties.experiments.on_ray.studies import Work
    from parties.experiments.population.part import Describe, StudyPlace
    from parties.experiments.population.study import MeasuredPart

STUDY = Path(__file__).parents[3] / "configs" / "bench" / "forgetting.toml"

StudyOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        help="Read the study (the populations of models, and the methods) from this TOML file."
    ),
]
OutOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        help="Store trained models and finished measurements in this folder; they are not repeated."
    ),
]
DocsOption: TypeAlias = Annotated[
    Path, typer.Option(help="Folder of the page with the results and of the chosen settings.")
]
OnlyOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Run only the population with this name; may be repeated."),
]
ThreadsOption: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Number of threads that torch uses.")
]


@dataclass(frozen=True, slots=True)
class ForgettingOptions:
    """The options of the commands of a study."""

    study: Path
    data: Path | None
    out: Path
    docs: Path
    only: tuple[str, ...]
    threads: int
    ray: str | None

    def page(self, suffix: str) -> Path:
        """Return the path of the page, the record or the picture, named after the study's file."""
        return self.docs / f"{self.study.stem}{suffix}"

    def place(self) -> "StudyPlace":
        """Return the folders of the study, and the present code that its figures depend on.

        A study of a user has no scope of its own.
        """
        from parties.experiments.population.part import StudyPlace
        from parties.experiments.provenance import SCOPES, RunningCode

        scope = SCOPES.get(self.study.stem, SCOPES["forgetting"])
        return StudyPlace(self.study.parent, self.data, self.out, RunningCode.begin(scope))


def forgetting_command(  # noqa: PLR0913  one parameter per option
    *,
    data: DataOption = None,
    study: StudyOption = STUDY,
    out: OutOption = Path("runs/forgetting"),
    docs: DocsOption = Path("docs"),
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds per population.")] = 5,
    only: OnlyOption = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Measure only the row with this name; may be repeated."),
    ] = None,
    threads: ThreadsOption = 2,
    ray: RayOption = None,
    debug: DebugOption = False,
) -> None:
    """Audit unlearning methods with likelihood-ratio tests on many models.

    The command trains dozens of models at once, and each method unlearns different rows in each
    model. Attacks then try to distinguish rows that a model unlearned from rows that the model has
    never seen, and unlearned models from Retrain models. An AUC of 0.5 means that the attacks
    cannot distinguish them. The AUCs are corrected for the bias of the attacks, and have intervals
    over seeds. The settings of the methods come from `vfl bench forgetting-search`. If the command
    is repeated, it reads finished measurements from their files. Populations and rows that are not
    measured stay in the record of the study.

    Exit codes: 2 usage, 3 config, 4 data, 7 storage.
    """
    options = ForgettingOptions(study, data, out, docs, tuple(only or ()), threads, ray)
    console = Console("vfl", json_lines=False, debug=debug)
    console.run(lambda: _measure(options, seeds, row or [], console))


def forgetting_search_command(  # noqa: PLR0913  one parameter per option
    *,
    data: DataOption = None,
    study: StudyOption = STUDY,
    out: OutOption = Path("runs/forgetting"),
    docs: DocsOption = Path("docs"),
    only: OnlyOption = None,
    threads: ThreadsOption = 2,
    ray: RayOption = None,
    debug: DebugOption = False,
) -> None:
    """Choose the settings of every method of `vfl bench forgetting` by one rule.

    For each method, the command tries the same number of settings on models of other seeds than
    those of the tables. It takes the settings with the lowest leak among those whose accuracy on
    validation rows is close to that of Retrain. If the command is repeated, it reads finished
    trials from their files.

    Exit codes: 2 usage, 3 config, 4 data, 7 storage.
    """
    options = ForgettingOptions(study, data, out, docs, tuple(only or ()), threads, ray)
    console = Console("vfl", json_lines=False, debug=debug)
    console.run(lambda: _search(options, console))


def _search(options: ForgettingOptions, console: Console) -> None:
    import torch

    from parties.experiments.population.plan import read_study
    from parties.experiments.population.search import (
        NAME,
        search_plans,
        search_settings,
        search_steps,
        write_choices,
    )

    torch.set_num_threads(options.threads)
    study, path, place = read_study(options.study), options.docs / NAME, options.place()
    options.docs.mkdir(parents=True, exist_ok=True)
    chosen = study.chosen(options.only)
    if options.ray is not None:
        plans = [search_plans(study, each, place) for each in chosen]
        _measure_on_ray(options, place, [part for each in plans for part in each], console)
    with _progress(console, "trials", search_steps(study, chosen)) as (describe, advance):
        for population in chosen:
            for choice in search_settings(study, population, place, describe, advance):
                write_choices(path, [choice])
    console.print(f"settings: {path}", event="result")


def _measure(
    options: ForgettingOptions, seeds: int, wanted: Sequence[str], console: Console
) -> None:
    import torch

    from parties.experiments.bench.record import merge_rows
    from parties.experiments.population.plan import read_study
    from parties.experiments.population.recorded import RecordedStudy
    from parties.experiments.population.search import NAME, read_choices, with_choices
    from parties.experiments.population.study import (
        missing_measurements,
        origins_of,
        seconds_of_methods,
        study_plans,
        summarise_study,
    )
    from parties.experiments.provenance import Provenance
    from parties.experiments.study_pages.checks import study_checks
    from parties.experiments.study_pages.figure import draw_study, study_points
    from parties.experiments.study_pages.study_page import study_page

    torch.set_num_threads(options.threads)
    study, place = read_study(options.study), options.place()
    choices = read_choices(options.docs / NAME)
    chosen, recorded = study.chosen(options.only), RecordedStudy.read(options.page(".json"))
    recorded.require(study, chosen, wanted, seeds)
    rows = {
        each.name: with_choices(
            [row for row in study.rows(each) if not wanted or row.name in wanted], each, choices
        )
        for each in chosen
    }
    work = list(study_plans(study, rows, seeds))
    missing = missing_measurements(work, place)
    parts = _measured_parts(options, place, work, console)
    hours = recorded.new_hours(seconds_of_methods(parts), missing)
    recorded = recorded.merged(study, list(summarise_study(parts)), hours, origins_of(parts))
    measured = Provenance.common(recorded.measured)
    content = json.dumps(recorded.content(measured), indent=1, ensure_ascii=False)
    options.docs.mkdir(parents=True, exist_ok=True)
    options.page(".json").write_text(content + "\n")
    recorded = RecordedStudy.read(options.page(".json"))  # what the page and the picture show
    summaries = list(recorded.populations.values())
    options.page("-study.md").write_text(study_page(options.study, recorded, options.docs / NAME))
    draw_study(study_points(summaries), options.page(".png"))
    checks = [asdict(check) for check in study_checks(summaries)]
    merge_rows(options.docs / "fedora.json", options.study.stem, checks, measured)
    console.print(f"page:    {options.page('-study.md')}", event="result")
    console.print(f"figures: {options.docs / 'fedora.json'}", event="result")


def _measured_parts(
    options: ForgettingOptions, place: "StudyPlace", work: "Work", console: Console
) -> "list[MeasuredPart]":
    """Return all measurements of a study, read from their files or computed."""
    from parties.experiments.population.study import measure_part

    if options.ray is not None:
        _measure_on_ray(options, place, work, console)
    parts = []
    with _progress(console, "populations", len(work)) as (describe, advance):
        for plan, methods in work:
            parts.append(measure_part(plan, methods, place, describe))
            advance()
    return parts


def _measure_on_ray(
    options: ForgettingOptions, place: "StudyPlace", work: "Work", console: Console
) -> None:
    """Measure what has no file yet on a Ray cluster; afterwards all measurements have files."""
    from parties.experiments.on_ray.studies import count_missing, measure_on_ray
    from parties.experiments.on_ray.tasks import RayTasks

    missing = count_missing(work, place)
    if not missing:
        return
    with (
        RayTasks(options.ray or "", options.threads) as tasks,
        _progress(console, "measurements on Ray", missing) as progress,
    ):
        measure_on_ray(tasks, work, place, options.threads, progress)


@contextmanager
def _progress(
    console: Console, title: str, total: int
) -> "Iterator[tuple[Describe, Callable[[], None]]]":
    """Show a progress bar; yield functions that change its text and advance it."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console.terminal) as progress:
        bar = progress.add_task(title, total=total)

        def describe(text: str) -> None:
            progress.update(bar, description=text)

        yield describe, lambda: progress.advance(bar)
