"""``vfl schema``: JSON schemas of the config files, with which editors complete and check them."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from parties.cli.console import Console
from parties.cli.options import DebugOption


class ConfigMode(StrEnum):
    """Mode of a run, as in the key ``mode`` of its agreement."""

    VERTICAL = "vertical"
    HORIZONTAL = "horizontal"
    LLM = "llm"


class SchemaFile(StrEnum):
    """A file that has a schema."""

    AGREEMENT = "agreement"
    PARTY = "party"


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_command(
    *,
    file: Annotated[SchemaFile, typer.Argument(help="File whose schema is printed.")] = (
        SchemaFile.AGREEMENT
    ),
    mode: Annotated[ConfigMode, typer.Option(help="Mode of the run.")] = ConfigMode.VERTICAL,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write agreement.schema.json and party.schema.json into this folder instead."
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Print the JSON schema of the agreement or the party settings, or write both.

    Editors with TOML support (taplo, Even Better TOML) complete and check the
    files that begin with a line such as #:schema ./agreement.schema.json
    """
    console = Console("vfl", json_lines=False, debug=debug)
    console.run(lambda: _schemas(file, mode, out, console))


def _schemas(file: SchemaFile, mode: ConfigMode, out: Path | None, console: Console) -> None:
    from parties.common.atomic_file import write_atomically

    if out is None:
        typer.echo(_text(config_json_schema(mode, file)))
        return
    out.mkdir(parents=True, exist_ok=True)
    for each in SchemaFile:
        path = out / f"{each.value}.schema.json"
        write_atomically(path, f"{_text(config_json_schema(mode, each))}\n".encode())
        console.print(f"wrote {path}")


def config_json_schema(mode: ConfigMode, file: SchemaFile) -> dict[str, Any]:
    """Return the JSON schema of a config file of one mode.

    An agreement may contain the settings of parties in tables [settings.NAME].
    """
    from pydantic import TypeAdapter, create_model

    from parties.cli.modes import SCHEMAS

    schema = next(each for each in SCHEMAS if each.mode == mode.value)
    settings: Any = schema.hub | schema.spoke if schema.hub is not schema.spoke else schema.hub
    content: Any = settings
    if file is SchemaFile.AGREEMENT:
        content = create_model(
            "ConfigFile", __base__=schema.agreement, settings=(dict[str, settings], {})
        )
    found = TypeAdapter(content).json_schema()
    title = f"{file.value} of vfl, {mode.value} mode"
    return {**found, "$schema": _DIALECT, "title": title}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False)
