"""The steps of docs/deploy.md: commands, files to write, files to copy, pins."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "deploy.md"
_STEP = re.compile(
    r"```(?P<kind>sh|toml) (?P<info>[^\n]+)\n(?P<text>.*?)```"
    r"|<!-- copy (?P<source>\S+) (?P<target>\S+) -->"
    r"|<!-- (?P<pins>pins) -->",
    re.DOTALL,
)


@dataclass(frozen=True)
class Typed:
    """Commands of one organisation."""

    organisation: str
    commands: str
    background: bool


@dataclass(frozen=True)
class Written:
    """A file that one organisation writes; both write it if ``organisation`` is empty."""

    organisation: str
    name: str
    text: str


@dataclass(frozen=True)
class Carried:
    """A file that is copied from one organisation to the other."""

    source: str
    target: str


@dataclass(frozen=True)
class Pinned:
    """Both organisations write the pins into the agreement."""


Step = Typed | Written | Carried | Pinned


def steps() -> Iterator[Step]:
    """Yield the steps of the guide; code blocks without a place are for real machines only."""
    for match in _STEP.finditer(GUIDE.read_text()):
        if match["pins"]:
            yield Pinned()
        elif match["source"]:
            yield Carried(match["source"], match["target"])
        elif match["kind"] == "toml":
            organisation, _, name = match["info"].rpartition(":")
            yield Written(organisation, name, match["text"])
        else:
            organisation, *options = match["info"].split()
            yield Typed(organisation, match["text"], options == ["background"])
