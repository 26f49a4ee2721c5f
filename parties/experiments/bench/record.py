"""What a bench leaves in ``docs``: pages, pictures, and rows of figures beside other commands'."""

import json
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from parties.common.atomic_file import write
from parties.experiments.bench.blocks import Blocks, Setting
from parties.experiments.bench.figures import draw
from parties.experiments.bench.results import Results
from parties.experiments.bench.tables import Shown, markdown, plain, tables
from parties.experiments.bench.verdicts import FEWEST, Verdict, reproduced, row_of, verdicts

LIBRARIES = ("vfl", "torch", "numpy", "scikit-learn")
LEAD = (
    "A lower accuracy on forgotten rows is no success by itself: what counts is how near a "
    "method comes to Retrain. BD-ASR is read from runs of its own, in which the forgotten rows "
    "bear a trigger. CVFU runs on a sum of votes and has a Retrain of that system.\n\n"
    "[What the verdicts say, and why some are not reproduced](reading.md)."
)


@dataclass(frozen=True, slots=True)
class Written:
    """Where it stands."""

    page: Path
    figures: Path
    verdicts: list[Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What a bench's pages are called and say.

    Attributes:
        folder: of the pages, in ``docs``.
        rows: the file of the verdicts' rows, beside it.
        tables: whose they are, as the title and the row of their time have it.
        lead: what must be known to read the tables.
        source: of the paper's numbers.
        hours: that all runs may take on two cores.
    """

    folder: str
    rows: str
    tables: str
    lead: str
    source: str
    blocks: Sequence[Setting]
    judge: Callable[[Results], list[Verdict]]
    hours: float | None = None


def fedora_pages(blocks: Blocks) -> Pages:
    """Those of FedORA."""
    return Pages(
        folder="fedora", rows="fedora.json", tables="FedORA's tables", lead=LEAD, hours=2.0,
        source=blocks.source, blocks=blocks.block, judge=verdicts,
    )  # fmt: skip


def publish(pages: Pages, found: Results, command: str, docs: Path) -> Written:
    """Write the page, its JSON, the pictures and the rows of the verdicts."""
    folder = docs / pages.folder
    folder.mkdir(parents=True, exist_ok=True)
    shown, judged = tables(pages.blocks, found), pages.judge(found)
    about = _about(command, found)
    pictures = {
        name: f"{name.lower().replace(' ', '-')}.png"
        for name in dict.fromkeys(each.block.table for each in shown)
        if name.startswith("Figure")
    }
    drawn = {
        name: picture
        for name, picture in pictures.items()
        if draw([each for each in shown if each.block.table == name], folder / picture)
    }
    parts = [_head(about, pages), _verdict_table(judged), *_sections(shown, drawn)]
    _text(folder / "tables.md", "\n".join(parts))
    content = {**about, "source": pages.source, "blocks": [plain(each) for each in shown]}
    _text(folder / "tables.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    rows = [*judged, _time(pages, found)]
    known = [asdict(each) for each in rows if each.value is not None]
    merge(docs / pages.rows, known, {each.name for each in rows})
    return Written(folder / "tables.md", docs / pages.rows, judged)


def _time(pages: Pages, found: Results) -> Verdict:
    """What all runs took; no value before all are there."""
    hours = found.hours if found.there == found.wanted > 0 else None
    name, ok = f"all runs of {pages.tables}, two at a time", None
    if hours is not None and pages.hours is not None:
        ok = hours <= pages.hours
    wanted = "" if pages.hours is None else f"at most {pages.hours:g}"
    return Verdict(name, hours, "hours", wanted, ok)


def merge(path: Path, rows: Sequence[Mapping[str, Any]], own: Collection[str] = ()) -> None:
    """Put rows beside those of other commands; rows named alike, or named in ``own``, give way."""
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    names = {row["name"] for row in rows} | set(own)
    kept = [row for row in before if row["name"] not in names]
    _text(path, json.dumps({"rows": [*kept, *rows]}, indent=1, ensure_ascii=False) + "\n")


def _about(command: str, found: Results) -> dict[str, Any]:
    """With what, when, and how much of it is there."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in LIBRARIES}
        | {"python": platform.python_version()},
        "runs": {"there": found.there, "wanted": found.wanted},
        "sources": sorted(found.sources),
    }


def _head(about: Mapping[str, Any], pages: Pages) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    there, wanted = about["runs"]["there"], about["runs"]["wanted"]
    text = (
        f"# {pages.tables[0].upper()}{pages.tables[1:]} and figures\n\n"
        f"`{about['command']}` on {about['date']} with {versions}: "
        f"{there} of {wanted} runs. Seeds 0, 1, ...; mean ± standard deviation over "
        f"seeds; in brackets the difference to Retrain. The paper's numbers: {pages.source}.\n\n"
        f"{pages.lead}\n"
    )
    if there < wanted:
        text += "\n**Not complete:** the same command goes on where this one stopped.\n"
    if len(about["sources"]) > 1:
        text += "\n**Mixed:** the runs were made by more than one state of the program.\n"
    return text


def _verdict_table(judged: Sequence[Verdict]) -> str:
    words = ", ".join(f"{row} {word}" for row, word in reproduced(judged).items())
    lines = ["## Verdicts", "", f"{words}. Open is what has fewer than {FEWEST} seeds.", ""]
    lines += _missed(judged)
    lines += ["| figure | measured | wanted | holds |", "|---|---|---|---|"]
    marks = {True: "yes", False: "no", None: ""}
    for each in judged:
        lines.append(f"| {each.name} | {_value(each)} | {each.wanted} | {marks[each.ok]} |")
    return "\n".join(lines) + "\n"


def _missed(judged: Sequence[Verdict]) -> list[str]:
    """Why a row is not reproduced: what was measured, and what was wanted."""
    found = [
        f"* {row_of(each)} not reproduced:{each.name.partition(':')[2]} is {_value(each)}; "
        f"wanted: {each.wanted}"
        for each in judged
        if each.ok is False
    ]
    return [*found, ""] if found else []


def _value(verdict: Verdict) -> str:
    return "open" if verdict.value is None else f"{verdict.value:.4g} {verdict.unit}".rstrip()


def _sections(shown: Sequence[Shown], drawn: Mapping[str, str]) -> list[str]:
    sections = []
    for name, group in groupby(shown, lambda each: each.block.table):
        heading = name if name.startswith("Figure") else f"Table {name}"
        picture = f"![{name}]({drawn[name]})\n\n" if name in drawn else ""
        blocks = "\n".join(markdown(each) for each in group)
        sections.append(f"## {heading}\n\n{picture}{blocks}")
    return sections


def _text(path: Path, text: str) -> None:
    write(path, text.encode())
    path.chmod(0o644)  # figures over many rows, and no row's own
