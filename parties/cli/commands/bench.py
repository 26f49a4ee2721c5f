"""``vfl bench``: runs experiments with many seeds, and writes tables and figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from parties.cli.arguments import CheckedGroup
from parties.cli.commands.forgetting import forgetting_command, forgetting_search_command
from parties.cli.console import Console
from parties.cli.options import DataOption, DebugOption

CONFIGS = Path(__file__).parents[3] / "configs" / "bench"
FEDORA_HELP = (
    "Run the experiments of the FedORA paper that fit on a CPU; compare with the paper's numbers."
)
HORIZONTAL_HELP = (
    "Run the client unlearning experiments that fit on a CPU; compare with the papers' numbers."
)
LANGUAGE_HELP = """\
Run the experiments of Oblivionis (arXiv 2508.08875); compare with the paper's numbers.

DIR is the folder of --data. On a CPU, the experiments use the tiny model that `vfl language tiny`
wrote to DIR/tiny. With a GPU and downloaded weights in DIR, `--gpu --tables 2` runs the experiments
of Table 2."""
COMMON_HELP = """Each run is a separate process with one thread or one worker. Finished runs are not
repeated. If a run fails, the command names the run and continues with the other runs. The tables
show every finished run.

Exit codes: 1 a run failed, 2 usage, 3 config, 7 storage.
"""

Out: TypeAlias = Annotated[
    Path,
    typer.Option("--out", help="Store finished runs in this folder; stored runs are not repeated."),
]
Docs: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--docs",
        help="Write the pages with the results into this folder; default: docs (with --quick: "
        "the --out folder).",
    ),
]
Listed: TypeAlias = Annotated[
    Path, typer.Option("--experiments", help="Read the experiments from this file.")
]
TablesOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--tables",
        help="Run only the experiments for these tables and figures, for example III,IV,8.",
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--only", help="Run only the experiment with this name; may be repeated."),
]
Seeds: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, help="Maximum number of seeds per experiment; the first seed is 0."
    ),
]
AtOnce: TypeAlias = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Number of runs in parallel; default: number of cores."),
]
Gpu: TypeAlias = Annotated[
    bool, typer.Option("--gpu", help="Include the experiments that need a GPU.")
]
Quick: TypeAlias = Annotated[
    bool, typer.Option("--quick", help="Run one seed with short training, to test the set-up.")
]
OnlyList: TypeAlias = Annotated[
    bool, typer.Option("--list", help="List the runs without starting them.")
]


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
bench_app.command("forgetting-search")(forgetting_search_command)
bench_app.command("horizontal")(paper_command("horizontal", HORIZONTAL_HELP))
bench_app.command("language")(paper_command("language", LANGUAGE_HELP))
