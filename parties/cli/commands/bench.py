"""``vfl bench``: experiments over many runs, with their tables and figures."""

import typer

from parties.cli.arguments import Commands
from parties.cli.commands.bench_fedora import fedora
from parties.cli.commands.bench_horizontal import horizontal
from parties.cli.commands.bench_language import language
from parties.cli.commands.forgetting import forgetting

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
