"""Figures on the pages and in the pictures equal the records, and stale ones are marked."""

import importlib
import json
import re
import struct
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pictures
import pytest
from bench.ledger import at_most, shown, store
from bench.pages import MOST_NAMED, faults, pages, rendered
from bench.pairs import PairedRatio, alternate, paired_ratio
from bench.records import MARK, Records
from bench.scopes import SECTIONS, Section

from parties.experiments.bench.benches import BENCHES
from parties.experiments.bench.figures import RECORD
from parties.experiments.population.audit import AUDITS
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.provenance import (
    ROOT,
    Provenance,
    code_digest,
    digest_of_files,
    values_digest,
)
from parties.experiments.study_pages.figure import study_points
from parties.report.record import MethodCost

DOCS = ROOT / "docs"
CODE = (
    '"""A module."""\n\nimport math\n\nLIMIT = 3\n\n\ndef area(r: float) -> float:\n    return r\n'
)


@pytest.fixture(scope="module")
def records() -> Records:
    return Records.read()


# --- the digest of the code ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 3  # a comment"),
        ('"""A module."""', '"""Another docstring."""'),
        ("    return r", '    """Returns r."""\n    return r'),
        ("import math", "import math\nfrom os import path"),
        ("    return r", "    import os\n    return r"),
        ("LIMIT = 3\n\n\ndef", "LIMIT=3\ndef"),
    ],
)
def test_comments_docstrings_imports_and_layout_change_no_digest(old: str, new: str) -> None:
    assert old in CODE
    changed = CODE.replace(old, new)
    assert digest_of_files({"a.py": changed.encode()}) == digest_of_files({"a.py": CODE.encode()})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("return r", "return -r"),
        ("def area", "def size"),
        ("LIMIT = 3", "LIMIT = None"),
        ("r: float", "r: float = 1.0"),
    ],
)
def test_changed_code_changes_the_digest(old: str, new: str) -> None:
    assert old in CODE
    changed = CODE.replace(old, new)
    assert digest_of_files({"a.py": changed.encode()}) != digest_of_files({"a.py": CODE.encode()})


def test_definitions_that_move_between_files_change_no_digest() -> None:
    head, function = CODE.split("\n\n\n")
    together = digest_of_files({"a.py": CODE.encode()})
    assert digest_of_files({"x/b.py": function.encode(), "a.py": head.encode()}) == together
    assert digest_of_files({"a.py": head.encode()}) != together


