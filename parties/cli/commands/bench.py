"""``vfl bench``: experiments over many runs, with their tables and figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from parties.cli.arguments import CheckedGroup
from parties.cli.commands.forgetting import forgetting_command
from parties.cli.console import Console
from parties.cli.options import DataOption, DebugOption

CONFIGS = Path(__file__).parents[3] / "configs" / "bench"
FEDORA_HELP = "Run the experiments of the FedORA paper that fit on a CPU; compare with its numbers."
HORIZONTAL_HELP = "Run the client unlearning experiments that fit on a CPU; compare with papers."
LANGUAGE_HELP = """Run the experiments of Oblivionis (arXiv 2508.08875); compare with its numbers.

On a CPU the model is the tiny one of `vfl language tiny`, read from DIR/tiny. With a GPU and
downloaded weights in DIR, `--gpu --tables 2` runs the experiments of Table 2."""
COMMON_HELP = """Each run is a process with one thread or worker. Finished runs are not repeated.
A failed run is named, the other runs continue, and the tables show every finished run.

Exit codes: 1 a run failed, 2 usage, 3 config, 7 storage.
"""

Out: TypeAlias = Annotated[
    Path, typer.Option("--out", help="Store finished runs in this folder; they are not repeated.")
]
Docs: TypeAlias = Annotated[
    Path | None,
    typer.Option("--docs", help="Write pages into this folder; default: docs, with --quick --out."),
]
Listed: TypeAlias = Annotated[
    Path, typer.Option("--experiments", help="Read the experiments from this file.")
]
TablesOption: TypeAlias = Annotated[
    str, typer.Option("--tables", help="Run only these tables and figures, such as III,IV,8.")
]
Only: TypeAlias = Annotated[
    list[str] | None, typer.Option("--only", help="Run only this experiment; may be repeated.")
]
Seeds: TypeAlias = Annotated[
    int | None,
    typer.Option("--seeds", min=1, help="Run at most this many seeds per experiment, from 0."),
]
AtOnce: TypeAlias = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Run so many at a time; default: number of cores."),
]
Gpu: TypeAlias = Annotated[
    bool, typer.Option("--gpu", help="Include the experiments that need a GPU.")
]
Quick: TypeAlias = Annotated[
    bool, typer.Option("--quick", help="Run one seed with short training, to test the set-up.")
]
OnlyList: TypeAlias = Annotated[bool, typer.Option("--list", help="List the runs; start none.")]


def paper_command(name: str, purpose: str) -> Callable[..., None]:
    """Return the command ``vfl bench NAME``; ``purpose`` is the first sentence of its help.

    The experiments are those of ``configs/bench/NAME.toml``, unless ``--experiments`` names a file.
    """

    def command(  # noqa: PLR0913  a command has the options that it has
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
        console = Console("vfl", json_lines=False, debug=debug)

        def run() -> None:
            from parties.experiments.bench.benches import BENCHES
            from parties.experiments.bench.plan import Scope
            from parties.experiments.bench.run import BenchRequest, run_bench

            scope = Scope(comma_separated(tables), tuple(only or ()), seeds, gpu, quick)
            pages = docs or (out if quick else Path("docs"))
            bench = BENCHES[name](listed)
            run_bench(bench, BenchRequest(data, out, pages, scope, workers, only_list), console)

        console.run(run)

    command.__doc__ = f"{purpose}\n\n{COMMON_HELP}"
    return command


def comma_separated(text: str) -> tuple[str, ...]:
    """Split ``text`` at commas; strip spaces and drop empty parts."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


bench_app = typer.Typer(
    cls=CheckedGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Run experiments over many seeds, and write their tables and figures.",
)
bench_app.command("fedora")(paper_command("fedora", FEDORA_HELP))
bench_app.command("forgetting")(forgetting_command)
bench_app.command("horizontal")(paper_command("horizontal", HORIZONTAL_HELP))
bench_app.command("language")(paper_command("language", LANGUAGE_HELP))
