"""A bench from its list to its pages: which runs there are, make what is missing, publish."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parties.cli.console import Teller
from parties.common.errors import Failed, UsageProblem
from parties.experiments.bench.cache import Stored, alone, keep, kept, reaped
from parties.experiments.bench.extract import Harvest
from parties.experiments.bench.plan import Run, Scope
from parties.experiments.bench.progress import Board
from parties.experiments.bench.record import Pages, publish
from parties.experiments.bench.results import results
from parties.experiments.bench.runner import Workplace, execute, record
from parties.session.run_folder import check_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One command's experiments.

    Attributes:
        runs: those of a part of the list.
        tables, experiments: what there is to be asked for.
    """

    name: str
    runs: Callable[[Scope], list[Run]]
    harvest: Harvest
    pages: Pages
    tables: Sequence[str]
    experiments: Sequence[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    data: Path | None
    out: Path
    docs: Path
    scope: Scope
    workers: int | None
    only_list: bool


def make(bench: Bench, asked: Asked, told: Teller) -> None:
    """Make the runs that are asked for and not there, then pages of all that are.

    Raises:
        UsageProblem: a table or experiment is not in the list.
        Failed: a run failed; the others were made.
    """
    _refuse_strangers(bench, asked.scope)
    check_apart(asked.out, asked.data)
    pages = asked.docs / bench.pages.folder
    wanted, stored = bench.runs(asked.scope), kept(pages)
    place = Workplace(asked.out, asked.data, asked.workers or _cores())
    if asked.only_list:
        _show(wanted, place, stored, told)
        return
    wanted = [run for run in wanted if run.digest not in stored]
    with Board(told.console, wanted, place.workers) as board:
        execute(wanted, place, board.show)
    # The tables are made of everything that is there, whatever part of it was asked for now.
    all_of_it = Scope(gpu=True, quick=asked.scope.quick)
    with alone(pages):
        _publish(bench, bench.runs(all_of_it), place, asked, told)
    if board.failed:
        raise Failed(
            "\n".join([f"runs failed: {len(board.failed)}", *board.failed]),
            "the same command tries them again; each run's log lies in its folder",
            1,
        )


def _refuse_strangers(bench: Bench, scope: Scope) -> None:
    for kind, said, legal in (
        ("table", scope.tables, bench.tables),
        ("experiment", scope.only, bench.experiments),
    ):
        if strangers := sorted(set(said) - set(legal)):
            raise UsageProblem(f"no {kind} {', '.join(strangers)}", f"legal: {'; '.join(legal)}")


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _show(wanted: list[Run], place: Workplace, stored: Mapping[str, Stored], told: Teller) -> None:
    """List the runs, and which are there."""
    there = {run.digest for run in wanted if run.digest in stored or record(place, run)}
    for run in wanted:
        told.say(f"{run.digest}  {'there  ' if run.digest in there else 'missing'}  {run.title}")
    different = {run.digest for run in wanted}
    told.say(f"{len(wanted)} runs, {len(different)} of them different, {len(there)} there")


def _publish(
    bench: Bench,
    everything: list[Run],
    place: Workplace,
    asked: Asked,
    told: Teller,
) -> None:
    before = kept(asked.docs / bench.pages.folder)  # another command may have added to it
    records = {run.digest: each for run in everything if (each := record(place, run))}
    stored = {**before, **reaped(everything, records, bench.harvest)}
    keep(asked.docs / bench.pages.folder, stored)
    wanted = [run for run in everything if not run.gpu or run.digest in stored]
    typed = f"vfl bench {bench.name} --data DIR" + (" --quick" if asked.scope.quick else "")
    found = results(wanted, stored)
    written = publish(bench.pages, found, typed, asked.docs)
    told.say(f"tables:  {written.page}", event="result")
    told.say(f"figures: {written.figures}", event="result")