def test_settings_and_messages_count_without_their_comments(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("epochs = 3  # passes\n")
    (tmp_path / "b.proto").write_text("message A {}  // empty\n")
    before = code_digest(["./"], tmp_path)
    (tmp_path / "a.toml").write_text("# other\nepochs = 3\n")
    (tmp_path / "b.proto").write_text("message A {}\n")
    (tmp_path / "c_pb2.py").write_text("generated = 1\n")
    assert code_digest(["./"], tmp_path) == before
    (tmp_path / "a.toml").write_text("epochs = 4\n")
    assert code_digest(["./"], tmp_path) != before


def test_missing_file_has_no_digest(tmp_path: Path) -> None:
    assert code_digest(["psi/"], tmp_path) == ""


def test_every_scope_names_existing_code() -> None:
    for name, section in SECTIONS.items():
        missing = [each for each in section.scope if not (ROOT / each).exists()]
        assert not missing, f"section {name}"


def test_figure_of_several_measurements_has_a_digest_only_if_they_agree() -> None:
    one, other = Provenance("a1", "m", "x"), Provenance("b2", "m", "x")
    assert Provenance.common([other, one]) == Provenance("a1, b2", "m", "x")
    assert Provenance.common([one, replace(other, code="y")]).code == ""
    assert Provenance.common([]) == Provenance()


# --- the records ---------------------------------------------------------------------------------


def test_every_recorded_row_has_section_and_provenance(records: Records) -> None:
    assert records.rows
    for row in records.rows.values():
        assert row.section in SECTIONS, row.name
        assert re.fullmatch(r"[0-9a-f]{7,}\+?(, [0-9a-f]{7,}\+?)*", row.provenance.commit), row.name


@pytest.mark.parametrize("name", ["horizontal", "llm"])
def test_every_recorded_run_has_its_provenance(name: str) -> None:
    for run in json.loads((DOCS / name / "runs.json").read_text()).values():
        assert re.fullmatch(r"[0-9a-f]{7,}\+?", run["commit"]), run["title"]
        assert {"machine", "code"} <= run.keys()


@pytest.fixture
def planted(tmp_path: Path) -> Records:
    """A record of one section with two rows, and the code that they depend on."""
    (tmp_path / "psi").mkdir()
    (tmp_path / "psi" / "code.py").write_text(CODE)
    (tmp_path / "docs").mkdir()
    sections = {"psi": Section("docs/rows.json", ("psi/",))}
    origin = Provenance("0123abc", "2 cores", code_digest(["psi/"], tmp_path))
    rows = [
        asdict(at_most("PSI: wall", PairedRatio(1.2345, 1.1, 1.3, 5), 2.0, "s")),
        asdict(shown("PSI: parts", "adding 40.0; sending 27.6", "ms")),
    ]
    rows = [row | {"section": "psi"} | asdict(origin) for row in rows]
    (tmp_path / "docs" / "rows.json").write_text(json.dumps({"rows": rows}))
    return Records.read(tmp_path, sections)


def changed(planted: Records, old: str, new: str) -> Records:
    """The records after a change of the code."""
    path = planted.root / "psi" / "code.py"
    path.write_text(path.read_text().replace(old, new))
    return Records.read(planted.root, planted.sections)


def test_changed_comment_makes_no_row_stale(planted: Records) -> None:
    assert changed(planted, "LIMIT = 3", "LIMIT = 3  # of rows").stale_reason("psi") == ""


def test_changed_function_makes_rows_stale(planted: Records) -> None:
    after = changed(planted, "return r", "return 2 * r")
    assert after.stale_reason("psi") == "its code has changed since 0123abc"


def test_only_stale_sections_are_measured_and_each_is_reported(planted: Records) -> None:
    reports: list[str] = []
    assert list(planted.stale_sections(["psi"], reports.append)) == []
    after = changed(planted, "return r", "return 2 * r")
    assert list(after.stale_sections(["psi"], reports.append)) == ["psi"]
    assert reports == [
        "skips psi: measured at 0123abc, and its code has not changed",
        "measures psi: its code has changed since 0123abc",
    ]


def test_section_without_rows_has_to_be_measured(planted: Records) -> None:
    (planted.root / "docs" / "rows.json").write_text('{"rows": []}')
    after = Records.read(planted.root, planted.sections)
    assert after.stale_reason("psi") == "never measured"


def test_two_rows_of_one_name_are_refused(planted: Records) -> None:
    path = planted.root / "docs" / "rows.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"rows": content["rows"] * 2}))
    with pytest.raises(ValueError, match="PSI: parts, PSI: wall"):
        Records.read(planted.root, planted.sections)


def test_stored_rows_replace_those_of_their_section(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    ratio, origin = PairedRatio(0.5, 0.4, 0.6, 3), Provenance("0123abc", "2 cores", "d1")
    store("transport", [shown("a", 1.0, "s"), shown("b", "x", "")], origin, tmp_path)
    store("equality", [at_most("c", 1.0, 2.0, "")], origin, tmp_path)
    store("transport", [at_most("d", ratio, 1.0, "")], origin, tmp_path)
    rows = json.loads((tmp_path / "docs" / "bench.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["d", "c"]
    assert (rows[0]["value"], rows[0]["spread"], rows[0]["pairs"]) == (0.5, [0.4, 0.6], 3)
    assert {"commit", "machine", "code"} <= rows[1].keys()
    assert not {"spread", "pairs"} & rows[1].keys()


@pytest.mark.slow
def test_provenance_names_the_commit_and_uncommitted_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert Provenance.here(["./"], tmp_path).commit == ""
    git("init", "-q")
    (tmp_path / "a.py").write_text(CODE)
    git("add", "a.py")
    git("commit", "-q", "-m", "a")
    measured = Provenance.here(["./"], tmp_path)
    assert measured.commit == git("rev-parse", "--short=7", "HEAD")
    assert "cores" in measured.machine
    assert measured.code == digest_of_files({"a.py": CODE.encode()})
    (tmp_path / "a.py").write_text(CODE.replace("3", "4"))
    assert Provenance.here(["./"], tmp_path).commit == f"{measured.commit}+"


# --- ratios in pairs -----------------------------------------------------------------------------


def test_pairs_alternate_and_drift_cancels_out() -> None:
    order: list[str] = []
    clock = iter(range(1, 100))

    def side(name: str) -> float:
        order.append(name)
        return float(next(clock))

    values = alternate(
        {"one": lambda: side("one"), "two": lambda: side("two")}, 4, lambda text: None, warm_up=1
    )
    assert order == ["two", "one", *["one", "two", "two", "one"] * 2]
    assert sum(values["one"]) == sum(values["two"])
    assert len(values["one"]) == 4


def test_ratio_is_the_median_over_pairs_with_quartiles() -> None:
    assert paired_ratio([1, 4, 9, 16, 25], [1, 2, 3, 4, 5]) == PairedRatio(3, 2, 4, 5)
    assert paired_ratio([3], [2]) == PairedRatio(1.5, 1.5, 1.5, 1)
    with pytest.raises(ValueError, match="at least one pair"):
        paired_ratio([], [])
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1, 2], [1])


# --- the pages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_show_recorded_figures_and_mark_stale_ones(page: Path, records: Records) -> None:
    assert not faults(page.read_text(), records)


NUMBER = "# Speed\n\nIt takes 1.23<!-- row: PSI: wall --> s.\n"
TABLE = "# Speed\n\n<!-- rows: psi -->\n<!-- end -->\n"
STATE = "\n<!-- state -->\n<!-- end -->\n"


def test_right_number_of_a_fresh_row_needs_no_mark(planted: Records) -> None:
    assert faults(NUMBER, planted) == []


@pytest.mark.parametrize("wrong", ["1.24", "1.2346", "2", "12.3"])
def test_number_that_differs_from_its_row_is_found(planted: Records, wrong: str) -> None:
    (fault,) = faults(NUMBER.replace("1.23", wrong), planted)
    assert fault == f"{wrong} is not the recorded 1.2345 of 'PSI: wall'"


@pytest.mark.parametrize(
    "figure",
    [
        "1<!-- row: PSI: wall -->", "1.2e0<!-- row: PSI: wall -->",
        "123 %<!-- row: PSI: wall -->", "1,234<!-- row: PSI: wall; times 1e3 -->",
        "27.6<!-- row: PSI: parts; number 2 -->", "40<!-- row: PSI: parts -->",
    ],
)  # fmt: skip
def test_number_may_be_rounded_scaled_or_part_of_a_text(planted: Records, figure: str) -> None:
    assert faults(f"It takes {figure}.\n", planted) == []


def test_unknown_row_and_missing_number_are_found(planted: Records) -> None:
    found = faults("1<!-- row: PSI: speed --> and fast<!-- row: PSI: wall -->\n", planted)
    assert found == [
        "no record has a row 'PSI: speed'",
        "no number directly before the row 'PSI: wall'",
    ]


def test_stale_number_without_mark_is_found(planted: Records) -> None:
    after = changed(planted, "return r", "return 2 * r")
    (fault,) = faults(NUMBER, after)
    assert f"without the mark '{MARK} 0123abc'" in fault
    marked = NUMBER.replace(" s.", f" s ({MARK} 0123abc).")
    assert faults(marked, after) == []
    assert faults(marked.replace("0123abc", "fffffff"), after)
    assert faults(f"{NUMBER}\n## Other\n\n{MARK} 0123abc.\n", after)  # the mark of another section


def test_generated_mark_follows_the_code(planted: Records) -> None:
    fresh = rendered(NUMBER + STATE, planted)
    assert "measured at 0123abc (2 cores)" in fresh
    assert faults(fresh, planted) == []
    after = changed(planted, "return r", "return 2 * r")
    assert "a table or a mark is not the recorded one: run make docs" in faults(fresh, after)
    assert faults(rendered(fresh, after), after) == []


def test_mark_of_many_commits_names_the_record(planted: Records) -> None:
    after = changed(planted, "return r", "return 2 * r")
    first = after.rows["PSI: wall"]
    for number in range(MOST_NAMED):
        origin = replace(first.provenance, commit=f"abcdef{number}")
        after.rows[f"PSI: {number}"] = replace(first, name=f"PSI: {number}", provenance=origin)
    mark = rendered(STATE.replace("state", "state: psi"), after)
    assert "measured with earlier versions of the program" in mark
    assert f"their {MOST_NAMED + 1} commits are in {after.sections['psi'].path}" in mark
    assert "abcdef" not in mark
    assert faults(rendered(NUMBER + STATE.replace("state", "state: psi"), after), after) == []


def test_mark_may_be_a_sentence_of_a_paragraph(planted: Records) -> None:
    text = rendered(NUMBER.strip() + " <!-- state --><!-- end -->\n", planted)
    assert len(text.splitlines()) == 3
    assert faults(text, planted) == []
    assert rendered(text, planted) == text


def test_generated_table_shows_limit_spread_and_mark(planted: Records) -> None:
    row = "| PSI: wall | 1.234 [1.1, 1.3] s | at most 2 | at 0123abc |"
    assert row in rendered(TABLE, planted)
    assert "PSI: parts" not in rendered(TABLE, planted)  # it has no limit
    after = changed(planted, "return r", "return 2 * r")
    assert row.replace("at 0123abc", "before changes since 0123abc") in rendered(TABLE, after)
    assert faults(rendered(TABLE, planted), after)


def test_mark_without_a_figure_is_found(planted: Records) -> None:
    assert "'# Speed' has a mark but no recorded figure" in faults(
        rendered("# Speed\n" + STATE, planted), planted
    )


ADVICE = "# Advice\n\n<!-- forgetting: leak -->\n<!-- end -->\n"


def test_table_of_the_page_about_forgetting_is_the_recorded_one(records: Records) -> None:
    text = rendered((DOCS / "forgetting.md").read_text(), records)
    assert faults(text, records) == []
    wrong = re.sub(r"(\| digits \| )0\.\d\d", r"\g<1>0.12", text)
    assert wrong != text
    assert faults(wrong, records) == ["a table or a mark is not the recorded one: run make docs"]


def test_generated_advice_needs_the_mark_of_stale_figures(records: Records) -> None:
    stale = {"forgetting": "digest of other code"}
    after = replace(records, codes=stale)
    assert any("stale figures of 'forgetting'" in each for each in faults(ADVICE, after))
    assert faults(rendered(ADVICE + STATE, after), after) == []


def test_bench_of_cost_reads_fields_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "bench"))
    costs = importlib.import_module("bench.forgetting").COSTS
    assert {key for _, key, _ in costs} <= set(MethodCost.model_fields)


