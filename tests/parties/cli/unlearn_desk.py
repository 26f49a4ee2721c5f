"""The commands of ``vfl unlearn`` at three parties with a kept model, inside a test."""

import json
from typing import Any

from kept_trio import KeptTrio
from three_parties import PARTIES
from typer.testing import CliRunner, Result

from parties.cli.main import app
from parties.vertical.kept_model import kept_rows

SETTINGS = """
[settings.{name}]
certificates = "certs"
data = {{ kind = "csv", path = "{name}.csv", id = {{ columns = ["id"] }}{label} }}
{more}
"""


def toml(value: Any) -> str:
    """A JSON value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class Desk:
    """The commands of the three parties."""

    def __init__(self, trio: KeptTrio) -> None:
        self.trio, self.folder = trio, trio.folder
        self.write()

    def write(self, more: dict[str, str] | None = None, **changes: Any) -> None:
        """Write the config; ``more`` is added to the settings of parties."""
        self.trio.plan = {**self.trio.plan, **changes}
        lines = [f"{key} = {toml(value)}" for key, value in self.trio.plan.items()]
        for name in PARTIES:
            label = ', label = "label"' if name == "hub" else ""
            added = (more or {}).get(name, "")
            lines.append(SETTINGS.format(name=name, label=label, more=added))
        (self.folder / "trio.toml").write_text("\n".join(lines))

    def run(self, command: str, *options: object, party: str = "left") -> Result:
        words = ["unlearn", command, self.folder / "trio.toml", "--party", party]
        words += ["--out", self.folder / "runs", *options]
        words += ["--format", "json"] * ("--format" not in options)
        if command in ("request", "correct"):
            words += ["--data", self.folder]
        environment = {"COLUMNS": "300", "VFL_DATA": None, "VFL_MASTER_KEY_FILE": None}
        return CliRunner().invoke(app, [str(word) for word in words], env=environment)

    def events(self, command: str, *options: object, party: str = "left") -> list[dict[str, Any]]:
        result = self.run(command, *options, party=party)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.output.splitlines()]

    def event(self, command: str, *options: object, party: str = "left") -> dict[str, Any]:
        (found,) = self.events(command, *options, party=party)
        return found

    def refused(self, code: int, message: str, *words: object, party: str = "left") -> None:
        """Expect that a command fails with this code and message, and with a hint."""
        result = self.run(str(words[0]), *words[1:], party=party)
        assert result.exit_code == code, result.output
        error = json.loads(result.output.splitlines()[-1])
        assert message in error["message"]
        assert error["hint"]


def known(desk: Desk, count: int, party: str = "left") -> list[str]:
    """IDs that the model knows."""
    return [each.decode() for each in sorted(kept_rows(desk.trio.models()[party]))[:count]]
