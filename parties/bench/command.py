"""``vfl bench fedora``: all runs of the paper's tables, then the tables."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.options import DataOption, DebugOption
from parties.teller import Teller

if TYPE_CHECKING:
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
    tables: tuple[str, ...]
    seeds: int | None
    workers: int | None
    quick: bool
    only_list: bool


def fedora(  # noqa: PLR0913  a command has the options that it has
    *,
    data: DataOption = None,
    listed: Annotated[Path, typer.Option("--experiments", help="The list of experiments.")] = LIST,
    out: Annotated[
        Path, typer.Option(help="Folder of finished runs, which are not repeated.")
    ] = Path("runs/bench"),
    docs: Annotated[Path, typer.Option(help="Folder of the pages, pictures and figures.")] = Path(
        "docs"
    ),
    tables: Annotated[
        str, typer.Option(help="Only these, like III,IV,8: numbers of tables and figures.")
    ] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="At most so many seeds of each experiment, from 0.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time; as many as there are cores.")
    ] = None,
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
    chosen = tuple(word.strip() for word in tables.split(",") if word.strip())
    asked = Asked(listed, data, out, docs, chosen, seeds, workers, quick, only_list)
    told = Teller("vfl", json_lines=False, debug=debug)
    told.guard(lambda: _bench(asked, told))


def _bench(asked: Asked, told: Teller) -> None:
    from configs.experiments import read_experiments
    from parties.bench.blocks import read_blocks
    from parties.bench.plan import Scope, runs
    from parties.bench.record import publish
    from parties.bench.results import results
    from parties.bench.runner import Workplace
    from parties.errors import UsageProblem
    from parties.folder import check_apart

    listed, blocks = read_experiments(asked.listed), read_blocks()
    known = sorted({table for each in listed.experiment for table in each.tables})
    if unknown := set(asked.tables) - set(known):
        raise UsageProblem(
            f"no table {', '.join(sorted(unknown))}", f"the tables are {', '.join(known)}"
        )
    check_apart(asked.out, asked.data)
    scope = Scope(asked.tables, asked.seeds, asked.quick)
    wanted = runs(listed, asked.listed.parent, scope)
    place = Workplace(asked.out, asked.data, asked.workers or _cores())
    if asked.only_list:
        _show(wanted, place, told)
        return
    with_failures = _execute(wanted, place, told)
    found = results(wanted, with_failures.records)
    written = publish(blocks, found, _typed(scope), asked.docs)
    told.say(f"tables:  {written.page}", event="result")
    told.say(f"figures: {written.figures}", event="result")
    with_failures.judge()


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


def _execute(wanted: "list[Run]", place: "Workplace", told: Teller) -> "Executed":
    from parties.bench.progress import Board
    from parties.bench.runner import execute

    with Board(told.console, wanted, place.workers) as board:
        records = execute(wanted, place, board.show)
    return Executed(records, board.failed)


@dataclass(frozen=True, slots=True)
class Executed:
    """What was made, and what failed."""

    records: dict[str, dict[str, object]]
    failed: list[str]

    def judge(self) -> None:
        """Raise where a run failed: the tables lack it."""
        from parties.errors import Failed

        if self.failed:
            raise Failed(
                "\n".join([f"{len(self.failed)} runs failed", *self.failed]),
                "the same command tries them again; each run's log lies in its folder",
                1,
            )


def _typed(scope: "Scope") -> str:
    """The command, without where data lies on this machine."""
    words = ["vfl bench fedora --data DIR"]
    words += [f"--tables {','.join(scope.tables)}"] if scope.tables else []
    words += [f"--seeds {scope.seeds}"] if scope.seeds else []
    words += ["--quick"] if scope.quick else []
    return " ".join(words)