# --- the pictures --------------------------------------------------------------------------------


def drawn_record(picture: Path) -> str:
    """The text chunk of a PNG with the digest of the drawn values; empty if there is none."""
    content, at = picture.read_bytes(), 8
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        keyword, _, text = content[at + 8 : at + 8 + size].partition(b"\0")
        if kind == b"tEXt" and keyword.decode() == RECORD:
            return text.decode()
        at += size + 12
    return ""


def figures_of(name: str) -> dict[Path, list[Any]]:
    """The pictures of a benchmark, each with the recorded blocks that it shows."""
    pages_of = BENCHES[name](ROOT / "configs" / "bench" / f"{name}.toml").pages
    folder, blocks = DOCS / pages_of.folder, dict[Path, list[Any]]()
    for each in json.loads((folder / "tables.json").read_text())["blocks"]:
        if each["table"].startswith("Figure"):
            picture = folder / f"{each['table'].lower().replace(' ', '-')}.png"
            blocks.setdefault(picture, []).append(each)
    return {path: own for path, own in blocks.items() if path.exists()}


@pytest.mark.parametrize("name", ["fedora", "language"])
def test_pictures_of_the_tables_show_the_recorded_values(name: str) -> None:
    found = figures_of(name)
    assert found
    for picture, blocks in found.items():
        assert drawn_record(picture) == values_digest(blocks), f"{picture}: run make pictures"


