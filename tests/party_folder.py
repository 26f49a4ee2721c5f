"""A party's folder for ``vfl doctor``, without problems until a test changes it."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from parties.cli.main import app
from protocol.credentials import fingerprint
from protocol.keyring import read_keyring

HUB, SPOKE = "bank", "shop"
AGREEMENT = """
federation = "trial"
[parties.bank]
role = "active"
width = 4
{bank}
[parties.shop]
role = "passive"
width = 4
{shop}
[labels]
classes = ["no", "yes"]
"""
SETTINGS = """
certificates = "certs"
{top}
[data]
kind = "csv"
path = "{name}.csv"
id = {{ columns = ["id"] }}
{data}
"""
SECRET = "p4711"


@dataclass
class PartyFolder:
    """A folder with agreement, settings, data and certificates of bank and shop."""

    folder: Path
    agreed: dict[str, str] = field(default_factory=lambda: {"bank": "", "shop": ""})

    @property
    def certs(self) -> Path:
        return self.folder / "certs"

    def settings(self, name: str, top: str = "", data: str = "") -> None:
        data = data or ('label = "bought"' if name == HUB else "")
        text = SETTINGS.format(name=name, top=top, data=data)
        (self.folder / f"{name}.party.toml").write_text(text)

    def run_doctor(self, name: str, *options: str, at: str = "127.0.0.1:0") -> Result:
        (self.folder / "trial.toml").write_text(AGREEMENT.format(**self.agreed))
        command = ["doctor", str(self.folder / "trial.toml"), "--party", name, "--hub", at]
        command += ["--out", str(self.folder / "runs"), *options]
        return CliRunner().invoke(app, command, env={"COLUMNS": "300", "VFL_DATA": None})

    def findings(self, name: str, *options: str, **where: str) -> dict[str, dict[str, Any]]:
        """Run the doctor; return the last finding of each check by its name, and the result."""
        lines = self.run_doctor(name, "--format", "json", *options, **where).output.splitlines()
        events = [json.loads(line) for line in lines]
        return {each.get("check", "result"): each for each in events}


def make_party_folder(tmp_path: Path, keys: Path) -> PartyFolder:
    """Make a folder without any problem."""
    made = PartyFolder(tmp_path)
    made.certs.mkdir()
    for name in ("ca.pem", "bank.pem", "bank.key", "shop.pem", "shop.key"):
        shutil.copy(keys / name, made.certs)
    for name in (HUB, SPOKE):
        made.settings(name)
        rows = [f"{SECRET if row == 7 else f'p{row}'},{row},{['no', 'yes'][row % 2]}"
                for row in range(20)]  # fmt: skip
        rows = rows if name == HUB else [row.rpartition(",")[0] for row in rows]
        head = "id,age,bought" if name == HUB else "id,age"
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
    return made


def expect_failure(
    party_folder: PartyFolder, name: str, code: int, message: str, *options: str, **where: str
) -> None:
    """Check that the doctor fails with this code and message, with a hint and without row data."""
    result = party_folder.run_doctor(name, *options, **where)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())
    assert "→" in result.output
    assert SECRET not in result.output


def pin_keys(party_folder: PartyFolder) -> None:
    for name in party_folder.agreed:
        pin = fingerprint(read_keyring(party_folder.certs, name).identity.certificate)
        party_folder.agreed[name] = f'pins = ["{pin}"]'
