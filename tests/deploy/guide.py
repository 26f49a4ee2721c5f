"""The guide to deployment as a list of steps: what is typed where, which file is carried."""

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
    """Commands that one organisation types."""

    who: str
    commands: str
    background: bool


@dataclass(frozen=True)
class Written:
    """A file that one organisation writes, or both where ``who`` is empty."""

    who: str
    name: str
    text: str


@dataclass(frozen=True)
class Carried:
    """A file that goes from one organisation to the other."""

    source: str
    target: str


@dataclass(frozen=True)
class Pinned:
    """Both write the pins that they have seen into the agreement."""


Step = Typed | Written | Carried | Pinned


def steps() -> Iterator[Step]:
    """The guide from top to bottom; blocks without a place are for a real machine only."""
    for found in _STEP.finditer(GUIDE.read_text()):
        if found["pins"]:
            yield Pinned()
        elif found["source"]:
            yield Carried(found["source"], found["target"])
        elif found["kind"] == "toml":
            who, _, name = found["info"].rpartition(":")
            yield Written(who, name, found["text"])
        else:
            who, *how = found["info"].split()
            yield Typed(who, found["text"], how == ["background"])
