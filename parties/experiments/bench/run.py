"""Run a benchmark: execute missing runs, extract their figures, and write the result pages."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from parties.common.errors import Failed, UsageProblem
from parties.experiments.bench.cache import (
    CachedRun,
    extract_records,
    lock_pages,
    read_cache,
    write_cache,
)
from parties.experiments.bench.plan import Extract, PlannedRun, Scope
from parties.experiments.bench.record import Pages, publish_pages
from parties.experiments.bench.results import collect_results
from parties.experiments.bench.runner import BenchProgress, RunPlace, execute_runs, read_run_record
from parties.session.run_folder import check_run_folder


class ConsoleOutput(Protocol):
    """The functions of a command's console with which a benchmark prints its output."""

    terminal: Console

    def print(self, text: str, **fields: Any) -> None:
        """Print one line, or ``fields`` as one JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One benchmark.

    Attributes:
        runs: function that returns the planned runs for the requested tables and experiments.
        tables, experiments: valid values of the options ``--tables`` and ``--only``.
    """

    name: str
    runs: Callable[[Scope], list[PlannedRun]]
    extract: Extract
    pages: Pages
    tables: Sequence[str]
    experiments: Sequence[str]


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """The options of a ``vfl bench`` command."""

    data: Path | None
    out: Path
    docs: Path
    scope: Scope
    workers: int | None
    only_list: bool


def run_bench(bench: Bench, request: BenchRequest, output: ConsoleOutput) -> None:
    """Execute the missing runs of a request, then write the result pages of all finished runs.

    Raises:
        UsageProblem: an unknown table or experiment is requested, or one that needs a GPU.
        Failed: a run failed; all other runs were executed.
    """
    _refuse_unknown_names(bench, request.scope)
    check_run_folder(request.out, request.data)
    pages = request.docs / bench.pages.folder
    wanted, stored = bench.runs(request.scope), read_cache(pages)
    if not wanted:
        raise _empty(bench, request.scope)
    place = RunPlace(request.out, request.data, request.workers or _cores())
    if request.only_list:
        _show(wanted, place, stored, output)
        return
    wanted = [run for run in wanted if run.digest not in stored]
    with BenchProgress(output.terminal, wanted, place.workers) as progress:
        execute_runs(wanted, place, progress.show)
    # The tables show all finished runs, not only those of this request.
    full_scope = Scope(gpu=True, quick=request.scope.quick)
    with lock_pages(pages):
        _publish(bench, bench.runs(full_scope), place, request, output)
    if progress.failed:
        raise Failed(
            "\n".join([f"runs failed: {len(progress.failed)}", *progress.failed]),
            "run the same command to repeat them; each run's folder has its log",
            1,
        )


def _empty(bench: Bench, scope: Scope) -> UsageProblem:
    """Return why no run is selected."""
    if bench.runs(replace(scope, gpu=True)):
        problem = "no experiment of these tables runs without a GPU"
        return UsageProblem(problem, "add --gpu, or choose other tables")
    return UsageProblem(
        "no experiment of --only is for the tables of --tables", "remove one of the two options"
    )


def _refuse_unknown_names(bench: Bench, scope: Scope) -> None:
    for kind, names, legal in (
        ("table", scope.tables, bench.tables),
        ("experiment", scope.only, bench.experiments),
    ):
        if unknown := sorted(set(names) - set(legal)):
            raise UsageProblem(
                f"unknown {kind}: {', '.join(unknown)}", f"choose from: {'; '.join(legal)}"
            )


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _show(
    wanted: list[PlannedRun],
    place: RunPlace,
    stored: Mapping[str, CachedRun],
    output: ConsoleOutput,
) -> None:
    """List the runs and whether each is finished."""
    finished = {run.digest for run in wanted if run.digest in stored or read_run_record(place, run)}
    for run in wanted:
        output.print(
            f"{run.digest}  {'done   ' if run.digest in finished else 'missing'}  {run.title}"
        )
    different = {run.digest for run in wanted}
    output.print(f"{len(wanted)} runs, {len(different)} of them different, {len(finished)} done")


def _publish(
    bench: Bench,
    all_runs: list[PlannedRun],
    place: RunPlace,
    request: BenchRequest,
    output: ConsoleOutput,
) -> None:
    before = read_cache(request.docs / bench.pages.folder)  # another command may have added runs
    records = {run.digest: each for run in all_runs if (each := read_run_record(place, run))}
    stored = {**before, **extract_records(all_runs, records, bench.extract)}
    write_cache(request.docs / bench.pages.folder, stored)
    wanted = [run for run in all_runs if not run.gpu or run.digest in stored]
    command = f"vfl bench {bench.name} --data DIR" + (" --quick" if request.scope.quick else "")
    results = collect_results(wanted, stored)
    written = publish_pages(bench.pages, results, command, request.docs)
    output.print(f"tables:  {written.page}", event="result")
    output.print(f"figures: {written.figures}", event="result")
