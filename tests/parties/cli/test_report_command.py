"""``vfl report``: the page is made from metrics alone, and other files are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_metrics import sample
from typer.testing import CliRunner, Result

from parties.cli.main import app
from parties.common.json_files import canonical_json
from parties.report.pages.officer import officer_page
from parties.report.pages.scientist import report_page


def report(*options: str | Path) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, options)], env={"COLUMNS": "120"})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "metrics.json").write_bytes(canonical_json(sample()))
    return tmp_path


@pytest.mark.parametrize("named", ["", "metrics.json"])
def test_the_page_is_rebuilt_from_a_folder_or_a_file(run: Path, named: str) -> None:
    result = report(run / named)
    assert result.exit_code == 0, result.output
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert "every method beside Retrain" in result.output


def test_rebuilt_page_equals_the_page_of_the_run(run: Path) -> None:
    report(run)
    assert (run / "report.html").read_text() == report_page(json.loads(canonical_json(sample())))


def test_json_output_contains_the_path_of_the_page(run: Path) -> None:
    result = report(run, "--format", "json")
    assert json.loads(result.output) == {
        "event": "result",
        "report": str(run / "report.html"),
        "metrics": str(run / "metrics.json"),
    }


def test_the_officers_page_is_written_too_and_named_on_request(run: Path) -> None:
    result = report(run, "--for", "officer", "--format", "json")
    assert json.loads(result.output)["report"] == str(run / "officer.html")
    assert (run / "officer.html").read_text() == officer_page(sample())
    assert (run / "report.html").exists()


def test_two_runs_are_compared_on_one_page(run: Path, tmp_path: Path) -> None:
    other, page = tmp_path / "other.json", tmp_path / "both.html"
    other.write_bytes(canonical_json(sample() | {"requests": []}))
    result = report(run, other, "--out", page)
    assert result.exit_code == 0, result.output
    assert "Only one of the runs has the requests half-of-3-and-8" in page.read_text()
    assert not (run / "report.html").exists()


def test_unfinished_run_has_a_report(run: Path) -> None:
    partial = sample() | {"training": None, "requests": [], "traffic": [], "peers": []}
    (run / "metrics.json").write_bytes(canonical_json(partial))
    assert report(run).exit_code == 0


def without(part: str) -> Callable[[dict[str, Any]], Any]:
    return lambda metrics: {key: value for key, value in metrics.items() if key != part}


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another program's": (lambda _: {"accuracy": 0.9}, "is not the metrics file of a run"),
    "a list": (lambda metrics: [metrics], "is not the metrics file of a run"),
    "without a part": (without("training"), "is not the metrics file of a run"),
    "no version": (without("version"), "has format version None"),
    "a later version": (lambda metrics: metrics | {"version": 4}, "has format version 4"),
    "a run that is a word": (lambda metrics: metrics | {"run": "x"}, "the report needs"),
    "a request that is none": (lambda metrics: metrics | {"requests": [{}]}, "the report needs"),
}


@pytest.mark.parametrize("case", WRONG)
def test_metrics_of_another_program_are_refused(run: Path, case: str) -> None:
    change, message = WRONG[case]
    (run / "metrics.json").write_text(json.dumps(change(sample())))
    result = report(run)
    assert result.exit_code == 4, result.output
    assert message in " ".join(result.output.split())
    assert "hint:" in result.output
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"run": NaN}'])
def test_file_that_is_not_json_is_refused(run: Path, content: bytes) -> None:
    (run / "metrics.json").write_bytes(content)
    result = report(run)
    assert result.exit_code == 4
    assert "is not JSON" in " ".join(result.output.split())


def test_a_folder_without_metrics_is_refused(tmp_path: Path) -> None:
    result = report(tmp_path)
    assert result.exit_code == 4
    assert "metrics.json" in result.output
