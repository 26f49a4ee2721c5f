"""``vfl language``: base models for the mode that teaches language models.

A tiny model for machines without weights, the digest that an agreement names, what memory a run
needs, and adapters merged into a model that others can load.
"""

from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING, Annotated

import typer

from parties.cli.arguments import Command, Commands
from parties.cli.console import Teller
from parties.cli.options import DebugOption, Format, FormatOption, SetOption

if TYPE_CHECKING:
    pass

language_app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Base models for federated fine-tuning, and what comes of it.",
)
DEVICES = r"cpu|cuda(:[0-9]{1,2})?"
FolderArgument = Annotated[Path, typer.Argument(help="Folder of a model, as transformers writes.")]


@language_app.command(cls=Command)
def tiny(  # noqa: PLR0913  a command has the options that it has
    *,
    out: Annotated[Path, typer.Argument(help="A new folder for the model.")],
    tofu: Annotated[Path, typer.Option("--tofu", help="Folder with TOFU's original files.")],
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the public texts.")] = 4,
    clients: Annotated[
        int, typer.Option(min=0, help="TOFU's first rows, which clients hold: not learned here.")
    ] = 1200,
    english: Annotated[
        list[Path] | None, typer.Option("--english", help="A plain text file; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and the order.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="With another number it differs.")] = 1,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Make a tiny Llama (1 M parameters) from public texts, in minutes on a CPU.

    It learns TOFU's real authors and world facts, and how questions on authors are answered from
    authors that no client holds. public.jsonl beside it are the facts, for clients to go over.
    """
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from parties.language.engine.tiny_base import Recipe, make_tiny

        recipe = Recipe(tofu, clients, tuple(english or ()), epochs, seed, threads)
        with told.view({"tiny": "base model"}) as show:
            make_tiny(out, recipe, show)
        told.say(f"model:  {out}", event="result", folder=str(out))

    told.guard(work)


@language_app.command(cls=Command)
def digest(
    *, folder: FolderArgument, output: FormatOption = Format.TEXT, debug: DebugOption = False
) -> None:
    """Print what an agreement's model.digest says of this folder's files."""
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from models.language.folder import base_digest
        from parties.language.engine.errors import told as in_our_words

        with in_our_words():
            found = base_digest(folder)
        told.say(f'model = {{ digest = "{found}" }}', event="result", digest=found)

    told.guard(work)


@language_app.command(cls=Command)
def memory(
    *,
    config: Annotated[Path, typer.Argument(help="An agreement of the mode llm.")],
    folder: Annotated[Path, typer.Option("--base", help="Folder of the base model.")],
    device: Annotated[
        str, typer.Option("--device", help="Whose memory there is: cpu, cuda:0.")
    ] = "cpu",
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Say what memory a client's training and the server's measuring need; no weight is loaded."""
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from configs.federated_file import read_language
        from models.language.memory import available_memory
        from parties.common.device import ready
        from parties.common.errors import UsageProblem
        from parties.language.engine.memory_check import WHAT, needs

        if not fullmatch(DEVICES, device):
            raise UsageProblem(f"--device {device!r} is no device", "cpu, cuda or cuda:1")
        agreement = read_language(config, tuple(changes or ())).agreement
        there = available_memory(str(ready(device)))
        for role, what in WHAT.items():
            found = needs(agreement, folder, role)
            said = found.sentence(there, what)
            told.say(said, event="result", role=role, bytes=found.total, available=there)

    told.guard(work)


@language_app.command(cls=Command)
def merge(
    *,
    base: FolderArgument,
    run: Annotated[Path, typer.Argument(help="A party's folder of a finished run.")],
    out: Annotated[Path, typer.Argument(help="A new folder for the merged model.")],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Put what a run delivered into its base model, for any program that loads such folders."""
    told = Teller("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from parties.language.engine.merged import merge_delivered

        gap = merge_delivered(base, run, out)
        text = f"model:  {out}\nmerging changed no logit that was compared by more than {gap:.2g}"
        told.say(text, event="result", folder=str(out), gap=gap)

    told.guard(work)
