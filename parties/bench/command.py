"""``vfl bench fedora``: all runs of the paper's tables, then the tables."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.errors import Failed, UsageProblem
from parties.options import DataOption, DebugOption
from parties.teller import Teller

if TYPE_CHECKING:
    from configs.experiments import Experiments
    from parties.bench.plan import Run, Scope
    from parties.bench.runner import Workplace

LIST = Path(__file__).parents[2] / "configs" / "bench" / "fedora.toml"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    listed: Path
    data: Path | None
    out: Path
    docs: Path
    scope: "Scope"
    workers: int | None
    only_list: bool


def fedora(  # noqa: PLR0913  a command has the options that it has
    *,
    data: DataOption = None,
    listed: Annotated[Path, typer.Option("--experiments", help="The list of experiments.")] = LIST,
    out: Annotated[
        Path, typer.Option(help="Folder of finished runs, which are not repeated.")
    ] = Path("runs/bench"),
    docs: Annotated[
        Path | None, typer.Option(help="Folder of the pages: docs, or with --quick that of --out.")
    ] = None,
    tables: Annotated[
        str, typer.Option(help="Only these, like III,IV,8: numbers of tables and figures.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="An experiment by its name; may be repeated.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="At most so many seeds of each experiment, from 0.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time; as many as there are cores.")
    ] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Also the experiments that need a GPU.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed and short trainings: does all of it run?")
    ] = False,
    only_list: Annotated[bool, typer.Option("--list", help="Show the runs and make none.")] = False,
    debug: DebugOption = False,
) -> None:
    """Make the tables and figures of FedORA that a CPU can make, ours beside the paper's.

    Each run is a process of its own with one thread. What was finished before is not repeated; a
    run that fails is named, the others go on, and the tables are made of what is there.

    Exit codes: 1 a run failed, 2 usage, 3 config, 7 storage.
    """
    from parties.bench.plan import Scope

    chosen = tuple(word.strip() for word in tables.split(",") if word.strip())
    scope = Scope(chosen, tuple(only or ()), seeds, gpu, quick)
    pages = docs or (out if quick else Path("docs"))
    asked = Asked(listed, data, out, pages, scope, workers, only_list)
    told = Teller("vfl", json_lines=False, debug=debug)
    told.guard(lambda: _bench(asked, told))


def _bench(asked: Asked, told: Teller) -> None:
    from configs.experiments import read_experiments
    from parties.bench.plan import Scope, runs
    from parties.bench.runner import Workplace
    from parties.folder import check_apart

    listed = read_experiments(asked.listed)
    _refuse_strangers(listed, asked.scope)
    check_apart(asked.out, asked.data)
    wanted = runs(listed, asked.listed.parent, asked.scope)
    place = Workplace(asked.out, asked.data, asked.workers or _cores())
    if asked.only_list:
        _show(wanted, place, told)
        return
    failed = _execute(wanted, place, told)
    # The tables are made of everything that is there, whatever part of it was asked for now.
    all_of_it = Scope(gpu=True, quick=asked.scope.quick)
    _publish(runs(listed, asked.listed.parent, all_of_it), place, asked, told)
    if failed:
        raise Failed(
            "\n".join([f"runs failed: {len(failed)}", *failed]),
            "the same command tries them again; each run's log lies in its folder",
            1,
        )


def _refuse_strangers(listed: "Experiments", scope: "Scope") -> None:
    """Raise ``UsageProblem`` for tables and experiments that are not in the list."""
    tables = sorted({table for each in listed.experiment for table in each.tables})
    names = [each.name for each in listed.experiment]
    for kind, said, legal in (
        ("table", scope.tables, tables),
        ("experiment", scope.only, names),
    ):
        if strangers := sorted(set(said) - set(legal)):
            raise UsageProblem(f"no {kind} {', '.join(strangers)}", f"legal: {'; '.join(legal)}")


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _show(wanted: "list[Run]", place: "Workplace", told: Teller) -> None:
    """List the runs, and which are there."""
    from parties.bench.runner import record

    there = {run.digest for run in wanted if record(place, run)}
    for run in wanted:
        told.say(f"{run.digest}  {'there  ' if run.digest in there else 'missing'}  {run.title}")
    different = {run.digest for run in wanted}
    told.say(f"{len(wanted)} runs, {len(different)} of them different, {len(there)} there")


def _execute(wanted: "list[Run]", place: "Workplace", told: Teller) -> list[str]:
    """Make what is missing; the runs that failed, and why."""
    from parties.bench.progress import Board
    from parties.bench.runner import execute

    with Board(told.console, wanted, place.workers) as board:
        execute(wanted, place, board.show)
    return board.failed


def _publish(everything: "list[Run]", place: "Workplace", asked: Asked, told: Teller) -> None:
    from parties.bench.blocks import read_blocks
    from parties.bench.record import publish
    from parties.bench.results import results
    from parties.bench.runner import record

    records = {run.digest: found for run in everything if (found := record(place, run))}
    wanted = [run for run in everything if not run.gpu or run.digest in records]
    typed = "vfl bench fedora --data DIR" + (" --quick" if asked.scope.quick else "")
    written = publish(read_blocks(), results(wanted, records), typed, asked.docs)
    told.say(f"tables:  {written.page}", event="result")
    told.say(f"figures: {written.figures}", event="result")
