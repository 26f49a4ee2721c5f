"""An agreement of four simulated clients, for tests."""

from pathlib import Path

from configs.config_file import read_config
from configs.horizontal import HorizontalAgreement
from parties.horizontal.registry import SCHEMA as HORIZONTAL

WARDS = """
federation = "wards"
mode = "horizontal"
clients = 4
shape = [1, 8, 8]
labels = { classes = ["a", "b"] }
parties = { server = { role = "server" } }
partition = { kind = "iid" }
"""


def agreed(folder: Path, beside: str, *changes: str) -> HorizontalAgreement:
    """The agreement of ``WARDS`` and the tables ``beside`` it, with overrides."""
    (folder / "wards.toml").write_text(WARDS + beside)
    return read_config(folder / "wards.toml", HORIZONTAL, changes).agreement
