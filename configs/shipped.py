"""The shipped configs that ``vfl simulate`` runs, found by name.

The name of a run is the path of its config in this folder without ``.toml``: ``horizontal/digits``.
A run of the vertical mode, and a run whose file name is unique, also has the file name alone as its
name: ``digits``, ``tofu``.
"""

from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from configs.errors import ConfigError

FOLDERS: Final = ("vertical", "horizontal", "llm")  # an earlier folder wins a short name
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ShippedRun:
    """A shipped config.

    Attributes:
        name: the shortest name of the run.
        path: the config file.
        summary: the first sentence of the config's comment.
        needs_data: whether the run reads files of a folder that the user names with ``--data``.
    """

    name: str
    path: Path
    summary: str
    needs_data: bool


def shipped_runs() -> list[ShippedRun]:
    """Return all shipped runs, sorted by folder and name."""
    found: dict[str, ShippedRun] = {}
    for folder in FOLDERS:
        for path in sorted((_HERE / folder).glob("*.toml")):
            name = path.stem if path.stem not in found else f"{folder}/{path.stem}"
            found[name] = _described(name, path)
    return list(found.values())


def find_config(given: Path) -> Path:
    """Return the config file that ``given`` names: a file, or else a shipped run.

    Raises:
        ConfigError: there is neither such a file nor such a run.
    """
    if given.exists() or given.suffix == ".toml":
        return given
    name = given.as_posix()
    known = {each.name: each.path for each in shipped_runs()}
    full = {f"{path.parent.name}/{path.stem}": path for path in known.values()}
    if path := known.get(name) or full.get(name):
        return path
    raise ConfigError(
        f"{name} is neither a file nor the name of a shipped run",
        "vfl runs lists all shipped runs; the name of a config file ends in .toml",
    )


def _described(name: str, path: Path) -> ShippedRun:
    with path.open(encoding="utf-8") as lines:
        comment = [line.lstrip("# ").rstrip() for line in takewhile(lambda x: x[0] == "#", lines)]
    summary = " ".join(takewhile(bool, comment)).partition(". ")[0].rstrip(".")
    return ShippedRun(name, path, summary, any(" --data " in line for line in comment))
