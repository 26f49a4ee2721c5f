"""What all benches of papers are as commands: the same options, each with its list."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from parties.cli.commands.bench_options import (
    AtOnce,
    Docs,
    Gpu,
    Listed,
    Only,
    OnlyList,
    Out,
    Quick,
    Seeds,
    TablesOption,
    words,
)
from parties.cli.console import Teller
from parties.cli.options import DataOption, DebugOption

if TYPE_CHECKING:
    from parties.experiments.bench.run import Bench

SAME = """Each run is a process of its own with one thread or worker. What was finished before is
not repeated; a run that fails is named, the others go on, and the tables are made of what is there.

Exit codes: 1 a run failed, 2 usage, 3 config, 7 storage.
"""
CONFIGS = Path(__file__).parents[3] / "configs" / "bench"


def command(name: str, said: str, bench: Callable[[Path], "Bench"]) -> Callable[..., None]:
    """The command ``vfl bench NAME``, whose help says ``said`` first.

    ``bench`` makes it of a list of experiments: ``configs/bench/NAME.toml`` unless told otherwise.
    """

    def typed(  # noqa: PLR0913  a command has the options that it has
        *,
        data: DataOption = None,
        listed: Listed = CONFIGS / f"{name}.toml",
        out: Out = Path("runs/bench"),
        docs: Docs = None,
        tables: TablesOption = "",
        only: Only = None,
        seeds: Seeds = None,
        workers: AtOnce = None,
        gpu: Gpu = False,
        quick: Quick = False,
        only_list: OnlyList = False,
        debug: DebugOption = False,
    ) -> None:
        told = Teller("vfl", json_lines=False, debug=debug)

        def run() -> None:
            from parties.experiments.bench.plan import Scope
            from parties.experiments.bench.run import Asked, make

            scope = Scope(words(tables), tuple(only or ()), seeds, gpu, quick)
            pages = docs or (out if quick else Path("docs"))
            make(bench(listed), Asked(data, out, pages, scope, workers, only_list), told)

        told.guard(run)

    typed.__doc__ = f"{said}\n\n{SAME}"
    return typed
