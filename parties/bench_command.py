"""``vfl bench``: experiments over many runs, with their tables and figures."""

import typer

from parties.bench.fedora import fedora
from parties.bench.horizontal.command import horizontal
from parties.bench.language.command import language
from parties.forgetting_command import forgetting
from parties.usage import Commands

bench_app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    help="Run experiments over many seeds, and write their tables and figures.",
)
bench_app.command("fedora")(fedora)
bench_app.command("forgetting")(forgetting)
bench_app.command("horizontal")(horizontal)
bench_app.command("language")(language)
