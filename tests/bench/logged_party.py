"""A party's process that writes a line to a file at the beginning of every step it carries out.

A line is the number of steps around the step, and the name of the step. A step is a step of the
driver of methods, or a step that the journal records; a replayed step has no line. A client of a
server writes a line for each task to a second file. The processes are forked from a server process
that has loaded the libraries, because a run starts many of them.
"""

import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from parties.cli.main import party_main
from parties.horizontal.client_store import ClientStore
from parties.requests import driver
from parties.session.journal import Journal

LOADED = ("torch", "sklearn.datasets", "parties.cli.main", "parties.vertical.run_party",
          "parties.vertical.active", "parties.vertical.passive", "parties.horizontal.run_party",
          "parties.horizontal.registry", "parties.language.setup", "transformers")  # fmt: skip


def start_party(arguments: Sequence[str], output: Path, log: Path | None) -> BaseProcess:
    """Start the party that ``arguments`` describe; ``output`` receives its events.

    ``log`` is the file for the lines of the steps; None: no lines are written.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    process = context.Process(target=_run, args=(arguments, output, log), daemon=True)
    process.start()
    return process


def _run(arguments: Sequence[str], output: Path, log: Path | None) -> None:
    with output.open("ab") as events:
        os.dup2(events.fileno(), 1)
        os.dup2(events.fileno(), 2)
    if log is not None:
        _log_steps(log)
    sys.argv = ["vfl-party", *arguments]
    party_main()


def _log_steps(path: Path) -> None:
    """Write the beginning of every step to the file ``path``."""
    step, record, around = driver._next, Journal.record, 0

    def inside(name: str, work: Callable[[], Any]) -> Any:
        nonlocal around
        with path.open("a") as log:
            log.write(f"{around} {name}\n")
        around += 1
        try:
            return work()
        finally:
            around -= 1

    def logged_step(method: Any, run: Any, now: Any) -> Any:
        name = f"{method.name} {len(now.records)}"
        return inside(name, lambda: step(method, run, now))

    def logged_record(self: Journal, name: str, work: Any, diverged: Any) -> Any:
        return record(self, name, lambda: inside(name, work), diverged)

    driver._next, Journal.record = logged_step, logged_record  # type: ignore[assignment]
    _log_tasks(tasks_of(path))


def tasks_of(log: Path) -> Path:
    """The file with the tasks of clients, beside the file with the steps."""
    return log.with_suffix(".tasks")


def _log_tasks(path: Path) -> None:
    """Write the beginning of every task of a client to the file ``path``."""
    run_task = ClientStore.run_task

    def logged_task(self: ClientStore, kind: Any, task: Any, slots: Any) -> Any:
        with path.open("a") as log:
            log.write(f"0 {self._party.name}: {task.stream}, {task.aim}, {kind}\n")
        return run_task(self, kind, task, slots)

    ClientStore.run_task = logged_task  # type: ignore[method-assign]
