"""Result pages of a benchmark in ``docs``: Markdown, JSON, pictures and rows of checks."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Self, TypeAlias

from parties.common.atomic_file import write_atomically
from parties.common.libraries import library_versions
from parties.experiments.bench.blocks import B, BlockList, FedoraBlocks, TableBlock
from parties.experiments.bench.checks import (
    FEWEST,
    ReproductionCheck,
    check_row,
    fedora_checks,
    results_by_row,
)
from parties.experiments.bench.figures import draw_blocks
from parties.experiments.bench.results import Results
from parties.experiments.bench.tables import (
    FilledBlock,
    block_from_json,
    block_to_json,
    block_to_markdown,
    fill_blocks,
)
from parties.experiments.provenance import Provenance, values_digest

Judge: TypeAlias = Callable[[Results], list[ReproductionCheck]]
LIBRARIES = ("vfl", "torch", "numpy", "scikit-learn")
LEAD = (
    "m: number of classes of which rows are forgotten. n: the share of their rows. Unlearning "
    "accuracy: accuracy on the forgotten rows. A lower one is not a success by itself, because the "
    "target is the accuracy of Retrain on these rows. MIA-ASR: balanced accuracy of a membership "
    "attack; 0.5 is chance. BD-ASR, the success rate of a backdoor trigger, is measured in "
    "separate runs in which the forgotten rows have the trigger; BD base rate is the same for rows "
    "without it.\n\n"
    "Original: the trained model. FedORA (default): the default settings. FedORA (paper): "
    '`form = "paper"`. GA: gradient ascent up to the loss of a uniform guess; GA (long) goes on. '
    "w/o UL, w/o AB, w/o AS: FedORA (paper) without the unlearning loss, with all of D_r in each "
    "iteration, and with fixed step sizes. δ: share of D_r in each iteration. ω: weight in the "
    "forgetting score. CVFU needs a top model that adds the parties' votes (their logits), so it "
    "is compared with a Retrain that has the same kind of top model: Retrain (sum of votes).\n\n"
    "[Explanation of the checks, and why some figures are not reproduced](reading.md)."
)


@dataclass(frozen=True, slots=True)
class WrittenPages:
    """Result of ``publish_pages``: the paths of the page and of the file of checks; all checks."""

    page: Path
    figures: Path
    checks: list[ReproductionCheck]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Names and texts of a benchmark's result pages."""

    folder: str  # folder of the pages in ``docs``
    rows: str  # name of the file in ``docs`` with one row per check
    section: str  # section of these rows
    # Name of all tables together, for example ``FedORA's tables``; the title of the page and the
    # check of the total run time contain this name.
    tables: str
    lead: str  # explanations that precede the tables
    source: str  # source of the paper's numbers
    blocks: Sequence[TableBlock]
    judge: Judge
    # Limit for the total run time of all runs on two cores; None: no limit.
    hours: float | None = None

    @classmethod
    def of(
        cls,
        folder: str,
        blocks: BlockList[B],
        tables: str,
        lead: str,
        judge: Judge,
        hours: float | None = None,
    ) -> Self:
        """Return the pages with these ``blocks``; the name of ``folder`` names the file of rows."""
        return cls(
            folder=folder, rows=f"{folder}.json", section=f"{folder} tables", tables=tables,
            lead=lead, hours=hours, source=blocks.source, blocks=blocks.block, judge=judge,
        )  # fmt: skip


def fedora_pages(blocks: FedoraBlocks) -> Pages:
    """Return the pages of the FedORA benchmark."""
    return Pages.of("fedora", blocks, "FedORA's tables", LEAD, fedora_checks, hours=2.0)


