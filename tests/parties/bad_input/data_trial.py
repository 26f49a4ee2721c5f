"""Runs of the commands on bad data, with canaries in place of personal data."""

from collections.abc import Iterable
from pathlib import Path
from time import process_time

import torch
from typer import Typer
from typer.testing import CliRunner

# Commands import these modules when they need them; here, so that no import is measured below.
import parties.cli.modes
import parties.experiments.tracking
import parties.vertical.active
import parties.vertical.in_process
import parties.vertical.run_party  # noqa: F401
from parties.cli.main import party_app, simulate_app
from protocol.keyring import issue_certificate, make_authority

torch.use_deterministic_algorithms(mode=True)  # each party does so; the first call is slow

CANARY, NUMBER = "canary-q7Zx", "515051"
LONGEST = 2.0  # seconds of CPU time of one command
CONFIG = """
federation = "trial"
dtype = "float64"
training = {batch = 8, epochs = 1}
unlearning = {retrains = 2}
labels = {classes = ["no", "yes"]}
parties.bank = {role = "active"}
parties.shop = {role = "passive", width = 2, bottom = {kind = "mlp", hidden = []}}
limits = {join_seconds = 0.3}
psi = {minimum = 20}
"""
TABLE = (
    f'[settings.%s.data]\nkind = "csv"\npath = "%s.csv"\nid = {{columns = ["id"]}}\n# {CANARY}\n'
)
BANK, SHOP = TABLE % ("bank", "bank") + 'label = "y"\n', TABLE % ("shop", "shop")
NOT_REFUSED = 6  # exit code if the data is accepted: then no peer joins


def certify(folder: Path) -> Path:
    """Make a folder with the certificates of both parties."""
    make_authority(folder, "trial")
    for name in ("bank", "shop"):
        issue_certificate(folder, "trial", name)
    return folder


class DataTrial:
    """Runs commands on the data of one party, or of both."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self.folder, self._keys = folder, keys

    def bank(self, code: int, *words: str, text: str | bytes | None = None, **settings: str) -> str:
        """Run the active party on ``text``."""
        if text is not None:
            content = text if isinstance(text, bytes) else text.encode()
            (self.folder / "bank.csv").write_bytes(content)
        return self.party("active", "bank", BANK + lines(settings), code, words)

    def shop(self, code: int, *words: str, text: str, **settings: str) -> str:
        """Run the passive party on ``text``."""
        (self.folder / "shop.csv").write_text(text)
        return self.party("passive", "shop", SHOP + lines(settings), code, words)

    def both(self, code: int, *words: str, settings: Iterable[str] = ()) -> str:
        """Run both parties in one process."""
        patient = ("limits.join_seconds=60", *settings)
        changes = [part for setting in patient for part in ("--set", setting)]
        config = self._config(BANK + SHOP)
        return self._output(simulate_app, [config, "--in-process", *changes], code, words)

    def party(self, role: str, name: str, settings: str, code: int, words: tuple[str, ...]) -> str:
        options = ["--role", role, "--config", self._config(settings), "--party", name]
        where = ["--hub", f"unix:{self.folder}/hub", "--certificates", str(self._keys)]
        return self._output(party_app, [*options, *where], code, words)

    @property
    def runs(self) -> Path:
        """The folder of the runs, outside the data folder."""
        return self.folder.with_name(f"{self.folder.name}-runs")

    def _config(self, settings: str) -> str:
        (self.folder / "trial.toml").write_text(CONFIG + settings)
        return str(self.folder / "trial.toml")

    def _output(self, app: Typer, options: list[str], code: int, words: tuple[str, ...]) -> str:
        started = process_time()
        env = {"VFL_DATA": None, "COLUMNS": "200"}
        place = ["--out", str(self.runs), "--data", str(self.folder)]
        result = CliRunner().invoke(app, [*options, *place], env=env)
        seconds = process_time() - started
        assert result.exit_code == code, result.output
        for word in words:
            assert word in result.output, result.output
        for never in ("Traceback", CANARY, NUMBER):
            assert never not in result.output
        assert seconds < LONGEST or code in (0, NOT_REFUSED)
        return result.output


def lines(settings: dict[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in settings.items())
