"""Figures on the pages: tables, marks and single numbers that come from the records.

A writer of a page uses four comments; ``make docs`` fills in what three of them enclose:

``<!-- rows: SECTION, SECTION -->`` ... ``<!-- end -->``
    a table of the rows of these sections that have a limit;
``<!-- state -->`` ... ``<!-- end -->``
    the commits of all figures in this section of the page, and whether the code has changed since;
    ``<!-- state: SECTION, SECTION -->`` adds the rows of these sections of the records; on one line
    with text, the mark becomes a sentence of a paragraph;
``<!-- forgetting: PART -->`` ... ``<!-- end -->``
    a table, a list or a sentence with figures of the forgetting study
    (``parties/experiments/study_pages/advice.py`` lists the parts);
``<!-- row: NAME -->``
    directly after a number: the number is the value of this row. ``; times 1e-6`` at the end of the
    name multiplies the value, and ``; number 2`` takes the second number of a value that is a text.

``faults`` finds numbers that differ from their rows, and stale figures without a mark.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bench.records import MARK, RecordedRow, Records

from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.provenance import Provenance
from parties.experiments.study_pages.advice import PARTS

BLOCK = re.compile(r"<!-- (rows|state|forgetting)(?:: ([^>]+))? -->(\n?).*?<!-- end -->", re.DOTALL)
STUDY_PART = re.compile(r"<!-- forgetting: [^>]+ -->")
STUDY = "docs/forgetting.json"  # the record of the forgetting study
NUMBER = r"[+\-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
FIGURE = re.compile(
    rf"(?P<number>{NUMBER})?(?P<percent>\s%)?<!-- row: (?P<name>.+?)"
    r"(?:; (?P<how>times|number) (?P<by>[\d.e+-]+))? -->"
)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
PICTURES = {  # section of the record from which each picture is drawn
    "demo.svg": "demo",
    "forgetting.png": "forgetting",
    "exact-methods.png": "exact-methods",
}
NOTHING = "*No recorded figure.*"
MOST_NAMED = 4  # a mark with more commits than this names the records instead of the commits
HEADINGS = ("figure", "value", "wanted", "measured")


def pages(root: Path) -> list[Path]:
    """The pages whose figures are checked."""
    named = ("README.md", "SECURITY.md", "protocol/README.md", "psi/README.md")
    return [*(root / each for each in named), *sorted((root / "docs").glob("*.md"))]


def rendered(text: str, records: Records) -> str:
    """The text of a page with its tables and marks filled in."""
    return "".join(_rendered(part, records) for part in parts(text))


def parts(text: str) -> list[str]:
    """The sections of a page: each begins with a heading, except the first."""
    lines: list[list[str]] = [[]]
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and re.match(r"#{1,6} ", line):
            lines.append([])
        lines[-1].append(line)
    return ["".join(each) for each in lines]


def _rendered(part: str, records: Records) -> str:
    def fill(found: re.Match[str]) -> str:
        kind, names = found[1], _names(found[2])
        body = (
            _table(names, records) if kind == "rows"
            else _study(names, records) if kind == "forgetting"
            else _state(part, names, records)
        )  # fmt: skip
        space = "\n\n" if found[3] else ""  # without a line break, the mark stands in a paragraph
        return f"{found[0].partition('-->')[0]}-->{space}{body}{space}<!-- end -->"

    return BLOCK.sub(fill, part)


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in listed.split(",")] if listed else []


def _table(names: list[str], records: Records) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    for name in names:
        for row in records.of_section(name):
            if row.ok is not None:
                missed = "" if row.ok else "**not reached:** "
                cells = (f"{missed}{row.name}", _value(row), row.wanted, _measured(row, records))
                lines.append("| " + " | ".join(each.replace("|", r"\|") for each in cells) + " |")
    return "\n".join(lines)


def _study(names: list[str], records: Records) -> str:
    """The parts with these names of the page about forgetting."""
    recorded = RecordedStudy.read(records.root / STUDY)
    return "\n".join(PARTS[name]([*recorded.populations.values()]) for name in names)


def _value(row: RecordedRow) -> str:
    spread = f" [{row.spread[0]:.3g}, {row.spread[1]:.3g}]" if row.spread else ""
    return f"{plain(row.value)}{spread} {row.unit}".rstrip()


def plain(value: float | str) -> str:
    """A value as a table shows it."""
    return (
        value
        if isinstance(value, str)
        else f"{value:,}"
        if isinstance(value, int)
        else (f"{value:.4g}")
    )


def _measured(row: RecordedRow, records: Records) -> str:
    stale = records.is_stale(row.section, row.provenance)
    commit = row.provenance.commit or "an unknown commit"
    if (count := commit.count(",") + 1) > MOST_NAMED:
        return f"with {count} earlier versions" if stale else f"at {count} commits"
    return f"before changes since {commit}" if stale else f"at {commit}"


def _state(part: str, names: list[str], records: Records) -> str:
    """The sentence of a mark."""
    shown = _origins(part, records, names)
    stale = [commit for name, own in shown.items() for commit in records.stale_commits(name, own)]
    if stale:
        return f"*Figures of this section: {_stale_text(stale, shown, records)}.*"
    if not any(shown.values()):
        return NOTHING
    commits = dict.fromkeys(each.commit for own in shown.values() for each in own)
    machines = dict.fromkeys(each.machine for own in shown.values() for each in own)
    return f"*Figures of this section: measured at {', '.join(commits)} ({'; '.join(machines)}).*"


def _stale_text(stale: Iterable[str], shown: Iterable[str], records: Records) -> str:
    """Name the commits of stale figures, or the records that name them if there are many."""
    commits = list(dict.fromkeys(stale))
    if len(commits) <= MOST_NAMED:
        return f"{MARK} {', '.join(commits)}"
    paths = dict.fromkeys(records.sections[name].path for name in shown)
    listed, count = " and in ".join(paths), len(commits)
    return f"measured with earlier versions of the program; their {count} commits are in {listed}"


def _origins(part: str, records: Records, names: list[str]) -> Mapping[str, list[Provenance]]:
    """The measurements behind the numbers and pictures of a section, by section of the records."""
    found = {name: records.origins(name) for name in names}
    for each in FIGURE.finditer(part):
        if row := records.rows.get(each["name"]):
            found.setdefault(row.section, []).append(row.provenance)
    if STUDY_PART.search(part):
        found.setdefault("forgetting", []).extend(records.origins("forgetting"))
    for link in PICTURE.findall(part):
        if name := PICTURES.get(link.rpartition("/")[2]):
            found.setdefault(name, []).extend(records.origins(name))
    return found


def faults(text: str, records: Records) -> list[str]:
    """What is wrong with the figures of a page, one sentence for each fault."""
    found = [fault for part in parts(text) for fault in _faults_of(part, records)]
    if rendered(text, records) != text:
        found.append("a table or a mark is not the recorded one: run make docs")
    return found


def _faults_of(part: str, records: Records) -> Iterator[str]:
    for each in FIGURE.finditer(part):
        row = records.rows.get(each["name"])
        if row is None:
            yield f"no record has a row {each['name']!r}"
        elif each["number"] is None:
            yield f"no number directly before the row {row.name!r}"
        elif not shows(each, row):
            yield f"{each['number']} is not the recorded {row.value} of {row.name!r}"
    if NOTHING in part:
        yield f"{part.partition(chr(10))[0]!r} has a mark but no recorded figure"
    marked = set(re.findall(r"[0-9a-f]{7,}\+?", " ".join(re.findall(rf"{MARK} ([^.*]+)", part))))
    for name, own in _origins(part, records, []).items():
        missing = [each for each in records.stale_commits(name, own) if each not in marked]
        generated = any(each[1] == "state" for each in BLOCK.finditer(part))
        if missing and not generated and not ("an unknown commit" in missing and MARK in part):
            heading = part.partition("\n")[0]
            yield (
                f"{heading!r} shows stale figures of {name!r} without the mark "
                f"'{MARK} {', '.join(missing)}': add <!-- state --> and <!-- end -->, run make docs"
            )


def shows(found: re.Match[str], row: RecordedRow) -> bool:
    """Whether a number on a page is the value of a row, rounded to the digits on the page."""
    text = found["number"].replace("−", "-").replace(",", "")
    value = row.value
    if isinstance(value, str):
        numbers = re.findall(NUMBER, value)
        at = int(found["by"]) if found["how"] == "number" else 1
        if not 1 <= at <= len(numbers):
            return False
        value = float(numbers[at - 1].replace(",", ""))
    factor = float(found["by"]) if found["how"] == "times" else 1.0
    exact = value * factor * (100 if found["percent"] and factor == 1.0 else 1)
    return abs(float(text) - exact) <= 0.5001 * _last_digit(text)


def _last_digit(text: str) -> float:
    """The worth of the last digit of a number: 0.01 for 3.14."""
    digits, _, exponent = text.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))
