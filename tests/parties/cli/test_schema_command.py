"""``vfl schema``: the schemas accept the shipped configs, and refuse what a run refuses."""

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from configs.shipped import FOLDERS, shipped_runs
from parties.cli.commands.schema import ConfigMode, SchemaFile, config_json_schema
from parties.cli.main import app

MODES = dict(zip(FOLDERS, ConfigMode, strict=True))


@pytest.mark.parametrize("run", shipped_runs(), ids=lambda run: run.name)
def test_shipped_config_matches_the_schema(run: object) -> None:
    path: Path = run.path  # type: ignore[attr-defined]
    schema = config_json_schema(MODES[path.parent.name], SchemaFile.AGREEMENT)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(tomllib.loads(path.read_text()))


def test_unknown_key_and_wrong_value_do_not_match() -> None:
    validator = Draft202012Validator(config_json_schema(ConfigMode.VERTICAL, SchemaFile.PARTY))
    data = {"kind": "csv", "path": "a.csv", "delimiter": ";"}
    assert validator.is_valid({"data": data})
    assert not validator.is_valid({"data": data, "thread": 1})
    assert not validator.is_valid({"data": data | {"delimiter": ":"}})


def test_command_prints_or_writes_the_schemas(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["schema", "party", "--mode", "horizontal"])
    expected = config_json_schema(ConfigMode.HORIZONTAL, SchemaFile.PARTY)
    assert json.loads(printed.output) == expected
    result = CliRunner().invoke(app, ["schema", "--out", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    for file in SchemaFile:
        written = json.loads((tmp_path / "new" / f"{file.value}.schema.json").read_text())
        assert written == config_json_schema(ConfigMode.VERTICAL, file)
