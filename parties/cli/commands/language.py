"""``vfl language``: base models of the LLM mode.

The commands train a tiny base model, print the digest of a base model and the hashes of a client's
texts, estimate the memory that a run needs, and merge the adapters of a run into the base model.
"""

from pathlib import Path
from re import fullmatch
from typing import Annotated

import typer

from parties.cli.arguments import CheckedCommand, CheckedGroup
from parties.cli.console import Console
from parties.cli.options import (
    ConfigArgument,
    DataOption,
    DebugOption,
    Format,
    FormatOption,
    PartyOption,
    SetOption,
)

language_app = typer.Typer(
    cls=CheckedGroup,
    no_args_is_help=True,
    help="Prepare base models for the LLM mode, and merge trained adapters into them.",
)
DEVICES = r"cpu|cuda(:[0-9]{1,2})?"
FolderArgument = Annotated[
    Path, typer.Argument(help="Folder of a base model in the Hugging Face transformers format.")
]


@language_app.command("tiny", cls=CheckedCommand)
def language_tiny_command(  # noqa: PLR0913  a command has the options that it has
    *,
    out: Annotated[Path, typer.Argument(help="A new folder for the model.")],
    tofu: Annotated[
        Path, typer.Option("--tofu", help="Read the original files of TOFU from this folder.")
    ],
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of training epochs over the public texts.")
    ] = 4,
    clients: Annotated[
        int,
        typer.Option(
            min=0, help="Leave the first N rows of TOFU to the clients: do not train on them here."
        ),
    ] = 1200,
    english: Annotated[
        list[Path] | None,
        typer.Option("--english", help="Also train on this plain text file; may be repeated."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the initial weights and the batch order.")
    ] = 0,
    threads: Annotated[
        int,
        typer.Option(
            min=1, help="Number of CPU threads; a different number rounds sums differently."
        ),
    ] = 1,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Train a tiny Llama (1 M parameters) on public texts; on a CPU this takes minutes.

    The texts are TOFU's questions and answers about real authors, about world facts, and about
    fictitious authors on whom no client trains. The texts about real authors and world facts are
    also written to the file public.jsonl in the new folder. Clients can train on this file.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from parties.language.engine.tiny_base import TinyBasePlan, build_tiny_base

        plan = TinyBasePlan(tofu, clients, tuple(english or ()), epochs, seed, threads)
        with console.progress({"tiny": "base model"}) as listener:
            build_tiny_base(out, plan, listener)
        console.print(f"model:  {out}", event="result", folder=str(out))

    console.run(work)


@language_app.command("digest", cls=CheckedCommand)
def language_digest_command(
    *, folder: FolderArgument, output: FormatOption = Format.TEXT, debug: DebugOption = False
) -> None:
    """Print the digest of a base model, for the key model.digest of an agreement."""
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from models.language.folder import base_model_digest
        from parties.language.engine.errors import translate_model_errors

        with translate_model_errors():
            digest = base_model_digest(folder)
        console.print(f'model = {{ digest = "{digest}" }}', event="result", digest=digest)

    console.run(work)


@language_app.command(
    "hashes", cls=CheckedCommand, epilog="Example: vfl language hashes notes.toml --party north"
)
def language_hashes_command(
    *,
    config: ConfigArgument,
    party: PartyOption,
    data: DataOption = None,
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Print number and content hash of each text of a client, and whether it is held out.

    The hash is SHA-256 of the normalised text (docs/llm.md). No text is printed. Texts that were
    forgotten, but are still in the file, are printed like others.
    """
    console = Console(party, json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from configs.config_file import read_config
        from parties.language.registry import SCHEMA
        from parties.language.setup import texts_of_client
        from parties.session.setup import data_folder

        found = read_config(config, SCHEMA, tuple(changes or ()))
        folder = data_folder(found.path, found.settings(party), data)
        for each in texts_of_client(found, party, folder):
            text = f"{each.number:>8}  {each.id.decode()}{'' if each.trained else '  held out'}"
            fields = {"number": each.number, "hash": each.id.decode(), "trained": each.trained}
            console.print(text, event="text", **fields)

    console.run(work)


@language_app.command("memory", cls=CheckedCommand)
def language_memory_command(
    *,
    config: Annotated[Path, typer.Argument(help='An agreement with mode = "llm".')],
    folder: Annotated[Path, typer.Option("--base", help="Read the base model from this folder.")],
    device: Annotated[
        str,
        typer.Option(
            "--device", help="Compare the estimate with the memory of this device: cpu or cuda:0."
        ),
    ] = "cpu",
    changes: SetOption = None,
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Estimate the memory that a client's training and the server's evaluation need.

    The command does not load the model's weights.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from configs.config_file import read_config
        from models.language.memory import available_memory
        from parties.common.device import prepare_device
        from parties.common.errors import UsageProblem
        from parties.language.memory_check import WORK_OF, estimate_party_memory
        from parties.language.registry import SCHEMA

        if not fullmatch(DEVICES, device):
            raise UsageProblem(f"--device {device!r} is not a device", "give cpu, cuda or cuda:1")
        agreement = read_config(config, SCHEMA, tuple(changes or ())).agreement
        available = available_memory(str(prepare_device(device)))
        for role, work_name in WORK_OF.items():
            estimate = estimate_party_memory(agreement, folder, role)
            text = estimate.sentence(available, work_name)
            console.print(
                text, event="result", role=role, bytes=estimate.total, available=available
            )

    console.run(work)


@language_app.command("merge", cls=CheckedCommand)
def language_merge_command(
    *,
    base: FolderArgument,
    run: Annotated[Path, typer.Argument(help="Folder of one party in a finished run.")],
    out: Annotated[Path, typer.Argument(help="A new folder for the merged model.")],
    output: FormatOption = Format.TEXT,
    debug: DebugOption = False,
) -> None:
    """Merge the trained adapters of a run into the base model.

    Any program that loads models in the Hugging Face transformers format can
    load the new folder.
    """
    console = Console("vfl", json_lines=output is Format.JSON, debug=debug)

    def work() -> None:
        from parties.language.engine.merged_model import write_merged_model

        gap = write_merged_model(base, run, out)
        text = f"model:  {out}\nlargest change of a compared logit by merging: {gap:.2g}"
        console.print(text, event="result", folder=str(out), gap=gap)

    console.run(work)