def test_every_picture_of_a_benchmark_has_a_record() -> None:
    recorded = {path for name in BENCHES for path in figures_of(name)}
    assert set(DOCS.glob("*/figure-*.png")) == recorded


STUDIES = [name for name in ("forgetting", "exact-methods") if (DOCS / f"{name}.json").exists()]


@pytest.mark.parametrize("study", STUDIES)
def test_picture_of_a_study_shows_the_recorded_values(study: str) -> None:
    recorded = RecordedStudy.read(DOCS / f"{study}.json").populations.values()
    points = [asdict(each) for each in study_points(recorded)]
    drawn = drawn_record(DOCS / f"{study}.png")
    assert drawn == values_digest(points), "run make docs"
    points[0]["leak"] += 0.001
    assert drawn != values_digest(points)


@pytest.mark.parametrize("study", STUDIES)
def test_record_of_a_study_equals_the_page(study: str) -> None:
    page = (DOCS / f"{study}-study.md").read_text()
    for population in json.loads((DOCS / f"{study}.json").read_text())["populations"]:
        table = page.partition(f"### {population['name']}\n")[2].partition("\n### ")[0]
        for method in population["methods"]:
            audits = [method["auc"][audit] for audit in AUDITS]
            cells = [f"{a['value']:.3f} ({a['low']:.3f} to {a['high']:.3f})" for a in audits]
            assert f"| {method['name']} | {' | '.join(cells)} |" in table


def words_of(svg: str) -> list[str]:
    """The words and numbers of a picture of the terminal."""
    return re.sub(r"<style.*?</style>|<[^>]*>", " ", svg, flags=re.DOTALL).split()


def test_picture_of_the_demo_shows_the_recorded_run() -> None:
    record = pictures.read(DOCS / "demo.json")
    shown_words = words_of((DOCS / "demo.svg").read_text())
    assert shown_words == words_of(pictures.demo_picture(record)), "run make pictures"
    method = record["metrics"]["requests"][0]["methods"][1]
    method["cost"]["rows_of_retrain"] = 0.21
    assert shown_words != words_of(pictures.demo_picture(record))
