"""``vfl keys``: keys of persons, and the file of persons."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from parties.cli.main import app


def keys(*words: object) -> Result:
    return CliRunner().invoke(app, ["keys", *map(str, words)], env={"COLUMNS": "200"})


def made(path: Path) -> str:
    result = keys("new", path, "--format", "json")
    assert result.exit_code == 0, result.output
    return str(json.loads(result.output)["public"])


def test_persons_are_added_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "persons.toml"
    for name, roles in (("anna", ["requester", "approver"]), ("ben", ["auditor"])):
        words = [word for role in roles for word in ("--role", role)]
        public = made(tmp_path / f"{name}.key")
        assert keys("add", name, "--public", public, "--file", file, *words).exit_code == 0
    listed = keys("list", "--file", file, "--format", "json").output.splitlines()
    found = {each["name"]: each["roles"] for each in map(json.loads, listed)}
    assert found == {"anna": ["approver", "requester"], "ben": ["auditor"]}
    assert keys("remove", "anna", "--file", file).exit_code == 0
    assert "anna" not in keys("list", "--file", file).output
    again = keys("remove", "anna", "--file", file)
    assert again.exit_code == 3
    assert "its persons are: ben" in again.output


def test_unknown_role_and_wrong_key_are_refused(tmp_path: Path) -> None:
    public = made(tmp_path / "anna.key")
    file = tmp_path / "persons.toml"
    role = keys("add", "anna", "--public", public, "--role", "boss", "--file", file)
    assert role.exit_code == 2
    assert "the roles are requester, approver, operator, auditor" in role.output
    wrong = keys("add", "anna", "--public", "ab", "--role", "auditor", "--file", file)
    assert wrong.exit_code == 5
    assert not file.exists()


def test_key_is_not_replaced(tmp_path: Path) -> None:
    made(tmp_path / "anna.key")
    again = keys("new", tmp_path / "anna.key")
    assert again.exit_code == 5
    assert "already exists" in again.output
