"""``vfl bench forgetting``: the strong audits of every way to unlearn, on many models at once."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.console import Teller
from parties.cli.options import DataOption, DebugOption

if TYPE_CHECKING:
    from parties.experiments.population.plan import Study
    from parties.experiments.population.study import Record

STUDY = Path(__file__).parents[3] / "configs" / "bench" / "forgetting.toml"
MIXED = "**Mixed:** the parts were made by more than one state of the program.\n\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    study: Path
    data: Path | None
    out: Path
    docs: Path
    seeds: int
    only: tuple[str, ...]
    threads: int


def forgetting(  # noqa: PLR0913  a command has the options that it has
    *,
    data: DataOption = None,
    study: Annotated[
        Path, typer.Option(help="What is run: populations, and the ways judged on them.")
    ] = STUDY,
    out: Annotated[
        Path, typer.Option(help="Folder of finished parts, which are not repeated.")
    ] = Path("runs/forgetting"),
    docs: Annotated[
        Path, typer.Option(help="Folder of the page, the picture and the figures.")
    ] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(help="A population by its name; may be repeated.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the tensor program.")] = 2,
    debug: DebugOption = False,
) -> None:
    """Tell unlearned models from retrained ones, example by example, as well as can be done.

    Trains dozens of models of each run at once, lets every way to unlearn forget other rows in
    each, and reports how well a likelihood-ratio test tells them from models that never saw the
    rows: an AUC of 0.5 is perfect unlearning. What was finished before is not repeated.

    Exit codes: 2 usage, 3 config, 4 data, 7 storage.
    """
    asked = Asked(study, data, out, docs, seeds, tuple(only or ()), threads)
    told = Teller("vfl", json_lines=False, debug=debug)
    told.guard(lambda: _run(asked, told))


def _run(asked: Asked, told: Teller) -> None:
    import torch

    from parties.experiments.bench.record import merge
    from parties.experiments.population.plan import read_study
    from parties.experiments.population.study import summaries
    from parties.experiments.population.verdicts import draw_figure, table, verdicts

    torch.set_num_threads(asked.threads)
    study = read_study(asked.study)
    records = _records(study, asked, told)
    found = list(summaries(records))
    asked.docs.mkdir(parents=True, exist_ok=True)
    (asked.docs / "forgetting.md").write_text(_page(study, records, asked, table(found)))
    draw_figure(found, asked.docs / "forgetting.png")
    rows = [asdict(each) for each in verdicts(found)]
    merge(asked.docs / "fedora.json", rows)
    told.say(f"page:    {asked.docs / 'forgetting.md'}", event="result")
    told.say(f"figures: {asked.docs / 'fedora.json'}", event="result")


def _records(study: "Study", asked: Asked, told: Teller) -> "Sequence[Record]":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from parties.experiments.population.study import Place, parts

    place = Place(asked.study.parent, asked.data, asked.out)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=told.console) as progress:
        work = list(parts(study, study.chosen(asked.only), place, asked.seeds))
        bar = progress.add_task("populations", total=len(work))

        def tell(text: str) -> None:
            progress.update(bar, description=text)

        return [_advanced(part, tell, lambda: progress.advance(bar)) for part in work]


def _advanced(
    part: "Callable[[Callable[[str], None]], Record]",
    tell: Callable[[str], None],
    advance: Callable[[], None],
) -> "Record":
    record = part(tell)
    advance()
    return record


def _page(study: "Study", records: "Sequence[Record]", asked: Asked, tables: str) -> str:
    from datetime import UTC, datetime
    from importlib.metadata import version

    when = datetime.now(UTC).date().isoformat()
    with_ = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "scikit-learn"))
    return (
        "# Forgetting, measured per example\n\n"
        f"`vfl bench forgetting --seeds {asked.seeds} --data DIR` on {when} with {with_}, "
        f"{sum(record['seconds'] for record in records) / 3600:.1f} h. Means over seeds "
        f"{study.first} to {study.first + asked.seeds - 1} and one standard error. An AUC of 0.5 "
        "is a model that is not told from one that never saw the rows.\n\n"
        f"{MIXED if len({record['source'] for record in records}) > 1 else ''}"
        "*Equivalent*: two one-sided tests at 5 %, over all models, that test accuracy is within "
        "one standard deviation of a Retrain's. "
        "The last column takes whole models, each as one trial: unlearned ones are told from "
        "Retrains by all their forgotten rows together, and hits and false alarms bound from below "
        "the ε of any (ε, δ) that might be claimed (δ = 0, Clopper-Pearson, all seeds pooled). "
        "Beside it stands what a perfect attack would prove with as many models; 0 proves "
        "nothing. No way here claims an ε.\n\n"
        "![both audits of every way](forgetting.png)\n\n"
        f"{tables}"
    )
