"""Tests of the tables on given figures: spread, gap to Retrain, paper numbers, Markdown."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_runs import results_of

from parties.experiments.bench.blocks import RETRAIN, STANDARD, VOTES, FedoraBlock, FedoraBlocks
from parties.experiments.bench.checks import judge_value
from parties.experiments.bench.record import fedora_pages, merge_rows, publish_pages
from parties.experiments.bench.results import Results, TableRow, mean_sd
from parties.experiments.bench.tables import (
    block_from_json,
    block_to_json,
    block_to_markdown,
    fill_blocks,
)
from parties.experiments.provenance import Provenance

ROWS = {row.label: row for row in STANDARD}
BLOCK = FedoraBlock(
    table="IV",
    title="A setting",
    experiment="x",
    measures=("test",),
    paper={"Retrain": (0.8,), "CVFU": (0.7,), "GA": (0.5,)},
)
RESULTS = results_of(
    {
        ("x", RETRAIN): {"test": [0.80, 0.84]},
        ("x", ROWS["FedORA (paper)"]): {"test": [0.79, 0.85]},
        ("x", VOTES): {"test": [0.60, 0.70]},
        ("x", ROWS["CVFU"]): {"test": [0.50, 0.50]},
    }
)


def test_standard_deviation_is_over_seeds() -> None:
    summary = mean_sd({0: 0.1, 1: 0.3})
    assert summary is not None
    assert (summary.mean, summary.n) == (pytest.approx(0.2), 2)
    assert summary.sd == pytest.approx(0.1414214)
    assert mean_sd({}) is None
    only = mean_sd({4: 0.5})
    assert only is not None
    assert only.sd is None


def test_cells_have_gaps_to_the_retrain_of_their_system_and_paper_values() -> None:
    (table,) = fill_blocks([BLOCK], RESULTS)
    cells = {line.row.label: line.cells[0] for line in table.lines}
    assert set(cells) == {"Retrain", "FedORA (paper)", VOTES.label, "CVFU", "GA"}
    assert cells["FedORA (paper)"].gap == pytest.approx(0.0)
    assert cells["CVFU"].gap == pytest.approx(-0.15), "minus the Retrain of votes"
    assert cells["CVFU"].paper_gap == pytest.approx(-0.1)
    assert cells["GA"].ours is None
    assert cells["GA"].paper == 0.5


def test_markdown_has_our_values_and_those_of_the_paper() -> None:
    text = block_to_markdown(fill_blocks([BLOCK], RESULTS)[0])
    assert "| Retrain | 0.8200 ± 0.0283 | 0.8000 |" in text
    assert "| GA |  | 0.5000 (-0.3000) |" in text
    assert "| CVFU | 0.5000 ± 0.0000 (-0.1500) | 0.7000 (-0.1000) |" in text


def test_table_states_in_how_many_runs_a_method_was_rolled_back() -> None:
    row = ROWS["FedORA (paper)"]
    values = {"test": [0.79, 0.85], "restored": [1.0, 1.0], "restored-backdoor": [1.0]}
    found = results_of({("x", RETRAIN): {"test": [0.80, 0.84]}, ("x", row): values})
    (shown,) = fill_blocks([BLOCK], found)
    text = block_to_markdown(shown)
    assert "**FedORA (paper) was rolled back in 2 runs without a backdoor:** the figures" in text
    assert "in 1 run with a backdoor:** the figures of this run are those of the trained" in text
    again = block_from_json([BLOCK], block_to_json(shown)).lines
    assert {each.row.label: each.restored for each in again if any(each.restored)} == {
        "FedORA (paper)": (2, 1)
    }
    assert "rolled back" not in block_to_markdown(fill_blocks([BLOCK], RESULTS)[0])


def test_table_states_its_number_of_seeds() -> None:
    assert "\n\n2 seeds.\n\n| row |" in block_to_markdown(fill_blocks([BLOCK], RESULTS)[0])
    uneven = results_of({("x", RETRAIN): {"test": [0.8]}, ("x", VOTES): {"test": [0.6, 0.7]}})
    assert "1 to 2 seeds." in block_to_markdown(fill_blocks([BLOCK], uneven)[0])
    single = results_of({("x", RETRAIN): {"test": [0.8]}})
    no_spread = "One seed, so there is no standard deviation."
    assert no_spread in block_to_markdown(fill_blocks([BLOCK], single)[0])


def test_page_lists_failed_checks_with_their_values(tmp_path: Path) -> None:
    checks = [
        judge_value("R7: ASR, a place", 0.5, "", (0.0, 0.05), "at most 0.05"),
        judge_value("R8: NC", 0.0, "", (0.0, 0.0), "0"),
    ]
    pages = replace(
        fedora_pages(FedoraBlocks(source="somewhere", block=(BLOCK,))), judge=lambda _: checks
    )
    page = publish_pages(pages, RESULTS, "vfl bench fedora", tmp_path).page.read_text()
    missed = "* R7 not reproduced because of “ASR, a place”: measured 0.5, wanted at most 0.05\n"
    assert missed in page
    assert "* R8" not in page


def test_block_that_needs_a_gpu_names_the_command() -> None:
    block = BLOCK.model_copy(update={"experiment": "y", "gpu": True})
    (table,) = fill_blocks([block], RESULTS)
    assert (
        'not run (needs a GPU); to run it: `vfl bench fedora --data DIR --gpu --only "y"`'
        in block_to_markdown(table)
    )
    assert "| GA | 0.5000 (-0.3000) |" in block_to_markdown(table)
    assert "--gpu" in str(block_to_json(table)["not run"])


def test_every_block_has_the_trivial_rows() -> None:
    of_variants = BLOCK.model_copy(update={"variants": ("σ=1", "σ=2")})
    for block in (BLOCK, of_variants):
        assert {"fine-tune", "relabel"} <= {row.method for row in block.rows}


def test_block_without_runs_is_not_run_yet() -> None:
    (table,) = fill_blocks([BLOCK.model_copy(update={"experiment": "y"})], RESULTS)
    assert "not run yet" in block_to_markdown(table)


def test_merge_replaces_the_rows_of_a_section_in_place(tmp_path: Path) -> None:
    path, origin = tmp_path / "rows.json", Provenance("0123abc", "2 cores", "d1")

    def names() -> list[str]:
        return [row["name"] for row in json.loads(path.read_text())["rows"]]

    merge_rows(path, "one", [{"name": "a", "value": 1}, {"name": "b", "value": 2}], origin)
    merge_rows(path, "two", [{"name": "c", "value": 3}], origin)
    merge_rows(path, "one", [{"name": "b", "value": 4}, {"name": "d", "value": 5}], origin)
    assert names() == ["b", "d", "c"]
    first = json.loads(path.read_text())["rows"][0]
    assert first == {
        "name": "b", "value": 4, "section": "one",
        "commit": "0123abc", "machine": "2 cores", "code": "d1",
    }  # fmt: skip
    merge_rows(path, "two", [{"name": "d", "value": 6}], origin)  # the row moves to this section
    assert names() == ["b", "d"]
    merge_rows(path, "one", [], origin)
    assert names() == ["d"]


def test_publish_writes_page_pictures_and_rows(tmp_path: Path) -> None:
    sweep = FedoraBlock(
        table="Figure 8",
        title="Sweep",
        experiment="s",
        measures=("test", "round"),
        variants=("δ=0 %", "δ=5 %"),
        axis="δ",
        points=(0.0, 5.0),
    )
    bars = BLOCK.model_copy(update={"table": "Figure 4"})
    rows = [TableRow(name, name, "fedora") for name in sweep.variants]
    results = results_of(
        {
            ("s", rows[0]): {"test": [0.5, 0.6], "round": [1, 1]},
            ("s", rows[1]): {"test": [0.7, 0.8], "round": [2, 2]},
        }
    )
    results.found |= RESULTS.found
    results.there, results.wanted = 3, 4
    results.provenance = Provenance("0123abc, 4567def", "2 cores")  # two versions of the code
    results.unknown_bases = 2
    blocks = FedoraBlocks(source="somewhere", block=(BLOCK, bars, sweep))
    written = publish_pages(fedora_pages(blocks), results, "vfl bench fedora", tmp_path)
    page = written.page.read_text()
    assert "3 of 4 runs" in page
    assert "**Not complete:**" in page
    assert "**Mixed:**" in page
    assert "**Base model not known:** the records of 2 runs" in page
    assert "![Figure 8](figure-8.png)" in page
    for name in ("figure-4.png", "figure-8.png"):
        assert (tmp_path / "fedora" / name).read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "fedora" / "tables.json").read_text())
    assert content["runs"]["there"] == 3
    assert content["commit"] == "0123abc, 4567def"


def test_publish_without_runs_draws_no_figure(tmp_path: Path) -> None:
    blocks = FedoraBlocks(
        source="somewhere", block=(BLOCK.model_copy(update={"table": "Figure 4"}),)
    )
    written = publish_pages(fedora_pages(blocks), Results(), "vfl bench fedora", tmp_path)
    assert all(each.value is None for each in written.checks)
    assert json.loads(written.figures.read_text())["rows"] == []
    assert not (tmp_path / "fedora" / "figure-4.png").exists()


@pytest.mark.parametrize(
    ("there", "hours", "ok"), [(4, 1.5, True), (4, 2.5, False), (3, 1.5, None)]
)
def test_total_time_is_published_once_all_runs_are_present(
    tmp_path: Path, there: int, hours: float, *, ok: bool | None
) -> None:
    results = Results(there=there, wanted=4, hours=hours)
    blocks = FedoraBlocks(source="somewhere", block=(BLOCK,))
    written = publish_pages(fedora_pages(blocks), results, "vfl bench fedora", tmp_path)
    rows = {row["name"]: row for row in json.loads(written.figures.read_text())["rows"]}
    took = rows.get("all runs of FedORA's tables, two at a time")
    assert took is None if ok is None else (took["value"], took["ok"]) == (hours, ok)