def publish_pages(pages: Pages, results: Results, command: str, docs: Path) -> WrittenPages:
    """Write the page, its JSON, the pictures and the rows of the checks."""
    folder = docs / pages.folder
    folder.mkdir(parents=True, exist_ok=True)
    shown, judged = fill_blocks(pages.blocks, results), pages.judge(results)
    about = _about(command, results)
    content = {**about, "source": pages.source, "blocks": [block_to_json(each) for each in shown]}
    _text(folder / "tables.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    drawn = draw_pictures(pages, docs)
    head = _head(about, pages) + _bases(results.unknown_bases)
    parts = [head, _check_table(judged), *_sections(shown, drawn)]
    _text(folder / "tables.md", "\n".join(parts))
    rows = [*judged, _time(pages, results)]
    known = [asdict(each) for each in rows if each.value is not None]
    merge_rows(docs / pages.rows, pages.section, known, results.provenance)
    return WrittenPages(folder / "tables.md", docs / pages.rows, judged)


def draw_pictures(pages: Pages, docs: Path) -> dict[str, str]:
    """Draw the figures of a page from its ``tables.json``; return the drawn files by figure."""
    folder, drawn = docs / pages.folder, dict[str, str]()
    recorded = json.loads((folder / "tables.json").read_text())["blocks"]
    for name in dict.fromkeys(each["table"] for each in recorded):
        if name.startswith("Figure"):
            own = [each for each in recorded if each["table"] == name]
            shown = [block_from_json(pages.blocks, each) for each in own]
            picture = f"{name.lower().replace(' ', '-')}.png"
            if draw_blocks(shown, folder / picture, values_digest(own)):
                drawn[name] = picture
    return drawn


def _time(pages: Pages, results: Results) -> ReproductionCheck:
    """Return the run time of all runs; without a value until every run exists."""
    hours = results.hours if results.there == results.wanted > 0 else None
    name, ok = f"all runs of {pages.tables}, two at a time", None
    if hours is not None and pages.hours is not None:
        ok = hours <= pages.hours
    wanted = "" if pages.hours is None else f"at most {pages.hours:g}"
    return ReproductionCheck(name, hours, "hours", wanted, ok)


def merge_rows(
    path: Path, section: str, rows: Sequence[Mapping[str, Any]], provenance: Provenance
) -> None:
    """Replace the rows of a section in a file; every row gets the section and its provenance."""
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    names = {row["name"] for row in rows}
    kept = [row for row in before if row["section"] != section and row["name"] not in names]
    place = next((at for at, row in enumerate(before) if row["section"] == section), len(before))
    place = sum(row in kept for row in before[:place])
    own = [{**row, "section": section, **asdict(provenance)} for row in rows]
    content = {"rows": [*kept[:place], *own, *kept[place:]]}
    _text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _about(command: str, results: Results) -> dict[str, Any]:
    """Return command, date, versions, number of runs, and the provenance of the runs."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": library_versions(LIBRARIES) | {"python": platform.python_version()},
        "runs": {"there": results.there, "wanted": results.wanted},
        **asdict(results.provenance),
    }


def _head(about: Mapping[str, Any], pages: Pages) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    there, wanted = about["runs"]["there"], about["runs"]["wanted"]
    text = (
        f"# {pages.tables[0].upper()}{pages.tables[1:]} and figures\n\n"
        f"Written by `{about['command']}` on {about['date']} with {versions}; {there} of {wanted} "
        "runs are finished. Each figure is the mean ± standard deviation over seeds 0, 1, ...; the "
        "difference to Retrain is in brackets. Source of the paper's numbers: "
        f"{pages.source}.\n\n"
        f"{pages.lead}\n"
    )
    if there < wanted:
        text += "\n**Not complete:** run the same command to compute the missing runs.\n"
    if about["runs"]["there"] and not about["code"]:
        text += "\n**Mixed:** the runs were computed by more than one version of the program.\n"
    return text


def _bases(unknown: int) -> str:
    """Return a paragraph about the runs whose base model is not recorded."""
    if not unknown:
        return ""
    return (
        f"\n**Base model not known:** the records of {unknown} runs do not have the digest of "
        "their base model, so it may differ from that of the other runs.\n"
    )


def _check_table(judged: Sequence[ReproductionCheck]) -> str:
    words = ", ".join(f"{row} {word}" for row, word in results_by_row(judged).items())
    lines = [
        "## Reproduction checks",
        "",
        f"{words}. In square brackets: the 95 % interval of Student's t over seeds. A check holds "
        "if the whole interval meets the requirement, fails if no part of the interval does, and "
        "is undecided otherwise. A check is open as long as fewer than "
        f"{FEWEST} seeds are finished.",
        "",
    ]
    lines += _missed(judged)
    lines += ["| figure | measured | wanted | holds |", "|---|---|---|---|"]
    for each in judged:
        lines.append(f"| {each.name} | {_value(each)} | {each.wanted} | {each.verdict} |")
    return "\n".join(lines) + "\n"


def _missed(judged: Sequence[ReproductionCheck]) -> list[str]:
    """Return a line per check that is not reproduced: the measured value and the wanted one."""
    missed = [
        f"* {check_row(each)} not reproduced because of “{each.name.partition(':')[2].strip()}”: "
        f"measured {_value(each)}, wanted {each.wanted}"
        for each in judged
        if each.ok is False
    ]
    return [*missed, ""] if missed else []


def _value(check: ReproductionCheck) -> str:
    if check.value is None:
        return "open"
    spread = f" [{check.spread[0]:.3g}, {check.spread[1]:.3g}]" if check.spread else ""
    return f"{check.value:.4g}{spread} {check.unit}".rstrip()


def _sections(shown: Sequence[FilledBlock], drawn: Mapping[str, str]) -> list[str]:
    sections = []
    for name, group in groupby(shown, lambda each: each.block.table):
        heading = name if name.startswith("Figure") else f"Table {name}"
        picture = f"![{name}]({drawn[name]})\n\n" if name in drawn else ""
        blocks = "\n".join(block_to_markdown(each) for each in group)
        sections.append(f"## {heading}\n\n{picture}{blocks}")
    return sections


def _text(path: Path, text: str) -> None:
    write_atomically(path, text.encode())
    path.chmod(0o644)  # world-readable: the file has figures over many rows, no personal data
