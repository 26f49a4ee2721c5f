"""The report that a passive party writes for itself."""

import json
from html import unescape
from pathlib import Path
from re import sub

import pytest
from typer.testing import CliRunner

from parties.cli.main import app
from parties.report.record import RunRecord, read_record

SHORT = ("training.epochs=2", "unlearning.compare=[]", "unlearning.retrains=0")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with one request."""
    out = tmp_path_factory.mktemp("runs")
    words = ["simulate", "digits", "--in-process", "--out", str(out)]
    for each in SHORT:
        words += ["--set", each]
    found = CliRunner().invoke(app, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return out / "digits"


@pytest.fixture(scope="module")
def record(run: Path) -> RunRecord:
    return read_record(json.loads((run / "metrics.json").read_bytes()))


def words_of(page: Path) -> str:
    """The text of a page without its markup."""
    return " ".join(unescape(sub("<[^>]+>", " ", page.read_text())).split())


@pytest.mark.parametrize("name", ["left", "right"])
def test_each_passive_party_has_its_own_figures(run: Path, record: RunRecord, name: str) -> None:
    text = words_of(run / name / "report.html")
    assert f"{name} trained its part of a model with office on 1,533 common rows" in text
    rows = record.run.rows or {}
    forgotten = next(each for each in record.requests).rows
    assert forgotten is not None
    for what, count in (
        ("rows to learn", rows["learn"] - forgotten.forgotten),
        ("rows to validate", rows["validation"]),
        ("rows to test", rows["test"]),
        ("common rows whose features it still keeps", 1533 - forgotten.forgotten),
    ):
        assert f"{what} {count:,}" in text
    assert f"row map and features of {forgotten.forgotten} rows" in text
    assert record.run.session in text
    assert record.run.agreement in text


def test_figures_of_the_active_party_stay_there(run: Path, record: RunRecord) -> None:
    assert record.model is not None
    accuracy = f"{record.model.accuracy:.1%}".removesuffix("%")
    assert accuracy in words_of(run / "report.html")
    for name in ("left", "right"):
        text = words_of(run / name / "report.html")
        assert accuracy not in text
        assert "AUC" not in text
