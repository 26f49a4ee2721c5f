"""Tests of ``vfl bench fedora``: the list of runs, refused options, and exit codes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from bench_runs import write_list
from typer.testing import CliRunner, Result

from parties.cli.main import app
from parties.experiments.provenance import Provenance


def bench(folder: Path, *options: str) -> Result:
    command = ["bench", "fedora", "--experiments", str(write_list(folder))]
    command += ["--out", str(folder / "out"), "--docs", str(folder / "docs"), *options]
    return CliRunner().invoke(app, command, env={"COLUMNS": "200", "VFL_DATA": None})


def test_list_prints_runs_and_executes_none(tmp_path: Path) -> None:
    result = bench(tmp_path, "--list")
    assert result.exit_code == 0
    assert "missing  works: good, seed 1" in result.output
    assert "3 runs, 3 of them different, 0 done" in result.output
    assert not (tmp_path / "out").exists()


def test_run_recorded_in_the_docs_is_done(tmp_path: Path) -> None:
    digest = bench(tmp_path, "--list").output.split()[0]
    (tmp_path / "docs" / "fedora").mkdir(parents=True)
    stored = {digest: {"title": "x", "seconds": 1.0, "values": {}, **asdict(Provenance("0123abc"))}}
    (tmp_path / "docs" / "fedora" / "runs.json").write_text(json.dumps(stored))
    result = bench(tmp_path, "--list")
    assert f"{digest}  done" in result.output
    assert "3 runs, 3 of them different, 1 done" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--tables", "IV,X"), "unknown table: X"), (("--only", "work"), "unknown experiment: work")],
)
def test_unknown_table_or_experiment_is_refused(
    tmp_path: Path, options: tuple[str, str], message: str
) -> None:
    result = bench(tmp_path, *options)
    assert result.exit_code == 2
    assert message in result.output


def test_tables_that_need_a_gpu_are_refused_without_one(tmp_path: Path) -> None:
    """No page is written that says that no run is finished."""
    words = ["bench", "language", "--tables", "2", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*words, "--docs", str(tmp_path / "docs")])
    assert result.exit_code == 2
    assert "no experiment of these tables runs without a GPU" in " ".join(result.output.split())
    assert not (tmp_path / "docs").exists()
    words = ["bench", "fedora", "--tables", "VII", "--only", "Income, m=2, n=25 %", "--gpu"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out"), "--list"])
    assert result.exit_code == 2
    assert "no experiment of --only is for the tables" in " ".join(result.output.split())


def test_an_output_folder_inside_the_data_is_refused(tmp_path: Path) -> None:
    assert bench(tmp_path, "--data", str(tmp_path)).exit_code == 7


@pytest.mark.slow
def test_failed_run_is_named_and_exit_code_is_one(tmp_path: Path) -> None:
    result = bench(tmp_path, "--tables", "V", "--workers", "1")
    assert result.exit_code == 1
    assert "runs failed: 1" in result.output
    assert "fails: bad, seed 0: exit code" in result.output
    assert "0 of 3 runs" in (tmp_path / "docs" / "fedora" / "tables.md").read_text()
